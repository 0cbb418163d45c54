"""Queries made deterministic where SQL allows several answers, so that a batch and a maintained view agree.

Ties of ORDER BY ... LIMIT and ROW_NUMBER are broken by all columns, arrays are sorted, approximate counts are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from tidegate.sql import call

Columns = Callable[[str], tuple[str, ...] | None]
ARRAYS = frozenset({"array_agg", "collect_list", "collect_set"})
APPROXIMATE = "approx_count_distinct"
NUMBERED = "row_number"
SEVERAL_ANSWERS = frozenset({*ARRAYS, APPROXIMATE, NUMBERED})
"""Functions that a query without LIMIT must call to have several answers."""


def deterministic(
    tree: exp.Query, columns: Columns, ordering: Sequence[int] | None = None, maps: bool = False
) -> exp.Query:
    """The query with one answer. `columns` gives the column names of a relation, None if they are not known. `ordering`
    are the numbers of the query's own columns that break ties; all of them if None. Where the columns of a `*` are not
    known, ties stay. `maps`: values inside of the query may be maps, by which Spark cannot order, so ties stay there.

    The tree is modified."""
    _break_ties(tree, columns, ordering)
    for inner in [] if maps else [query for query in tree.find_all(exp.Query) if query is not tree]:
        _break_ties(inner, columns, None)
    for select in [] if maps else list(tree.find_all(exp.Select)):
        _break_ties_of_windows(select, columns)
    result = tree.transform(_exact)
    assert isinstance(result, exp.Query)
    return result


def _break_ties(query: exp.Query, columns: Columns, ordering: Sequence[int] | None) -> None:
    """`ORDER BY x LIMIT 3` of two columns -> `ORDER BY x, 1, 2 LIMIT 3`"""
    order = query.args.get("order")
    if order is None or query.args.get("limit") is None:
        return
    if ordering is None:
        ordering = range(1, len(_outputs(query, columns) or ()) + 1)
    _append(order, [exp.Literal.number(number) for number in ordering])


def _break_ties_of_windows(select: exp.Select, columns: Columns) -> None:
    for window in [each for each in select.find_all(exp.Window) if each.parent_select is select]:
        if _name(window.this) == NUMBERED and window.args.get("order") is not None:
            items = [_selected(item, select, columns) for item in select.expressions if not item.find(exp.Window)]
            _append(window.args["order"], [each for item in items for each in item])


def _selected(item: exp.Expr, select: exp.Select, columns: Columns) -> list[exp.Expr]:
    """The expressions of an item of SELECT: of a `*`, all columns."""
    if item.find(exp.Star) is None or item.find(exp.Func) is not None:
        return [item.unalias().copy()]
    return [exp.column(name, quoted=True) for name in _star(item, select, columns) or ()]


def _append(order: exp.Expr, expressions: list[exp.Expr]) -> None:
    ascending = [exp.Ordered(this=each, nulls_first=True) for each in expressions]
    order.set("expressions", [*order.expressions, *ascending])


def _outputs(query: exp.Expr, columns: Columns) -> tuple[str, ...] | None:
    """The names of the columns of a query, None if one of them is not known."""
    if isinstance(query, exp.SetOperation | exp.Subquery):
        return _outputs(query.this, columns)
    found: list[str] = []
    for item in query.expressions:
        star = item.find(exp.Star) is not None and item.find(exp.Func) is None
        names = _star(item, query, columns) if star else (item.alias_or_name,)
        if names is None:
            return None
        found += names
    return tuple(found)


def _star(item: exp.Expr, select: exp.Expr, columns: Columns) -> tuple[str, ...] | None:
    """The names behind `*` or `q.*` in a query of one relation."""
    origin = select.args.get("from_") or select.args.get("from")
    source = origin.this if origin is not None else None
    star = item if isinstance(item, exp.Star) else item.this
    if select.args.get("joins") or any(star.args.values()):
        return None
    if isinstance(source, exp.Subquery):
        return _outputs(source.this, columns)
    return columns(source.name.lower()) if isinstance(source, exp.Table) else None


def _exact(node: exp.Expr) -> exp.Expr:
    """Replaces a function by its deterministic form: `array_agg(x)` -> `sort_array(array_agg(x))`."""
    inner = node.this if isinstance(node, exp.Filter) else node
    if _name(inner) in ARRAYS:
        return exp.Anonymous(this="SORT_ARRAY", expressions=[node.copy()])
    if _name(node) == APPROXIMATE:
        return exp.Count(this=exp.Distinct(expressions=[node.expressions[0].copy()]))
    return node


def _name(node: exp.Expr) -> str:
    function = call(node)
    return function.name if function is not None else ""
