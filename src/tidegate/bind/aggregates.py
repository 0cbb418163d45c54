"""Aggregate calls: from SQL to the functions of the aggregate kernel."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.unsupported import unsupported
from tidegate.kernels.aggregates import supported
from tidegate.sql import call, name_span, span_of

SAME_AS = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "first_value": "first",
    "last_value": "last",
    "any_value": "first",
    "collect_list": "array_agg",
    "string_agg": "listagg",
}
"""Other names for the same aggregate."""

DISTINCT_FORM = {"collect_set": "array_agg", "approx_count_distinct": "count"}
"""Aggregates that are another one with DISTINCT. An approximate count may be exact."""

_OF_NUMBERS = """
    avg corr covar_pop covar_samp kurtosis median percentile product skewness stddev_pop stddev_samp sum var_pop
    var_samp
"""
OF_NUMBERS = frozenset(_OF_NUMBERS.split())
"""Aggregates for which Spark reads texts as numbers."""

OF_ITSELF = {"max_by": "max", "min_by": "min"}
"""Aggregates of a value by a value: what they are if both are the same."""

SAME_WITH_DISTINCT = frozenset({"min", "max", "bool_and", "bool_or"})
IGNORE_NULLS: tuple[tuple[str, str], ...] = (("ignore_nulls", "true"),)
LITERAL_ARGUMENT = {"percentile": "percentage", "listagg": "delimiter"}


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate as it will be computed: arguments and filter are trees over the rows below. `written` is the name
    in the text."""

    func: str
    args: tuple[exp.Expr, ...]
    distinct: bool
    filter: exp.Expr | None
    options: tuple[tuple[str, str], ...]
    written: str

    @property
    def compares(self) -> bool:
        """True if values are compared with each other; COUNT only looks whether there are any."""
        return self.func != "count" or self.distinct


def is_aggregate(node: exp.Expr) -> bool:
    """True if a node is an aggregate call, with its FILTER and IGNORE NULLS around it."""
    if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        return is_aggregate(node.this)
    return isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window)


def contains_aggregate(tree: exp.Expr) -> bool:
    return any(is_aggregate(node) for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)))


def bind_aggregate(node: exp.Expr) -> BoundAggregate:
    """The function, arguments and options of an aggregate call."""
    inner, condition, ignore_nulls = _unwrap(node)
    function = call(inner)
    if function is None:
        raise unsupported("this aggregate", span_of(node))
    name, args, distinct = function.name, function.args, function.distinct
    if name == "count_if":
        return BoundAggregate("count", (), False, _both(condition, args[0]), (), name)
    written = name
    if name in DISTINCT_FORM:
        name, args, distinct = DISTINCT_FORM[name], args[:1], True
    name = SAME_AS.get(name, name)
    _check(name, inner)
    if name in ("first", "last") and len(args) == 2:
        ignore_nulls, args = ignore_nulls or _is_true(args[1]), args[:1]
    options = IGNORE_NULLS if ignore_nulls and name in ("first", "last") else ()
    if name in LITERAL_ARGUMENT:
        args, options = _literal_argument(name, args)
    if name == "count":
        args = _count_args(args, distinct)
    if name in OF_ITSELF and len(args) == 2 and args[0] == args[1]:
        name, args = OF_ITSELF[name], args[:1]
    return BoundAggregate(name, args, distinct and name not in SAME_WITH_DISTINCT, condition, options, written)


def _unwrap(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None, bool]:
    condition, ignore_nulls = None, False
    while not isinstance(node, exp.AggFunc):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.IgnoreNulls):
            ignore_nulls = True
        elif isinstance(node, exp.WithinGroup):
            raise unsupported("WITHIN GROUP", span_of(node))
        node = node.this
    if isinstance(node.this, exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls = isinstance(node.this, exp.IgnoreNulls)
        node = node.copy()
        node.set("this", node.this.this)
    return node, condition, ignore_nulls


def _literal_argument(
    name: str, args: tuple[exp.Expr, ...]
) -> tuple[tuple[exp.Expr, ...], tuple[tuple[str, str], ...]]:
    """The fraction of PERCENTILE, the delimiter of LISTAGG: a second argument that is one value for all rows."""
    if len(args) < 2:
        return args, ()
    value = args[1]
    if len(args) > 2 or not isinstance(value, exp.Literal):
        option = LITERAL_ARGUMENT[name]
        raise unsupported(f"{name}() with such a {option}", span_of(value), f"write one literal as the {option}")
    return args[:1], ((LITERAL_ARGUMENT[name], value.name),)


def _check(name: str, node: exp.Expr) -> None:
    known = supported()
    if name not in known:
        listed = ", ".join(sorted(known - set(SAME_AS) - set(DISTINCT_FORM)))
        raise unsupported(f"{name}()", name_span(node), f"maintained aggregates are {listed}")


def _count_args(args: tuple[exp.Expr, ...], distinct: bool) -> tuple[exp.Expr, ...]:
    """COUNT(*) and COUNT(1) count rows; COUNT(a, b) counts rows in which neither is NULL."""
    if not distinct and all(isinstance(arg, exp.Star | exp.Literal | exp.Boolean) for arg in args):
        return ()
    if len(args) < 2:
        return args
    null = exp.or_(*(exp.Is(this=arg.copy(), expression=exp.Null()) for arg in args))
    value = exp.Anonymous(this="struct", expressions=[arg.copy() for arg in args])
    row = value if distinct else exp.Literal.number(1)
    return (exp.Anonymous(this="if", expressions=[null, exp.Null(), row]),)


def _both(first: exp.Expr | None, second: exp.Expr) -> exp.Expr:
    return second if first is None else exp.and_(first, second)


def _is_true(node: exp.Expr) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this)
