"""Groups and rows that can never change again are evicted, which does not change the output."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.ir.specs import AggregateCall, AggregateSpec, DistinctSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels import aggregates, make
from tidegate.kernels.api import Clock
from tidegate.kernels.state import CACHE, MemorySegments, Store

SUM = AggregateCall("sum", ("x",), ("bigint",), "total", "bigint")
HIGHEST = AggregateCall("max", ("x",), ("bigint",), "top", "bigint")
SPECS = {
    "sums": AggregateSpec(("day",), (SUM,), append_only=True, scalar=False),
    "extremes of what can be deleted": AggregateSpec(("day",), (HIGHEST,), append_only=False, scalar=False),
    "distinct rows": DistinctSpec(("day", "x"), append_only=True),
    "distinct rows that can be deleted": DistinctSpec(("day", "x"), append_only=False),
}
OVER = (WatermarkTest("day", "watermark"),)


class Run:
    def __init__(self, spec: AggregateSpec | DistinctSpec) -> None:
        self.kernel, self.segments, self.steps = make(spec), MemorySegments(), 0
        self.output: Counter[tuple[object, ...]] = Counter()
        self.dropped = 0
        self.hashes = aggregates.hashes(spec) if isinstance(spec, AggregateSpec) else ()

    def step(self, rows: list[tuple[int, int]], watermark: int | None) -> None:
        self.steps += 1
        CACHE.clear()
        frame = pl.DataFrame(
            {
                "day": [day for day, _ in rows],
                "x": [x for _, x in rows],
                HASH: [hash((day, 7)) for day, _ in rows],
                SEQ: list(range(len(rows))),
                WEIGHT: [1] * len(rows),
            },
            schema={"day": pl.Int64, "x": pl.Int64, HASH: pl.Int64, SEQ: pl.Int64, WEIGHT: pl.Int64},
        )
        frame = frame.with_columns(pl.col("x").alias(name) for name, _ in self.hashes)
        state = Store(self.segments)
        inputs = [self.kernel.combine(0, frame)] if rows else [None]
        delta = self.kernel.step(inputs, Clock(self.steps, 0, {"watermark": watermark}), state, self.steps == 1)
        state.commit()
        self.dropped += delta.evicted
        for row in delta.rows.iter_rows() if delta.rows is not None else ():
            self.output[row[:-1]] += row[-1]
        self.output = Counter({row: weight for row, weight in self.output.items() if weight})

    def stored(self) -> int:
        CACHE.clear()
        content = self.kernel.content(Store(self.segments))
        return 0 if content is None else content.height


@pytest.mark.parametrize("name", SPECS)
@examples(40)
@given(
    steps=st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=6), st.integers(0, 2)), max_size=8
    )
)
def test_eviction_does_not_change_the_output(name, steps):
    evicting, keeping = Run(replace(SPECS[name], evict_before=OVER)), Run(SPECS[name])
    watermark = 0
    for rows, move in steps:
        accepted = [(watermark + day, x) for day, x in rows]
        evicting.step(accepted, watermark)
        keeping.step(accepted, None)
        assert evicting.output == keeping.output
        watermark += move
    evicting.step([], watermark + 100)
    assert evicting.stored() == 0
    assert evicting.dropped == sum(1 for _ in keeping.output)


@pytest.mark.parametrize("name", SPECS)
def test_a_row_at_the_watermark_is_not_evicted(name):
    run = Run(replace(SPECS[name], evict_before=OVER))
    run.step([(4, 1), (5, 1)], None)
    run.step([], 5)
    assert (run.dropped, run.stored()) == (1, 1)
