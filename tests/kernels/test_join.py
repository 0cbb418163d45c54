"""Incremental joins against the naive model: all kinds, under changes of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import Bench, BlockChanges, play, steps
from tests.model.reference import Change, plain
from tests.model.reference_joins import IncrementalJoin, holds
from tests.tiers import examples
from tidegate.ir.joins import Comparison, JoinSpec, KeyPair, OutputColumn
from tidegate.kernels import make
from tidegate.kernels.api import Clock
from tidegate.kernels.frames import normalise
from tidegate.kernels.joins import pairs
from tidegate.kernels.joins.pairs import needed_columns
from tidegate.kernels.state import Store
from tidegate.kernels.state.table import RunTable
from tidegate.kernels.top_n import ROW_HASH

pytestmark = pytest.mark.usefixtures("tiny_chunks", "small_blocks")

PAIR = pl.Struct({"f": pl.Float64(), "l": pl.List(pl.Int64())})
SCHEMAS = (
    {"a": pl.Float64(), "b": pl.String(), "x": pl.Int64(), "p": PAIR},
    {"k": pl.Float64(), "l": pl.String(), "y": pl.Int64(), "q": PAIR},
)
COLUMNS = tuple(tuple(schema) for schema in SCHEMAS)
VALUES = (
    st.sampled_from([1.0, 1.0, 1.0, 0.0, -0.0, float("nan"), None]),
    st.sampled_from(["s", "s", "t", None]),
    st.sampled_from([1, 2, 3, None]),
    st.sampled_from([{"f": -0.0, "l": [1]}, {"f": 0.0, "l": [1, None]}, {"f": None, "l": []}, None]),
)
ROW = st.tuples(*VALUES)
KINDS = ("inner", "left", "right", "full", "semi", "anti")
KEYS = (
    (),
    (KeyPair("a", "k"),),
    (KeyPair("a", "k", null_safe=True),),
    (KeyPair("b", "l"), KeyPair("a", "k", null_safe=True)),
    (KeyPair("p", "q"),),
)
CONDITIONS = (
    (),
    (),
    (Comparison("x", "<", "y"),),
    (Comparison("x", "<>", "y"), Comparison("a", ">=", "k")),
    (Comparison("b", "<=>", "l"),),
    (Comparison("p", "<=", "q"),),
)
LEFT_OUT = tuple(OutputColumn(name, 0, name) for name in COLUMNS[0])
RIGHT_OUT = tuple(OutputColumn(name, 1, name) for name in COLUMNS[1])
OUTPUTS = (
    LEFT_OUT + RIGHT_OUT,
    (OutputColumn("one", 1, "y"), OutputColumn("two", 0, "x")),
    (OutputColumn("b", 0, "b"),),
)


@st.composite
def specs(draw: Any) -> JoinSpec:
    kind = draw(st.sampled_from(KINDS))
    outputs = draw(st.sampled_from(OUTPUTS))
    single = tuple(output for output in outputs if output.side == 0)
    return JoinSpec(
        kind,
        draw(st.sampled_from(KEYS)),
        single if kind in ("semi", "anti") else outputs,
        (COLUMNS[0], COLUMNS[1]),
        draw(st.sampled_from(CONDITIONS)),
        (draw(st.booleans()), draw(st.booleans())),
    )


@pytest.fixture(scope="module")
def small_blocks() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "MANY", 5)
        yield


@dataclass
class Joins(Bench):
    """A bench with two sides of different columns. `row_hash`: the columns of the second hash of a row, if it has one:
    only the needed ones, or all."""

    row_hash: str | None = None

    def __post_init__(self) -> None:
        assert isinstance(self.spec, JoinSpec)
        self.ports, self.kernel, self.model = 2, make(self.spec), IncrementalJoin(self.spec)

    def input_frame(self, port: int, changes: BlockChanges) -> pl.DataFrame | None:
        assert isinstance(self.spec, JoinSpec)
        self.schema = SCHEMAS[port]
        self.key = [(pair.left, pair.right)[port] for pair in self.spec.keys]
        columns_of = {"needed": needed_columns(self.spec)[port], "all": COLUMNS[port]}
        self.hashes = [] if self.row_hash is None else [(ROW_HASH, columns_of[self.row_hash])]
        return super().input_frame(port, changes)


def bench_of(spec: JoinSpec, row_hash: str | None = "needed", modulus: int = 0) -> Joins:
    return Joins(spec, {}, (), modulus=modulus, row_hash=row_hash)


def row_of(side: int, row: Sequence[Any]) -> Mapping[str, Any]:
    return dict(zip(COLUMNS[side], row, strict=True))


def changes(side: int, *rows: Sequence[Any], weight: int = 1) -> list[tuple[Change, int]]:
    return [(Change(row_of(side, row), weight), number) for number, row in enumerate(rows)]


def check(spec: JoinSpec, row_hash: str | None, modulus: int, drawn: Any) -> None:
    def of_side(port: int, change: Any) -> Any:
        return replace(change, row=row_of(port, change.row), delete=change.delete and not spec.append_only[port])

    sides = [
        ([[of_side(port, change) for change in side] for port, side in enumerate(both)], begin) for both, begin in drawn
    ]
    play(bench_of(spec, row_hash, modulus), sides)


cases = given(specs(), st.sampled_from([None, "needed", "all"]), st.sampled_from([0, 3]), steps(ROW, True, 2))
test_a_join_is_the_batch_answer_after_every_step = examples(70)(cases(check))
test_joins_in_many_cases = pytest.mark.slow(examples(3000)(cases(check)))


def spec_of(kind: str, *conditions: Comparison, append_only: tuple[bool, bool] = (False, False)) -> JoinSpec:
    outputs = LEFT_OUT if kind in ("semi", "anti") else LEFT_OUT + RIGHT_OUT
    return JoinSpec(kind, KEYS[1], outputs, (COLUMNS[0], COLUMNS[1]), conditions, append_only)


L1, L2, L_NULL = (1.0, "s", 1, None), (1.0, "s", 2, None), (None, "s", 1, None)
R1, R2, R3, R_NULL = (1.0, "t", 2, None), (1.0, "t", 3, None), (1.0, "t", 1, None), (None, "t", 2, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("conditions", [(), (Comparison("x", "<", "y"),)])
def test_matches_are_added_and_removed_one_by_one(kind: str, conditions: Any) -> None:
    bench = bench_of(spec_of(kind, *conditions))
    bench.step([changes(0, L1, L1, L2, L_NULL), []])
    for coming in ((R1,), (R2, R2), (R_NULL, R3)):
        bench.step([[], changes(1, *coming)])
    bench.step([changes(0, L1, weight=-1), changes(1, R2, weight=-1)])
    for going in (R1, R3, R2):
        bench.step([[], changes(1, going, weight=-1)])
    bench.step([changes(0, L1, L2, weight=-1) + changes(0, L_NULL, weight=-1), changes(1, R_NULL, weight=-1)])
    assert not bench.output
    assert Store(bench.segments).stats()[0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_change_in_one_step(kind: str) -> None:
    bench = bench_of(spec_of(kind))
    bench.step([changes(0, L1), changes(1, R1)])
    bench.step([changes(0, L1, weight=-1) + changes(0, L2), changes(1, R1, weight=-1) + changes(1, R2)])
    bench.step([changes(0, L2, weight=-1), changes(1, R2, weight=-1)])
    assert Store(bench.segments).stats()[0] == 0


def test_changes_without_effect_are_not_emitted() -> None:
    bench = bench_of(replace(spec_of("left"), outputs=(OutputColumn("x", 0, "x"),)))
    bench.step([changes(0, L1), changes(1, R1)])
    assert bench.step([[], changes(1, R1, weight=-1) + changes(1, R2)]).rows is None
    assert bench.step([[], changes(1, R2, weight=-1)]).rows is None


def test_rows_of_an_inner_join_that_can_never_match_are_not_stored() -> None:
    bench = bench_of(spec_of("inner", Comparison("x", "<", "y")))
    bench.step([changes(0, L_NULL, (1.0, "s", None, None)), changes(1, R_NULL, (1.0, "t", None, None))])
    assert Store(bench.segments).fresh


def test_an_anti_join_drops_rows_that_can_never_be_emitted_again() -> None:
    bench = bench_of(spec_of("anti", append_only=(False, True)))
    bench.step([changes(0, L1, L_NULL), []])
    bench.step([changes(0, L2), changes(1, R1)])
    assert set(Store(bench.segments).find_table("left", COLUMNS[0]).scan()["a"]) == {None}  # type: ignore[union-attr]
    assert bench.step([changes(0, L1, weight=-1), []]).rows is None


def test_only_keys_are_stored_of_rows_that_decide_a_semi_join() -> None:
    bench = bench_of(spec_of("semi"), row_hash="all")
    bench.step([[], changes(1, R1, R2, R3, R3)])
    assert Store(bench.segments).stats()[0] == 1


@pytest.mark.parametrize("append_only", [False, True])
def test_a_row_without_effect_reads_no_rows_of_the_left(append_only: bool) -> None:
    bench = bench_of(spec_of("semi", append_only=(False, append_only)))
    bench.step([changes(0, L1, L2), changes(1, R1)])
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(RunTable, "groups")
        assert bench.step([[], changes(1, R2, R3)]).rows is None


def test_rows_are_padded_if_the_other_side_was_never_seen() -> None:
    bench = bench_of(spec_of("full"))
    delta = bench.step([[], changes(1, R1)])
    assert delta.rows is not None
    assert delta.rows.schema["a"] == pl.Null() and delta.rows.schema["q"] == PAIR


def test_an_empty_step_emits_nothing() -> None:
    bench = bench_of(spec_of("full"))
    assert bench.step([[], []]).rows is None
    assert make(bench.spec).step([None, None], Clock(2, 0), Store(bench.segments), False).rows is None


NESTED = [{"f": value, "l": list} for value in (-0.0, 1.0, float("nan"), None) for list in ([], [1], [1, None], None)]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pl.Float64(), [0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
        (pl.String(), ["", "a", "B", "ä", None]),
        (pl.Boolean(), [True, False, None]),
        (pl.Binary(), [b"", b"\xff", None]),
        (PAIR, [*NESTED, None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
def test_values_are_compared_as_spark_does(dtype: pl.DataType, values: list[Any], op: str) -> None:
    both = list(product(values, values))
    left, right = (
        normalise(pl.DataFrame({"v": pl.Series([pair[side] for pair in both], dtype=dtype)}), ["v"])["v"]
        for side in (0, 1)
    )
    expected = [holds(plain(one), op, plain(other)) for one, other in both]
    assert pairs.compare(left, right, op).tolist() == expected
