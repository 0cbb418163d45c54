"""Assigning single rows to windows, against the naive model."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_windows import at, lengths
from tests.kernels.timed import TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference import Change, picked
from tests.model.reference_time import EPOCH, sessions, windows
from tests.tiers import examples
from tidegate.core.durations import CalendarInterval
from tidegate.ir.specs import AssignWindowsSpec
from tidegate.ir.windows import WindowSpec

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"k": pl.String(), "ts": pl.Datetime("us", "UTC"), "i": pl.Int64()}
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "ts": st.none() | st.integers(-10, 40).map(at),
        "i": st.sampled_from([1, 2, None]),
    }
)
SESSIONS = st.sampled_from([1, 3, 8]).map(lambda gap: WindowSpec("session", "ts", CalendarInterval(micros=gap)))


@examples(80)
@given(lengths("micros") | SESSIONS, st.sampled_from([(), ("k",)]), drawn_steps(ROW, deletes=True))
def test_rows_are_assigned_to_their_windows(window: WindowSpec, partition: Any, drawn: Any) -> None:
    spec = AssignWindowsSpec(window, tuple(SCHEMA), partition)
    bench, present = TimedBench(spec, SCHEMA, partition), list[Change]()
    for step, clock, changes in zip(drawn, clocks(drawn), changes_of(drawn), strict=True):
        for change, _ in changes:
            if change.weight > 0:
                present.append(change)
            else:
                present.remove(next(row for row in present if row.row == change.row))
        bench.turn(changes, clock, step.begin)
        assert bench.output == expected(spec, [row for row in present if row.row["ts"] is not None])
        if window.kind == "session":
            assert bench.content() == bench.output


def expected(spec: AssignWindowsSpec, rows: list[Change]) -> Counter[Any]:
    if spec.window.kind == "session":
        per_key = sessions(spec.window, spec.partition, rows)
        return Counter(
            (*picked(entry.row.row, SCHEMA), *(at(edge) for edge in (session.start, session.end)))
            for session in per_key
            for entry in session.entries
        )
    return Counter(
        (*picked(row.row, SCHEMA), *(at((edge - EPOCH) // datetime.timedelta(microseconds=1)) for edge in window))
        for row in rows
        for window in windows(spec.window, row.row["ts"])
    )
