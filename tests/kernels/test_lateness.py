"""LATENESS of keyed tables, against a naive table that applies changes one by one."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.timed import TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference import Row, picked
from tests.model.reference_time import EPOCH, passing
from tests.tiers import examples
from tidegate.ir.specs import TableSpec
from tidegate.ir.specs import WatermarkTest as Below

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"id": pl.Int64(), "ts": pl.Datetime("us"), "n": pl.Int64(), "v": pl.String()}
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "ts": st.integers(-10, 40).map(lambda us: EPOCH + datetime.timedelta(microseconds=us)),
        "n": st.none() | st.integers(-10, 40),
        "v": st.sampled_from(["x", "y"]),
    }
)
TESTS = st.sampled_from([(Below("ts", "f"),), (Below("ts", "f"), Below("n", "g"))])


@examples(120)
@given(
    TESTS, st.sampled_from([("id",), ("id", "ts")]), st.booleans(), drawn_steps(ROW, True, watermarks=2), st.booleans()
)
def test_late_changes_are_not_applied(tests: Any, key: Any, append_only: bool, drawn: Any, ends: bool) -> None:
    spec = TableSpec("t", tuple(SCHEMA), key, append_only, tests)
    bench, rows = TimedBench(spec, SCHEMA, key), dict[Row, Any]()
    steps = changes_of(drawn, any_row=True)
    for step, clock, changes in zip(drawn, clocks(drawn, "fg", ends=ends), steps, strict=True):
        late: Counter[Row] = Counter()
        for change, _ in changes:
            apply(rows, change, spec, clock.watermarks, late)
        bench.turn(changes, clock, step.begin)
        assert bench.outcome.late == late
        assert bench.output == Counter(picked(row, SCHEMA) for row in rows.values())
        evicted = [row for row in rows.values() if "ts" in key and passing(tests[0], row, clock.watermarks)]
        assert bench.rows_stored() == len(rows) - len(evicted)


def apply(rows: dict[Row, Any], change: Any, spec: TableSpec, watermarks: Any, late: Counter[Row]) -> None:
    key = picked(change.row, spec.key)
    current, by_key = rows.get(key), [test for test in spec.lateness if test.column in spec.key]

    def below(row: Any, tests: Any = spec.lateness) -> bool:
        return any(passing(test, row, watermarks) for test in tests)

    if spec.append_only:
        if change.weight > 0 and below(change.row):
            late[picked(change.row, sorted(SCHEMA))] += 1
        elif change.weight > 0:
            rows.setdefault(key, change.row)
    elif (change.weight > 0 and below(change.row)) or below(change.row, by_key):
        late[picked(change.row, sorted(SCHEMA))] += change.weight
    elif current is not None and below(current):
        late[picked(change.row if change.weight > 0 else current, sorted(SCHEMA))] += change.weight
    elif change.weight > 0:
        rows[key] = change.row
    else:
        rows.pop(key, None)
