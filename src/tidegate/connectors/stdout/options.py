"""What `INTO STDOUT (...)` can be told."""

from __future__ import annotations

from tidegate.connectors.contract import SinkSpec
from tidegate.core.options import Bag, checked_format

FORMATS = ("ops", "json")


def line_format(spec: SinkSpec, bag: Bag) -> str:
    """Takes the sink's options out of the bag. Events are JSON unless told otherwise."""
    return checked_format(bag, spec.format, FORMATS, "json" if spec.events else "ops")
