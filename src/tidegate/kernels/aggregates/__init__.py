"""Aggregate functions: the table of them, and what a circuit must provide for a GROUP BY.

To add a function, subclass `Sums`, `Best` or `Bag` (see `function`) and enter it below under its SQL names.
"""

from __future__ import annotations

from tidegate.ir.specs import AggregateCall, AggregateSpec
from tidegate.kernels.aggregates import numbers, values
from tidegate.kernels.aggregates.function import Bag, Best, Function

FUNCTIONS: dict[str, type[Function]] = {
    "count": numbers.CountValues,
    "sum": numbers.Total,
    "avg": numbers.Average,
    "mean": numbers.Average,
    "variance": numbers.Variance,
    "var_samp": numbers.Variance,
    "var_pop": numbers.VariancePop,
    "stddev": numbers.Deviation,
    "std": numbers.Deviation,
    "stddev_samp": numbers.Deviation,
    "stddev_pop": numbers.DeviationPop,
    "covar_samp": numbers.Covariance,
    "covar_pop": numbers.CovariancePop,
    "corr": numbers.Correlation,
    "count_if": numbers.CountIf,
    "bool_and": numbers.Every,
    "every": numbers.Every,
    "bool_or": numbers.Some,
    "any": numbers.Some,
    "some": numbers.Some,
    "min": values.Minimum,
    "max": values.Maximum,
    "min_by": values.MinimumBy,
    "max_by": values.MaximumBy,
    "first": values.First,
    "first_value": values.First,
    "any_value": values.First,
    "last": values.Last,
    "last_value": values.Last,
    "array_agg": values.CollectList,
    "collect_list": values.CollectList,
    "collect_set": values.CollectSet,
    "median": values.Percentile,
    "percentile": values.Percentile,
    "mode": values.Mode,
    "listagg": values.ListAgg,
    "string_agg": values.ListAgg,
    "bit_and": values.BitAnd,
    "bit_or": values.BitOr,
    "bit_xor": values.BitXor,
    "product": values.Product,
    "skewness": values.Skewness,
    "kurtosis": values.Kurtosis,
    "approx_count_distinct": numbers.CountValues,
}

_ALWAYS_DISTINCT = {"approx_count_distinct"}


def supported() -> frozenset[str]:
    """The names of the aggregate functions that views may use."""
    return frozenset(FUNCTIONS)


def function(call: AggregateCall) -> Function:
    return FUNCTIONS[call.func](call)


def is_distinct(call: AggregateCall) -> bool:
    """True if a call sees each of its values once."""
    return call.distinct or call.func in _ALWAYS_DISTINCT


def needs_values(call: AggregateCall, append_only: bool) -> bool:
    """True if the values of a group must be stored, each with its count."""
    func = function(call)
    return isinstance(func, Bag) or (not append_only if isinstance(func, Best) else is_distinct(call))


def hash_name(args: tuple[str, ...]) -> str:
    """The column in which the hash of a group's keys and these arguments travels. The lengths keep ("a_b", "c") and
    ("a", "b_c") apart."""
    return "__h" + "x".join(str(len(name)) for name in args) + "_" + "_".join(args)


def hashes(spec: AggregateSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The further hashes that the port of a GROUP BY needs: (column, the keys and arguments that are hashed)."""
    needed = [call.args for call in spec.calls if needs_values(call, spec.append_only)]
    return tuple((hash_name(args), (*spec.keys, *args)) for args in dict.fromkeys(needed))


def ordered(spec: AggregateSpec) -> bool:
    """True if the port must carry the order of arrival, for FIRST and LAST."""
    return any(isinstance(func, Best) and func.arrival for func in map(function, spec.calls))
