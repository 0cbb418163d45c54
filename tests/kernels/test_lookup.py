"""Lookup joins against the naive model: a stream and a keyed table that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import COLD, Bench, BlockChanges
from tests.model.reference import Change, Row, picked
from tests.model.reference_joins import LookupJoin
from tests.tiers import examples
from tidegate.ir.joins import Comparison, KeyPair, LookupJoinSpec, OutputColumn
from tidegate.kernels import make
from tidegate.kernels.api import Clock
from tidegate.kernels.state import Store

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMAS = (
    {"a": pl.Float64(), "b": pl.String(), "c": pl.Float64(), "x": pl.Int64()},
    {"k": pl.Float64(), "l": pl.String(), "y": pl.Int64(), "q": pl.List(pl.Float64())},
)
COLUMNS = (tuple(SCHEMAS[0]), tuple(SCHEMAS[1]))
NUMBERS = st.sampled_from([1.0, 0.0, -0.0, float("nan"), None, None])
TEXTS = st.sampled_from(["s", "t", None])
SMALL = st.sampled_from([1, 2, 3, None])
LEFT_ROW = st.tuples(NUMBERS, TEXTS, NUMBERS, SMALL)
RIGHT_ROW = st.tuples(NUMBERS, TEXTS, SMALL, st.sampled_from([[], [0.0], [-0.0], None]))
KEYS = (
    (KeyPair("a", "k"),),
    (KeyPair("a", "k", null_safe=True),),
    (KeyPair("a", "k"), KeyPair("b", "l", null_safe=True)),
    (KeyPair("a", "k"), KeyPair("c", "k")),
)
CONDITIONS = ((), (), (Comparison("x", "<=", "y"),), (Comparison("x", "<=>", "y"), Comparison("b", "<>", "l")))
ALL = tuple(OutputColumn(name, side, name) for side in (0, 1) for name in COLUMNS[side])
SPECS = st.builds(
    LookupJoinSpec,
    kind=st.sampled_from(["inner", "left"]),
    keys=st.sampled_from(KEYS),
    outputs=st.sampled_from(
        [ALL, (OutputColumn("y", 1, "y"), OutputColumn("x", 0, "x")), (OutputColumn("x", 0, "x"),)]
    ),
    columns=st.just(COLUMNS),
    conditions=st.sampled_from(CONDITIONS),
)


@dataclass
class Lookups(Bench):
    """A bench whose right side is a keyed table; upserts and deletes are converted into changes of the table."""

    table: dict[Row, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert isinstance(self.spec, LookupJoinSpec)
        self.ports, self.kernel, self.model = 2, make(self.spec), LookupJoin(self.spec)

    def look_up(
        self, stream: Sequence[Row], puts: Sequence[tuple[Row, bool, int]] = (), begin: int = 0
    ) -> pl.DataFrame | None:
        before, blocks = dict(self.table), {}
        for row, delete, block in puts:
            key = self._apply(dict(zip(COLUMNS[1], row, strict=True)), delete)
            blocks[key] = block
        changed_keys = [key for key in blocks if self._whole(before, key) != self._whole(self.table, key)]
        sides = [(before, -1, 1), (self.table, 1, 0)]
        table = [
            (Change(rows[key], weight), (blocks[key] + shift) % 3)
            for rows, weight, shift in sides
            for key in changed_keys
            if key in rows
        ]
        stream_changes = [
            (Change(dict(zip(COLUMNS[0], row, strict=True)), 1 + n % 2), n % 4) for n, row in enumerate(stream)
        ]
        return self.step([stream_changes, table], begin).rows

    def _apply(self, row: Mapping[str, Any], delete: bool) -> Row:
        assert isinstance(self.spec, LookupJoinSpec)
        key = picked(row, dict.fromkeys(pair.right for pair in self.spec.keys))
        if delete:
            self.table.pop(key, None)
        else:
            self.table[key] = row
        return key

    def _whole(self, table: Mapping[Row, Mapping[str, Any]], key: Row) -> Row | None:
        return picked(table[key], COLUMNS[1]) if key in table else None

    def input_frame(self, port: int, changes: BlockChanges) -> pl.DataFrame | None:
        assert isinstance(self.spec, LookupJoinSpec)
        self.schema, self.key = SCHEMAS[port], [(pair.left, pair.right)[port] for pair in self.spec.keys]
        return super().input_frame(port, changes)

    def _content(self) -> Counter[Row]:
        assert self.kernel.content(Store(self.segments)) is None
        return self.output


def bench_of(spec: LookupJoinSpec, modulus: int = 0) -> Lookups:
    return Lookups(spec, {}, (), modulus=modulus)


PUT = st.tuples(RIGHT_ROW, st.sampled_from([False, False, True]), st.integers(0, 2))
STEPS = st.lists(
    st.tuples(st.lists(LEFT_ROW, max_size=8), st.lists(PUT, max_size=8), st.integers(0, 2)), min_size=1, max_size=6
)


@examples(60)
@given(SPECS, st.sampled_from([0, 3]), STEPS)
def test_each_row_is_joined_with_the_table_as_of_its_step(spec: LookupJoinSpec, modulus: int, drawn: Any) -> None:
    bench = bench_of(spec, modulus)
    for stream, puts, begin in drawn:
        bench.look_up(stream, puts, begin)


def spec_of(kind: str, *conditions: Comparison, null_safe: bool = False) -> LookupJoinSpec:
    return LookupJoinSpec(
        kind,
        (KeyPair("a", "k", null_safe),),
        (OutputColumn("x", 0, "x"), OutputColumn("y", 1, "y")),
        COLUMNS,
        conditions,
    )


def count_rows(rows: pl.DataFrame | None) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for *row, weight in [] if rows is None else rows.rows():
        counts[tuple(row)] += weight
    return counts


def table_change(key: float | None, y: int | None, delete: bool = False) -> tuple[Row, bool, int]:
    return (key, "s", y, None), delete, 0


def test_changes_of_the_table_apply_first_and_do_not_change_earlier_results() -> None:
    bench = bench_of(spec_of("left"))
    row = (1.0, "s", None, 7)
    assert count_rows(bench.look_up([row])) == {(7, None): 1}
    assert count_rows(bench.look_up([row], [table_change(1.0, 10)])) == {(7, 10): 1}
    assert bench.look_up([], [table_change(1.0, 11)]) is None
    assert count_rows(bench.look_up([row], begin=COLD)) == {(7, 11): 1}
    assert count_rows(bench.look_up([row], [table_change(1.0, 12), table_change(2.0, 5)])) == {(7, 12): 1}
    assert count_rows(bench.look_up([row], [table_change(1.0, 0, delete=True)])) == {(7, None): 1}
    assert count_rows(bench.look_up([(2.0, "s", None, 8)])) == {(8, 5): 1}


@pytest.mark.parametrize(("kind", "expected"), [("inner", {}), ("left", {(7, None): 1})])
def test_a_row_without_a_match_is_dropped_or_padded(kind: str, expected: Mapping[Row, int]) -> None:
    bench = bench_of(spec_of(kind, Comparison("x", "<", "y")))
    for row in ((None, "s", None, 7), (9.0, "s", None, 7), (1.0, "s", None, 7)):
        assert count_rows(bench.look_up([row], [table_change(1.0, 7), table_change(None, 8)])) == expected


@pytest.mark.parametrize("first", [[table_change(None, 8)], []])
def test_null_matches_neither_stored_nor_new_rows(first: Any) -> None:
    bench = bench_of(spec_of("left"))
    bench.look_up([], first)
    assert count_rows(bench.look_up([(None, "s", None, 7)], [] if first else [table_change(None, 8)])) == {(7, None): 1}


def test_two_columns_can_be_compared_with_one() -> None:
    spec = LookupJoinSpec("inner", KEYS[3], (OutputColumn("x", 0, "x"), OutputColumn("y", 1, "y")), COLUMNS)
    bench = bench_of(spec, modulus=1)
    stream = [(1.0, "s", 1.0, 5), (1.0, "s", 2.0, 6), (2.0, "s", 1.0, 7)]
    assert count_rows(bench.look_up(stream, [table_change(1.0, 8)])) == {(5, 8): 1}
    assert count_rows(bench.look_up(stream)) == {(5, 8): 1}


def test_null_matches_null_with_null_safe_equality() -> None:
    bench = bench_of(spec_of("inner", null_safe=True))
    assert count_rows(bench.look_up([(None, "s", None, 7)], [table_change(None, 8)])) == {(7, 8): 1}


def test_the_stream_is_not_stored_and_the_table_is_stored_by_key() -> None:
    bench = bench_of(spec_of("left"))
    bench.look_up([(1.0, "s", None, number) for number in range(50)], [table_change(1.0, 1), table_change(2.0, 2)])
    bench.look_up([], [table_change(1.0, 3)])
    assert Store(bench.segments).stats()[0] == 2


def test_an_empty_step_emits_nothing() -> None:
    kernel, bench = make(spec_of("left")), bench_of(spec_of("left"))
    assert kernel.step([None, None], Clock(1, 0), Store(bench.segments), True).rows is None
    assert bench.look_up([]) is None
