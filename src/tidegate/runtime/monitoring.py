"""What a running database tells Prometheus. Counters count from the start of the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate.catalog.bus import BUS
from tidegate.catalog.maintained import event_views
from tidegate.runtime.exposition import Family, Sample, render
from tidegate.storage.step_header import StepHeader

if TYPE_CHECKING:
    from tidegate.runtime.runtime import Runtime

NO_NUMBER = "TYPE_MISMATCH"


class Totals:
    """Sums over all steps since the process began."""

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
        """One more step."""
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


def prometheus(runtime: Runtime) -> str:
    """All figures of a database, in the text format."""
    return render([*_views(runtime), *_pipeline(runtime), *_inputs(runtime), *_outputs(runtime)])


def _views(runtime: Runtime) -> Iterator[Family]:
    totals, views = runtime.totals, [view.name for view in event_views(runtime.catalog.value)]
    groups = runtime.definitions.group_counts() if runtime.spark.running else {}
    emitted = runtime.event_results.emitted

    yield _counter(
        "view_windows_emitted", "Windows whose results returned to the bus", "view", views, emitted.__getitem__
    )
    yield _counter("view_events_processed", "Events that a view counted", "view", views, totals.events.__getitem__)
    yield _gauge("view_groups", "Groups that a view keeps", [({"view": each}, groups.get(each, 0)) for each in views])
    yield _counter(
        "view_groups_overflow", "Events of groups beyond max_groups", "view", views, totals.overflow.__getitem__
    )
    yield _counter(
        "view_type_errors",
        "Values that were to be numbers and are none",
        "view",
        views,
        lambda view: totals.errors[view, NO_NUMBER],
    )


def _pipeline(runtime: Runtime) -> Iterator[Family]:
    totals = runtime.totals
    header = runtime.log.header(runtime.log.last())
    yield _counter("steps", "Steps since the start of the process", "", [""], lambda _: totals.steps)
    yield _counter("step_seconds", "Time that steps took", "", [""], lambda _: totals.seconds)
    yield _gauge("last_step", "The number of the newest step", [({}, runtime.log.last())])
    yield _gauge("last_step_seconds", "How long the newest step took", [({}, totals.last_seconds)])
    yield _gauge("last_step_timestamp_seconds", "When the newest step began", [({}, totals.last_started)])
    yield _gauge(
        "unread_entries",
        "Entries of the insert log that no step has had yet",
        [({}, max(runtime.inserts.head() - header.entry, 0))],
    )


def _inputs(runtime: Runtime) -> Iterator[Family]:
    totals = runtime.totals
    yield _counter("rows_in", "Rows that came", "relation", sorted(totals.rows_in), totals.rows_in.__getitem__)
    yield _counter("late_rows", "Rows that came too late", "relation", sorted(totals.late), totals.late.__getitem__)
    yield Family(
        "tidegate_errors_total",
        "counter",
        "Rows in system.errors",
        [({"relation": relation, "code": code}, n) for (relation, code), n in sorted(totals.errors.items())],
    )
    figures: dict[str, list[Sample]] = {}
    for name, told in runtime.captures.metrics().items():
        for figure, value in told.items():
            figures.setdefault(figure, []).append(({"source": name}, value))
    for figure, samples in sorted(figures.items()):
        kind = figure.removesuffix("_total")
        if figure.endswith("_total"):
            yield Family(f"tidegate_capture_{figure}", "counter", f"{_words(kind)} by a capture", samples)
        else:
            yield _gauge(f"capture_{figure}", f"{_words(kind)} of a capture", samples)


def _outputs(runtime: Runtime) -> Iterator[Family]:
    totals = runtime.totals
    known = [each for each in sorted(totals.rows_out) if each == BUS or each in runtime.catalog.value]
    yield _counter("rows_out", "Changes that left a relation", "relation", known, totals.rows_out.__getitem__)
    behind = runtime.sinks.behind()
    yield _gauge("sink_lag_steps", "Steps that a sink has not applied", [({"sink": s}, n) for s, n in behind.items()])
    buried = runtime.sinks.dead_letters()
    yield _counter("sink_dead_letters", "Requests put aside", "sink", list(buried), buried.__getitem__)
    yield _gauge(
        "sink_failing",
        "1 for a sink that cannot deliver, and is tried again",
        [({"sink": sink}, float(sink in runtime.sinks.failures)) for sink in behind],
    )


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _counter(name: str, told: str, label: str, names: list[str], value: Any) -> Family:
    samples = [({label: each} if label else {}, float(value(each))) for each in names]
    return Family(f"tidegate_{name}_total", "counter", told, samples)


def _gauge(name: str, told: str, samples: list[Sample]) -> Family:
    return Family(f"tidegate_{name}", "gauge", told, samples)
