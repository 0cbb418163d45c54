"""Metrics in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True)
class Family:
    """All values of one name. A counter's name ends in `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Sequence[Sample]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name} cannot be the name of a metric")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: the name of a counter, and of nothing else, ends in _total")
        for label in {label for labels, _ in self.samples for label in labels}:
            if not _LABEL.fullmatch(label):
                raise ValueError(f"{label} cannot be a label of {self.name}")


def render(families: Iterable[Family]) -> str:
    """The families in their order. Those without a value are left out."""
    return "".join(_family(family) for family in families if family.samples)


def _family(family: Family) -> str:
    told = family.help.replace("\\", r"\\").replace("\n", r"\n")
    lines = [f"# HELP {family.name} {told}\n", f"# TYPE {family.name} {family.kind}\n"]
    return "".join([*lines, *(f"{family.name}{_labels(labels)} {_value(value)}\n" for labels, value in family.samples)])


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
