"""Counters and rates, computed from the step log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tidegate.catalog import Catalog
from tidegate.storage.step_header import Changed, StepHeader
from tidegate.storage.step_log import StepLog

WINDOW_SECONDS = 10.0


def metrics(log: StepLog, catalog: Catalog, opened: float, now: float | None = None) -> dict[str, Any]:
    """Return totals since the log began and rates over the last seconds. `opened`: when the present run began; what
    earlier runs did counts in the totals only."""
    headers, now = log.headers(), time.time() if now is None else now
    begin = max(now - WINDOW_SECONDS, opened)
    recent = [header for header in headers if begin <= header.started <= now]
    seconds = max(now - begin, 1.0)
    inputs, inputs_recent = _sum_inputs(headers), _sum_inputs(recent)
    outputs, outputs_recent = _sum_outputs(headers), _sum_outputs(recent)
    watermarks = dict(headers[-1].watermarks) if headers else {}
    return {
        "step": log.last(),
        "steps_per_s": len(recent) / seconds,
        "millis": headers[-1].millis if headers else 0.0,
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
        "late": sum(log.late_count(header) for header in headers),
        "errors": sum(len(header.errors) for header in headers),
        "watermarks": watermarks,
        "waterlines": watermarks,  # the former name of the same
    }


def _sum_inputs(headers: Sequence[StepHeader]) -> Counter[str]:
    total: Counter[str] = Counter()
    for header in headers:
        total.update(header.rows_in)
    return total


def _sum_outputs(headers: Sequence[StepHeader]) -> dict[str, Changed]:
    """Add up the changes of each relation over several steps."""
    total: dict[str, Changed] = {}
    for header in headers:
        for name, (rows, net) in header.changes_per_relation().items():
            before = total.get(name, Changed(0, 0))
            total[name] = Changed(before.rows + rows, before.net + net)
    return total
