"""Function calls in the tree.

A scalar function is an `exp.Anonymous` with the name as written, whatever sqlglot knows about it: Spark evaluates it,
so nothing may be rewritten on the way, but for functions that would end a pipeline with the first value they cannot
take: they are replaced by their `try_` forms, which return NULL. An aggregate is an `exp.AggFunc`: sqlglot's own class
for the common ones, an `exp.AnonymousAggFunc` for the others. `call` reads all of them the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

ORIGINAL_NAME = "written_as"

TYPED_AGGREGATES: dict[str, type[exp.AggFunc]] = {
    "ANY": exp.LogicalOr,
    "ARRAY_AGG": exp.ArrayAgg,
    "AVG": exp.Avg,
    "BOOL_AND": exp.LogicalAnd,
    "BOOL_OR": exp.LogicalOr,
    "COLLECT_LIST": exp.ArrayAgg,
    "COLLECT_SET": exp.ArrayUniqueAgg,
    "COUNT": exp.Count,
    "COUNT_IF": exp.CountIf,
    "EVERY": exp.LogicalAnd,
    "FIRST": exp.First,
    "FIRST_VALUE": exp.First,
    "LAST": exp.Last,
    "LAST_VALUE": exp.Last,
    "MAX": exp.Max,
    "MAX_BY": exp.ArgMax,
    "MEAN": exp.Avg,
    "MIN": exp.Min,
    "MIN_BY": exp.ArgMin,
    "SOME": exp.LogicalOr,
    "STD": exp.Stddev,
    "STDDEV": exp.Stddev,
    "STDDEV_POP": exp.StddevPop,
    "STDDEV_SAMP": exp.StddevSamp,
    "SUM": exp.Sum,
    "VARIANCE": exp.Variance,
    "VAR_POP": exp.VariancePop,
    "VAR_SAMP": exp.Variance,
}

_OTHER_AGGREGATE_NAMES = """
    ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_TOP_K BIT_AND BIT_OR BIT_XOR BITMAP_AND_AGG
    BITMAP_CONSTRUCT_AGG BITMAP_OR_AGG CORR COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP GROUPING GROUPING_ID
    HISTOGRAM_NUMERIC HLL_SKETCH_AGG HLL_UNION_AGG KURTOSIS LISTAGG MEDIAN MODE PERCENTILE PERCENTILE_APPROX
    PERCENTILE_CONT PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX
    REGR_SXY REGR_SYY SCHEMA_OF_VARIANT_AGG SKEWNESS STRING_AGG TRY_AVG TRY_SUM
"""
OTHER_AGGREGATES = frozenset(_OTHER_AGGREGATE_NAMES.split())


@dataclass(frozen=True)
class Call:
    """A function call: its name in small letters, its arguments, and whether they were DISTINCT."""

    name: str
    args: tuple[exp.Expr, ...]
    distinct: bool


def call(node: exp.Expr) -> Call | None:
    """The function and arguments of a call; None if the node is not a function call."""
    if not isinstance(node, exp.Func) or isinstance(node, exp.Case | exp.Connector):
        return None
    name = node.name if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) else node.meta.get(ORIGINAL_NAME)
    args = _arguments(node)
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = tuple(args[0].expressions)
    return Call(str(name or node.sql_name()).lower(), args, distinct)


def _arguments(node: exp.Func) -> tuple[exp.Expr, ...]:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return tuple(node.expressions)
    args: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        args += value if isinstance(value, list) else [value] if isinstance(value, exp.Expr) else []
    return tuple(args)


def _typed_aggregate(name: str, kind: type[exp.AggFunc]) -> Callable[[list[exp.Expr]], exp.Expr]:
    def build(args: list[exp.Expr]) -> exp.Expr:
        """sqlglot's class if it has a parameter for every argument."""
        parameters = [key for key in kind.arg_types if key in ("this", "expression", "expressions")]
        if kind.is_var_len_args or len(args) <= len(parameters):
            return kind.from_arg_list(args)
        return exp.AnonymousAggFunc(this=name, expressions=args)

    return build


def _other_aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


def _scalar(name: str, *more: exp.Expr) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.Anonymous(this=name, expressions=[*args, *(each.copy() for each in more)])


_RAISING = [
    "AES_DECRYPT",
    "PARSE_JSON",
    "PARSE_URL",
    "TO_BINARY",
    "TO_NUMBER",
    "URL_DECODE",
    "VALIDATE_UTF8",
    "VARIANT_GET",
]
GIVE_NULL = {
    **{name: _scalar(f"try_{name.lower()}") for name in _RAISING},
    "UNBASE64": _scalar("try_to_binary", exp.Literal.string("base64")),
}
"""Functions that raise on an invalid value, with forms that return NULL."""

TWINS = frozenset(f"try_{name.lower()}" for name in _RAISING)

BUILDERS: dict[str, Callable[[list[exp.Expr]], exp.Expr]] = {
    **GIVE_NULL,
    **{name: _typed_aggregate(name, kind) for name, kind in TYPED_AGGREGATES.items()},
    **{name: _other_aggregate(name) for name in OTHER_AGGREGATES},
}
