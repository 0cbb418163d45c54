"""Counters and rates, read off the step log."""

from __future__ import annotations

from typing import Any

from tidegate.catalog import Catalog
from tidegate.storage.step_log import StepLog, counts, late_count

WINDOW_SECONDS = 10.0


def metrics(log: StepLog, catalog: Catalog) -> dict[str, Any]:
    """The state of a pipeline in numbers: totals since the log began, rates over the last seconds."""
    headers = log.headers()
    recent = [item for item in headers if item[1]["started"] >= _start(headers)]
    seconds = max(WINDOW_SECONDS if len(recent) < 2 else recent[-1][1]["started"] - recent[0][1]["started"], 0.001)
    inputs, inputs_recent = _sum_inputs(headers), _sum_inputs(recent)
    outputs, outputs_recent = _sum_outputs(headers), _sum_outputs(recent)
    return {
        "step": log.last(),
        "steps_per_s": len(recent) / seconds,
        "millis": headers[-1][1]["millis"] if headers else 0.0,
        "inputs": {
            relation.name: {
                "rows_in": inputs.get(relation.name, 0),
                "rate": inputs_recent.get(relation.name, 0) / seconds,
            }
            for relation in catalog.of_kind("source", "table")
        },
        "views": {
            view.name: {
                "rows_out": outputs.get(view.name, (0, 0))[0],
                "rows": outputs.get(view.name, (0, 0))[1],
                "rate": outputs_recent.get(view.name, (0, 0))[0] / seconds,
            }
            for view in catalog.of_kind("view")
            if view.materialized
        },
        "late": sum(late_count(header) for _, header in headers),
        "errors": sum(len(header["errors"]) for _, header in headers),
        "waterlines": dict(headers[-1][1].get("waterlines", {})) if headers else {},
    }


def _start(headers: list[tuple[int, dict[str, Any]]]) -> float:
    return float(headers[-1][1]["started"]) - WINDOW_SECONDS if headers else 0.0


def _sum_inputs(headers: list[tuple[int, dict[str, Any]]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, header in headers:
        for relation, count in header["rows_in"].items():
            found[relation] = found.get(relation, 0) + count
    return found


def _sum_outputs(headers: list[tuple[int, dict[str, Any]]]) -> dict[str, tuple[int, int]]:
    """Per relation: rows that left, and what is there now (the sum of weights)."""
    found: dict[str, tuple[int, int]] = {}
    for _, header in headers:
        for name, rows, net in counts(header):
            before = found.get(name, (0, 0))
            found[name] = (before[0] + rows, before[1] + net)
    return found
