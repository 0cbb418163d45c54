"""GROUP BY against the naive model: every function, with retractions, filters and DISTINCT."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import tiers
from tests.kernels.bench import Bench, play, steps
from tests.model.reference import Change
from tidegate.core.types import polars_type
from tidegate.ir.specs import AggregateCall, AggregateSpec
from tidegate.kernels import aggregates

pytestmark = pytest.mark.usefixtures("tiny_chunks")

TYPES = {
    "k": "string",
    "f": "double",
    "i": "bigint",
    "j": "int",
    "d": "double",
    "e": "double",
    "n": "decimal(10,2)",
    "w": "decimal(38,2)",
    "b": "boolean",
    "s": "string",
    "ok": "boolean",
}
SCHEMA = {name: polars_type(type) for name, type in TYPES.items()}

doubles = st.sampled_from([0.1, 0.2, 0.3, 1e20, 1.0, -1e20, -0.0, 5e-324, 1.7e308, float("nan"), float("inf"), None])
tame = st.sampled_from([0.1, 0.2, 0.3, 1e8, 1.0, -2.5, None])
exact = st.sampled_from([0.5, 0.25, 1.0, -2.5, 1024.0, -0.0, float("nan"), float("inf"), None])
"""Doubles whose sums are the same in any order, because append-only input is summed in order of arrival."""


def rows(reals: st.SearchStrategy[Any]) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "f": st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
            "i": st.sampled_from([0, 1, -7, 3, 2**40, None]),
            "j": st.sampled_from([1, 2, 3, 255, None]),
            "d": reals,
            "e": reals,
            "n": st.sampled_from([Decimal("0.01"), Decimal("-99999999.99"), Decimal("2.50"), None]),
            "w": st.sampled_from([Decimal("9" * 36 + ".99"), Decimal("0.01"), Decimal("-" + "9" * 36 + ".99"), None]),
            "b": st.sampled_from([True, False, None]),
            "s": st.sampled_from(["", "x", "y", "ä", None]),
            "ok": st.sampled_from([True, False, None]),
        }
    )


def call(func: str, *args: str, type: str, **more: Any) -> AggregateCall:
    name = "_".join([func, *args, *(key for key in more if more[key])])
    return AggregateCall(func, args, tuple(TYPES[arg] for arg in args), name, type, **more)


SUMS = (
    call("count", type="bigint"),
    call("count", "i", type="bigint"),
    call("count", "i", "s", type="bigint"),
    call("count", type="bigint", filter="ok"),
    call("sum", "i", type="bigint"),
    call("sum", "d", type="double"),
    call("sum", "n", type="decimal(20,2)"),
    call("sum", "w", type="decimal(38,2)"),
    call("avg", "i", type="double"),
    call("avg", "d", type="double"),
    call("avg", "n", type="decimal(14,6)"),
    call("count_if", "b", type="bigint"),
    call("bool_and", "b", type="boolean"),
    call("bool_or", "b", type="boolean", filter="ok"),
)
DISTINCT = (
    call("count", "i", "s", type="bigint", distinct=True),
    call("sum", "j", type="bigint", distinct=True),
    call("sum", "d", type="double", distinct=True, filter="ok"),
    call("avg", "n", type="decimal(14,6)", distinct=True),
    call("approx_count_distinct", "d", type="bigint"),
    call("stddev", "d", type="double", distinct=True),
)
EXTREMES = (
    call("min", "d", type="double"),
    call("max", "d", type="double"),
    call("min", "s", type="string", filter="ok"),
    call("max", "s", type="string"),
    call("max", "b", type="boolean"),
    call("min", "n", type="decimal(10,2)"),
    call("min_by", "s", "d", type="string"),
    call("max_by", "s", "i", type="string"),
)
ARRIVALS = (
    call("first", "s", type="string"),
    call("last", "s", type="string"),
    call("first", "i", type="bigint", options=(("ignore_nulls", "true"),)),
    call("last", "i", type="bigint", options=(("ignore_nulls", "true"),), filter="ok"),
)
VALUES = (
    call("array_agg", "i", type="array<bigint>"),
    call("array_agg", "d", type="array<double>", distinct=True),
    call("collect_set", "s", type="array<string>"),
    call("median", "j", type="double"),
    call("percentile", "j", type="double", options=(("percentage", "0.25"),)),
    call("mode", "s", type="string"),
    call("listagg", "s", type="string", options=(("delimiter", ", "),)),
    call("bit_and", "j", type="int"),
    call("bit_or", "j", type="int"),
    call("bit_xor", "i", type="bigint"),
)
MOMENTS = (
    call("variance", "d", type="double"),
    call("var_pop", "d", type="double"),
    call("stddev", "d", type="double"),
    call("stddev_pop", "i", type="double"),
    call("covar_samp", "d", "e", type="double"),
    call("covar_pop", "d", "e", type="double"),
    call("corr", "d", "e", type="double"),
)
EVERY = SUMS + DISTINCT[:-1] + EXTREMES + ARRIVALS + VALUES


def bench(calls: tuple[AggregateCall, ...], keys: tuple[str, ...], append_only: bool, modulus: int) -> Bench:
    spec = AggregateSpec(keys, calls, append_only, scalar=not keys)
    return Bench(spec, SCHEMA, keys, aggregates.hashes(spec), modulus=modulus)


def quick(examples: int) -> Any:
    return tiers.examples(examples)


KEYS = st.sampled_from([(), ("k",), ("k", "f")])
MODULUS = st.sampled_from([0, 3])


def property_test(
    calls: tuple[AggregateCall, ...], row: st.SearchStrategy[Any], examples: int, append_only: bool = False
) -> Any:
    """A test of random subsets of the calls over random steps. Append-only input has an order of arrival."""
    chosen = st.lists(st.sampled_from(calls), min_size=1, max_size=3, unique=True)

    @quick(examples)
    @given(chosen, KEYS, MODULUS, steps(row, deletes=not append_only))
    def check(calls: list[AggregateCall], keys: tuple[str, ...], modulus: int, drawn: Any) -> None:
        play(bench(tuple(calls), keys, append_only, modulus), drawn, positions=append_only)

    return check


wild = rows(doubles)
FEW = {
    "k": st.just("a"),
    "s": st.sampled_from(["x", "y", "z", None]),
    "i": st.sampled_from([1, 2, 3, None]),
    "d": st.sampled_from([1.0, 2.0, -0.0, 0.0, float("nan"), None]),
    "b": st.sampled_from([True, False, None]),
    "n": st.sampled_from([Decimal("0.01"), Decimal("2.50"), None]),
    "ok": st.sampled_from([True, True, None]),
}
few = st.fixed_dictionaries({"f": st.just(0.0), "j": st.just(1), "e": st.just(1.0), "w": st.just(None), **FEW})

test_sums = property_test(SUMS, wild, 40)
test_distinct_values = property_test(DISTINCT, rows(tame), 30)
test_extremes = property_test(EXTREMES, few, 50)
test_arrivals = property_test(ARRIVALS, few, 50)
test_all_values = property_test(VALUES, rows(tame), 30)
test_moments = property_test(MOMENTS, rows(tame), 20)
test_everything_over_append_only_input = property_test(EVERY, rows(exact), 40, append_only=True)

test_many_sums = pytest.mark.slow(property_test(SUMS + MOMENTS + DISTINCT, rows(tame), 2000))
test_many_values = pytest.mark.slow(property_test(EVERY, wild, 2000))
test_many_extremes = pytest.mark.slow(property_test(EXTREMES + ARRIVALS, few, 2000))
test_many_appends = pytest.mark.slow(property_test(EVERY, rows(exact), 1000, append_only=True))


def test_the_best_value_of_a_group_is_searched_among_its_own_values() -> None:
    """Two keys share a hash; one loses its minimum in the step in which the other receives a smaller value."""
    run = bench((call("min", "i", type="bigint"),), ("k",), append_only=False, modulus=1)
    row = dict.fromkeys(SCHEMA)
    run.step([[(Change({**row, "k": "a", "i": 1}, 1), 0), (Change({**row, "k": "b", "i": 5}, 1), 0)]])
    run.step([[(Change({**row, "k": "a", "i": 1}, -1), 0), (Change({**row, "k": "b", "i": 2}, 1), 0)]])
    assert run.output == {("b", 2): 1}
