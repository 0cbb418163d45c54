"""Aggregates over lists of values, as Spark defines them."""

from __future__ import annotations

from typing import Any

from tests.differential.pipeline import Aggregate


def aggregate(call: Aggregate, records: list[dict[str, Any]], clock: int) -> Any:
    """The value over records, each as often as it is in the list."""
    if call.over is not None:
        records = [record for record in records if call.over.holds(record, clock)]
    if call.column == "*":
        return len(records)
    values = [record[call.column] for record in records if record[call.column] is not None]
    match call.function:
        case "COUNT":
            return len(values)
        case "DISTINCT":
            return len(set(values))
        case "SUM":
            return sum(values) if values else None
        case "MIN":
            return min(values, default=None)
        case "MAX":
            return max(values, default=None)
        case "AVG":
            return sum(values) / len(values) if values else None
    raise ValueError(call.function)
