"""The metrics of a running database for Prometheus. Counters start at zero with the process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidegate.catalog.bus import BUS
from tidegate.catalog.maintained import event_views
from tidegate.runtime.exposition import render
from tidegate.storage.step_header import StepHeader

if TYPE_CHECKING:
    from tidegate.runtime.runtime import Runtime

NOT_A_NUMBER = "TYPE_MISMATCH"


class Totals:
    """Sums over all steps since the process started."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0
        self.last_seconds = 0.0
        self.last_started = 0.0
        self.rows_in: Counter[str] = Counter()
        self.rows_out: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.overflow: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()

    def add(self, header: StepHeader) -> None:
        """Add a step."""
        self.steps += 1
        self.last_seconds = header.millis / 1000
        self.last_started = header.started
        self.seconds += self.last_seconds
        self.rows_in.update(header.rows_in)
        self.events.update(header.events)
        self.overflow.update(header.overflow)
        self.rows_out.update({name: changed.rows for name, changed in header.changes_per_relation().items()})
        self.late.update(header.late_per_relation())
        self.errors.update((each.relation, each.code) for each in header.errors)


class DatabaseCollector(Collector):
    """Reads the metrics of one database when they are scraped."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        for part in (_views, _pipeline, _inputs, _captures, _outputs):
            yield from part(self._runtime)


def prometheus(runtime: Runtime) -> str:
    """Return all metrics of a database in the text format."""
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(runtime))
    return render(registry)


def _views(runtime: Runtime) -> Iterator[Metric]:
    totals, views = runtime.totals, [view.name for view in event_views(runtime.catalog.value)]
    groups = runtime.definitions.group_counts() if runtime.spark.running else {}

    def of_views(values: Mapping[str, float]) -> dict[str, float]:
        return {view: values.get(view, 0) for view in views}

    not_numbers = {view: totals.errors[view, NOT_A_NUMBER] for view in views}
    emitted = of_views(runtime.event_results.emitted)
    yield _counter("view_windows_emitted", "Windows whose results returned to the bus", "view", emitted)
    yield _counter("view_events_processed", "Events counted by a view", "view", of_views(totals.events))
    yield _gauge("view_groups", "Groups kept by a view", "view", of_views(groups))
    yield _counter("view_groups_overflow", "Events of groups beyond max_groups", "view", of_views(totals.overflow))
    yield _counter("view_type_errors", "Values that could not be parsed as numbers", "view", not_numbers)


def _pipeline(runtime: Runtime) -> Iterator[Metric]:
    totals, last = runtime.totals, runtime.log.last()
    unread = max(runtime.inserts.head() - runtime.log.header(last).entry, 0)
    yield CounterMetricFamily("tidegate_steps", "Steps since the process started", totals.steps)
    yield CounterMetricFamily("tidegate_step_seconds", "Total duration of the steps", totals.seconds)
    yield GaugeMetricFamily("tidegate_last_step", "Number of the newest step", last)
    yield GaugeMetricFamily("tidegate_last_step_seconds", "Duration of the newest step", totals.last_seconds)
    yield GaugeMetricFamily("tidegate_last_step_timestamp_seconds", "Start of the newest step", totals.last_started)
    yield GaugeMetricFamily("tidegate_unread_entries", "Entries of the insert log that no step has read", unread)


def _inputs(runtime: Runtime) -> Iterator[Metric]:
    totals = runtime.totals
    yield _counter("rows_in", "Rows received", "relation", _sorted(totals.rows_in))
    yield _counter("late_rows", "Rows that arrived too late", "relation", _sorted(totals.late))
    errors = CounterMetricFamily("tidegate_errors", "Rows in system.errors", labels=["relation", "code"])
    for (relation, code), count in sorted(totals.errors.items()):
        errors.add_metric([relation, code], count)
    yield errors


def _captures(runtime: Runtime) -> Iterator[Metric]:
    by_metric: dict[str, dict[str, float]] = {}
    for source, metrics in runtime.captures.metrics().items():
        for name, value in metrics.items():
            by_metric.setdefault(re.sub(r"[^a-zA-Z0-9_]", "_", name), {})[source] = value
    for name, values in sorted(by_metric.items()):
        words = name.removesuffix("_total").replace("_", " ").capitalize()
        if name.endswith("_total"):
            yield _counter(f"capture_{name}", f"{words} by a capture", "source", values)
        else:
            yield _gauge(f"capture_{name}", f"{words} of a capture", "source", values)


def _outputs(runtime: Runtime) -> Iterator[Metric]:
    rows_out, sinks, behind = runtime.totals.rows_out, runtime.sinks, runtime.sinks.behind()
    existing = {name: rows for name, rows in _sorted(rows_out).items() if name == BUS or name in runtime.catalog.value}
    failing = {sink: float(sink in sinks.failures) for sink in behind}
    yield _counter("rows_out", "Changes of a relation", "relation", existing)
    yield _gauge("sink_lag_steps", "Steps that a sink has not applied", "sink", behind)
    yield _counter("sink_dead_letters", "Dead letters of a sink", "sink", sinks.dead_letters())
    yield _gauge("sink_failing", "1 while a sink cannot deliver and retries", "sink", failing)


def _sorted(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items()))


def _counter(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    return _filled(CounterMetricFamily(f"tidegate_{name}", help, labels=[label]), values.items())


def _gauge(name: str, help: str, label: str, values: Mapping[str, float]) -> Metric:
    return _filled(GaugeMetricFamily(f"tidegate_{name}", help, labels=[label]), values.items())


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, values: Iterable[tuple[str, float]]
) -> CounterMetricFamily | GaugeMetricFamily:
    for value_of_label, value in values:
        family.add_metric([value_of_label], value)
    return family
