"""Sources that only ever give events."""

from __future__ import annotations

from tidegate.connectors.contract import SourceSpec
from tidegate.core.options import Bag
from tidegate.errors import make


def refuse_columns(spec: SourceSpec, bag: Bag) -> None:
    """They go to the bus, which has columns of its own."""
    if spec.format is not None:
        raise make("UNKNOWN_FORMAT", message=f"{spec.kind} has no formats", hint="leave FORMAT out", span=bag.span)
    if spec.columns:
        raise make(
            "NOT_SUPPORTED",
            message=f"{spec.kind} gives events, so {spec.relation} has no columns of its own",
            hint=f"CREATE SOURCE {spec.relation} FROM {spec.kind} (...), and read pgcdc_events",
            span=bag.span,
        )
