"""The metrics endpoint, parsed by Prometheus' own parser."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tidegate.errors import Error
from tidegate.runtime.exposition import CONTENT_TYPE, render
from tidegate.server.metrics import MetricsServer


class Fixed(Collector):
    """Collects a fixed list of metrics."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def text_of(*families: Metric) -> str:
    registry = CollectorRegistry()
    registry.register(Fixed(*families))
    return render(registry)


def events() -> CounterMetricFamily:
    family = CounterMetricFamily("tidegate_view_events_processed", "Events that a view has counted.", labels=["view"])
    family.add_metric(["revenue"], 12)
    family.add_metric(['a "b"\\\n{c="d"}'], 1.5)
    return family


def test_the_text_of_the_metrics() -> None:
    step = GaugeMetricFamily("tidegate_step", "The newest step.\\ Or\nso.", 42.0)
    large = GaugeMetricFamily("tidegate_rows", "Rows.", labels=["relation", "code"])
    large.add_metric(["orders", "A"], 12345678)
    empty = GaugeMetricFamily("tidegate_lag_seconds", "How far behind.", labels=["view"])
    assert text_of(step, empty, large, events()) == (
        "# HELP tidegate_step The newest step.\\\\ Or\\nso.\n"
        "# TYPE tidegate_step gauge\n"
        "tidegate_step 42\n"
        "# HELP tidegate_rows Rows.\n"
        "# TYPE tidegate_rows gauge\n"
        'tidegate_rows{relation="orders",code="A"} 12345678\n'
        "# HELP tidegate_view_events_processed_total Events that a view has counted.\n"
        "# TYPE tidegate_view_events_processed_total counter\n"
        'tidegate_view_events_processed_total{view="revenue"} 12\n'
        'tidegate_view_events_processed_total{view="a \\"b\\"\\\\\\n{c=\\"d\\"}"} 1.5\n'
    )


def test_prometheus_parses_the_metrics() -> None:
    odd = [("nan", math.nan), ("up", math.inf), ("down", -math.inf), ("ä€", 1e300), ("small", -1e-9)]
    odd.append(("whole", float(1 << 60)))
    values = GaugeMetricFamily("tidegate_odd", 'a "help"', labels=["kind"])
    for kind, value in odd:
        values.add_metric([kind], value)
    counter, gauge = text_string_to_metric_families(text_of(events(), values))
    assert (counter.name, counter.type, counter.documentation) == (
        "tidegate_view_events_processed", "counter", "Events that a view has counted."
    )  # fmt: skip
    assert counter.samples == events().samples
    assert (gauge.type, gauge.documentation) == ("gauge", 'a "help"')
    assert math.isnan(gauge.samples[0].value)
    assert [(sample.labels["kind"], sample.value) for sample in gauge.samples[1:]] == odd[1:]


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    steps = iter(range(1, 100))
    metrics = MetricsServer("127.0.0.1", 0, lambda: text_of(GaugeMetricFamily("step", "Steps.", next(steps))))
    yield metrics
    metrics.close()


def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read().decode()


def test_metrics_are_collected_for_each_request(server: MetricsServer) -> None:
    for step in (1, 2):
        text = f"# HELP step Steps.\n# TYPE step gauge\nstep {step}\n"
        assert fetch(server.port, "/metrics?x=1") == (200, CONTENT_TYPE, text)
    assert fetch(server.port, "/metrics", "HEAD") == (200, CONTENT_TYPE, "")


def test_other_requests(server: MetricsServer) -> None:
    assert json.loads(fetch(server.port, "/health")[2]) == {"status": "ok"}
    assert fetch(server.port, "/")[0] == 404
    assert fetch(server.port, "/metrics", "DELETE")[0] == 405


def test_a_failure_to_collect_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def collect() -> str:
        raise RuntimeError("dictionary changed size\nduring iteration")

    broken = MetricsServer("127.0.0.1", 0, collect)
    try:
        status, kind, text = fetch(broken.port, "/metrics")
        assert (status, kind) == (500, "application/json")
        assert json.loads(text) == {"error": "RuntimeError: dictionary changed size\nduring iteration"}
        assert fetch(broken.port, "/health")[0] == 200, "the server keeps running"
    finally:
        broken.close()
    assert caplog.messages == [f"a request to port {broken.port} failed: RuntimeError: dictionary changed size"]


def test_a_port_in_use_is_an_error(server: MetricsServer) -> None:
    with pytest.raises(Error) as caught:
        MetricsServer("127.0.0.1", server.port, str)
    assert str(caught.value.message) == f"port {server.port} of 127.0.0.1 is in use"
