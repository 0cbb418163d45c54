"""Metrics in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: CollectorRegistry) -> str:
    """Render the metrics of a registry that have a value, in their order.

    prometheus_client's own `generate_latest` would print 42 as `42.0`, 12345678 as `1.2345678e+07`, and labels by
    alphabet.
    """
    return "".join(_family(metric) for metric in registry.collect() if metric.samples)


def _family(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    help = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
    samples = [f"{sample.name}{_labels(sample.labels)} {_value(sample.value)}\n" for sample in metric.samples]
    return "".join([f"# HELP {name} {help}\n", f"# TYPE {name} {metric.type}\n", *samples])


def _labels(labels: Mapping[str, str]) -> str:
    text = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{text}}}" if text else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
