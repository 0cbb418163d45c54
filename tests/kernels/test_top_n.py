"""Top-N against the naive model: ties, offsets, ranks, and stored windows that run empty."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.bench import Bench, play, steps
from tests.model.reference import Change
from tests.tiers import examples
from tidegate.ir.specs import Order, TopNSpec
from tidegate.kernels import top_n
from tidegate.kernels.state import MemorySegments, Store

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"p": pl.String(), "v": pl.Float64(), "t": pl.Int64()}
COLUMNS = tuple(SCHEMA)
ROW = st.fixed_dictionaries(
    {
        "p": st.sampled_from(["a", "b", None]),
        "v": st.sampled_from([1.0, 2.0, 3.0, float("nan"), -0.0, None]),
        "t": st.integers(0, 4),
    }
)
ORDERS = st.lists(
    st.builds(Order, st.sampled_from(["v", "t"]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=2,
    unique_by=lambda order: order.column,
)
SPECS = st.builds(
    TopNSpec,
    columns=st.just(COLUMNS),
    partition=st.sampled_from([(), ("p",)]),
    order=ORDERS.map(tuple),
    limit=st.integers(0, 3),
    offset=st.sampled_from([0, 0, 1, 2]),
    function=st.sampled_from(["row_number", "rank", "dense_rank"]),
    rank=st.sampled_from([None, "place"]),
)


@pytest.fixture(autouse=True, scope="module")
def short_windows() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_n, "LEAST_SLACK", 1)
        yield


def check(spec: TopNSpec, modulus: int, hashed: bool, drawn: Any) -> None:
    hashes = [(top_n.ROW_HASH, COLUMNS)] if hashed else []
    play(Bench(spec, SCHEMA, spec.partition, hashes, modulus=modulus), drawn)


cases = given(SPECS, st.sampled_from([0, 3]), st.booleans(), steps(ROW, deletes=True, most=8))
test_the_top_is_always_the_top = examples(70)(cases(check))
test_the_top_in_many_cases = pytest.mark.slow(
    settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))(cases(check))
)


def test_a_deleted_row_is_replaced_by_the_next_even_after_many() -> None:
    spec = TopNSpec(COLUMNS, ("p",), (Order("t", True, False),), 2)
    bench = Bench(spec, SCHEMA, ("p",), [(top_n.ROW_HASH, COLUMNS)])
    rows = [{"p": "a", "v": 1.0, "t": number} for number in range(30)]
    bench.step([[(Change(row, 1), 0) for row in rows]])
    for row in reversed(rows):
        bench.step([[(Change(row, -1), 0)]])
    assert Store(bench.segments).stats()[0] == 0


def test_a_change_far_below_the_top_reads_no_more_than_the_window() -> None:
    spec = TopNSpec(COLUMNS, ("p",), (Order("t", True, False),), 2)
    bench = Bench(spec, SCHEMA, ("p",), [(top_n.ROW_HASH, COLUMNS)], segments=MemorySegments())
    bench.step([[(Change({"p": "a", "v": 1.0, "t": number}, 1), 0) for number in range(400)]])
    state = Store(bench.segments)
    assert state.find_table("window", COLUMNS).layout.count < 10  # type: ignore[union-attr]
    assert state.find_table("rest", COLUMNS).layout.count > 390  # type: ignore[union-attr]
    assert bench.step([[(Change({"p": "a", "v": 1.0, "t": 5}, -1), 0)]]).rows is None
