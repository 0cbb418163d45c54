"""Examples of single aggregate functions."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from tests.kernels.bench import Bench
from tests.model.reference import Change
from tidegate.core.types import polars_type
from tidegate.ir.specs import AggregateCall, AggregateSpec
from tidegate.kernels import aggregates
from tidegate.kernels.api import Clock
from tidegate.kernels.state import MemorySegments, Store

ARGUMENTS = {
    "bigint": ["bit_and", "bit_or", "bit_xor"],
    "boolean": ["count_if", "bool_and", "every", "bool_or", "any", "some"],
    "string": ["listagg", "string_agg"],
}
TWO = ("covar_samp", "covar_pop", "corr", "min_by", "max_by")
COUNTS = ("count", "count_if", "approx_count_distinct")
KEEPS_TYPE = ("min", "max", "mode", "first", "first_value", "last", "last_value", "any_value", "min_by", "max_by")


class Single:
    """One aggregate of the column `x` (and `y`) without keys."""

    def __init__(
        self, func: str, type: str, result: str, args: int = 1, append_only: bool = False, **more: Any
    ) -> None:
        names = ("x", "y")[:args]
        call = AggregateCall(func, names, (type,) * args, "result", result, **more)
        spec = AggregateSpec((), (call,), append_only, scalar=True)
        self.bench = Bench(spec, dict.fromkeys(("x", "y"), polars_type(type)), (), aggregates.hashes(spec))
        self.steps = 0

    def step(self, *changes: tuple[Any, int]) -> Any:
        """The value after a step; a change is (x, weight) or ((x, y), weight)."""
        self.steps += 1
        rows = [(value if isinstance(value, tuple) else (value, None), weight) for value, weight in changes]
        changes = [Change(dict(zip(("x", "y"), row, strict=True)), weight, at) for at, (row, weight) in enumerate(rows)]
        state = Store(self.bench.segments)
        self.bench.kernel.step([self.bench.frame(changes)], Clock(self.steps, 0), state, self.steps == 1)
        state.commit()
        content = self.bench.kernel.content(Store(self.bench.segments))
        assert content is not None
        return content["result"][0]


def _argument(func: str) -> str:
    return next((type for type, names in ARGUMENTS.items() if func in names), "double")


def _result(func: str, argument: str) -> str:
    if func in COUNTS:
        return "bigint"
    if func in ("array_agg", "collect_list", "collect_set"):
        return f"array<{argument}>"
    return argument if func in KEEPS_TYPE or argument != "double" else "double"


SAMPLE = {"bigint": [(6, 1), (3, 1)], "boolean": [(True, 1), (False, 1)], "string": [("b", 1), ("a", 1)]}


@pytest.mark.parametrize("append_only", [True, False])
@pytest.mark.parametrize("func", sorted(aggregates.supported()))
def test_every_function_runs_and_retracts(func: str, append_only: bool) -> None:
    argument = _argument(func)
    args = 2 if func in TWO else 1
    single = Single(func, argument, _result(func, argument), args, append_only)
    empty = single.step()
    rows = SAMPLE.get(argument, [((1.0, 2.0), 1), ((2.5, 7.0), 1), ((4.0, 1.0), 1)])
    assert single.step(*rows) is not None
    if not append_only:
        again = single.step(*((value, -weight) for value, weight in rows))
        assert pl.Series([again]).to_list() == pl.Series([empty]).to_list()


def test_retracted_doubles_leave_no_rounding_error() -> None:
    single = Single("sum", "double", "double")
    assert single.step((0.1, 1), (0.2, 1), (0.3, 1)) == 0.6
    assert single.step((0.1, -1), (0.2, -1), (0.3, -1), (0.0, 1)) == 0.0
    assert single.step((1e20, 1), (1.0, 1), (1e20, -1)) == 1.0
    assert single.step((float("inf"), 1)) == float("inf")
    assert single.step((float("inf"), -1)) == 1.0


def test_big_integers_wrap_around_and_back() -> None:
    single = Single("sum", "bigint", "bigint")
    assert single.step((2**63 - 1, 1), (1, 1)) == -(2**63)
    assert single.step((1, -1)) == 2**63 - 1
    assert Single("avg", "bigint", "double").step((2**63 - 1, 1), (2**63 - 1, 1)) == float(2**63)


def test_a_deleted_extreme_is_replaced_by_the_next_value() -> None:
    single = Single("max", "double", "double")
    assert single.step((1.0, 1), (2.0, 1), (2.0, 1)) == 2.0
    assert single.step((2.0, -1)) == 2.0
    assert single.step((2.0, -1)) == 1.0
    assert str(single.step((float("nan"), 1))) == "nan"


def test_first_and_last_follow_the_order_of_arrival() -> None:
    first, last = (Single(func, "bigint", "bigint") for func in ("first", "last"))
    assert first.step((7, 1), (5, 1)) == 7
    assert first.step((7, -1)) == 5
    assert first.step((7, 1)) == 5, "it arrived again later"
    assert first.step((5, 1)) == 5, "it has been there all the time"
    assert last.step((7, 1), (5, 1)) == 5
    assert last.step((7, 1)) == 7
    assert last.step((7, -1)) == 7, "one of the two sevens is still there"


def test_only_changed_values_are_looked_up_for_count_distinct() -> None:
    spec = AggregateSpec(
        (), (AggregateCall("count", ("x",), ("bigint",), "n", "bigint", distinct=True),), False, scalar=True
    )
    segments = MemorySegments()
    bench = Bench(spec, {"x": pl.Int64()}, (), aggregates.hashes(spec), segments=segments)
    bench.step([[(Change({"x": value}, 1), 0) for value in range(500)]])
    assert bench.step([[(Change({"x": 3}, -1), 0), (Change({"x": 3}, 1), 0)]]).rows is None
    delta = bench.step([[(Change({"x": 3}, -1), 0)]])
    assert delta.rows is not None and delta.rows.rows() == [(500, -1), (499, 1)]


def test_an_unchanged_result_emits_nothing() -> None:
    calls = (AggregateCall("max", ("x",), ("bigint",), "most", "bigint"),)
    spec = AggregateSpec(("k",), calls, False, scalar=False)
    bench = Bench(spec, {"k": pl.Int64(), "x": pl.Int64()}, ("k",), aggregates.hashes(spec))
    bench.step([[(Change({"k": 1, "x": 9}, 1), 0)]])
    assert bench.step([[(Change({"k": 1, "x": 3}, 1), 0)]]).rows is None


def test_columns_may_have_any_name() -> None:
    names = ("first_step", "s0_0", "p0", "odd", "result", "row", "place", "n")
    calls = tuple(AggregateCall("max", (name,), ("bigint",), f"max_{name}", "bigint") for name in names)
    calls += tuple(AggregateCall("bit_xor", (name,), ("bigint",), f"xor_{name}", "bigint") for name in names)
    calls += tuple(AggregateCall("first", (name,), ("bigint",), f"first_{name}", "bigint") for name in names)
    spec = AggregateSpec(names, calls, False, scalar=False)
    bench = Bench(spec, dict.fromkeys(names, pl.Int64()), names, aggregates.hashes(spec))
    row = dict.fromkeys(names, 1)
    bench.step([[(Change(row, 1), 0)]])
    bench.step([[(Change(row, -1), 0)]])


def test_hash_columns_of_different_arguments_have_different_names() -> None:
    calls = tuple(
        AggregateCall("count", args, ("bigint",) * len(args), f"c{number}", "bigint", distinct=True)
        for number, args in enumerate([("a_b", "c"), ("a", "b_c"), ("a_b_c",)])
    )
    hashes = aggregates.hashes(AggregateSpec(("k",), calls, True, False))
    assert len({name for name, _ in hashes}) == 3
    assert [columns for _, columns in hashes] == [("k", "a_b", "c"), ("k", "a", "b_c"), ("k", "a_b_c")]


@pytest.mark.parametrize(
    "values, expected",
    [((-math.inf, 0.5), -math.inf), ((math.inf, 0.5), math.inf), ((-math.inf, -math.inf, 1.0, 2.0), -math.inf)],
)
def test_a_median_beside_infinity_is_infinite(values: tuple[float, ...], expected: float) -> None:
    median = Single("median", "double", "double")
    assert median.step(*((value, 1) for value in values)) == expected


def test_the_median_of_both_infinities_is_no_number() -> None:
    assert math.isnan(Single("median", "double", "double").step((-math.inf, 1), (math.inf, 1)))
