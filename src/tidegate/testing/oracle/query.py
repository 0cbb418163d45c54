"""A view's SELECT as a batch query for Spark, made deterministic where SQL allows several answers.

Ties of ORDER BY ... LIMIT and ROW_NUMBER are broken by all columns, arrays are sorted, approximate counts are exact."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidegate.sql import call, render
from tidegate.sql.functions import TWINS
from tidegate.sql.statements import Query
from tidegate.sql.windows import table_window, window_function

Columns = Callable[[str], tuple[str, ...] | None]
ARRIVAL = frozenset({"first", "first_value", "last", "last_value", "any_value"})
ARRAYS = frozenset({"array_agg", "collect_list", "collect_set"})
APPROXIMATE = "approx_count_distinct"
NUMBERED = "row_number"


def batch_sql(query: Query, columns: Columns) -> str:
    """Spark SQL for the query: its own text where possible, so that the oracle does not share bugs of our printer.

    `columns` gives the column names of a relation."""
    if not calls(query) & {*ARRAYS, APPROXIMATE, NUMBERED} and query.select.find(exp.Limit) is None:
        return own_text(query)
    return tree_sql(query.select.copy(), columns)


def tree_sql(tree: exp.Query, columns: Columns) -> str:
    """Spark SQL for a tree, which is modified in place."""
    for query_part in list(tree.find_all(exp.Query)):
        _break_ties(query_part, columns)
    for select in list(tree.find_all(exp.Select)):
        _break_ties_of_windows(select, columns)
    return render(tree.transform(_exact))


def own_text(query: Query) -> str:
    """The text of the SELECT, without the clauses that Spark does not know.

    `SELECT a FROM t EMIT CHANGES` -> `SELECT a FROM t`"""
    twins = any(each.name in TWINS for each in query.select.find_all(exp.Anonymous))
    if twins or query.select.find(exp.Hint, exp.Version, exp.AtTimeZone) is not None:
        return render(query.select.copy().transform(_without_extensions))
    if query.allowed_lateness is not None or query.late_data_to is not None:
        return render(query.select)
    if query.emit is None:
        return query.text
    return query.text[: query.emit.span.start - query.span.start]


def _without_extensions(node: exp.Expr) -> exp.Expr:
    """The node without hints and FOR SYSTEM_TIME."""
    node.set("hint", None)
    if isinstance(node, exp.Table):
        node.set("version", None)
    return node


def reads(query: Query) -> tuple[str, ...]:
    """The relations that a query names, in lower case."""
    tables = [_relation(table) for table in query.select.find_all(exp.Table)]
    ctes = {cte.alias.lower() for cte in query.select.find_all(exp.CTE)}
    names = [table.name.lower() for table in tables if isinstance(table, exp.Table) and not table.db]
    return tuple(dict.fromkeys(name for name in names if name not in ctes))


def _relation(table: exp.Table) -> exp.Expr:
    """The relation that a FROM item reads: `TUMBLE(bids, ts, d)` reads bids."""
    while isinstance(table, exp.Table) and window_function(table.this):
        table = table_window(table)[0]  # type: ignore[assignment]
    return table


def uses_arrival(query: Query) -> bool:
    """True if the answer depends on the order in which rows arrived."""
    return bool(calls(query) & ARRIVAL)


def calls(query: Query) -> set[str]:
    """The names of the functions that a query calls."""
    functions = (call(node) for node in query.select.walk())
    return {function.name for function in functions if function is not None}


def _name(node: exp.Expr) -> str:
    function = call(node)
    return function.name if function is not None else ""


def _break_ties(query: exp.Query, columns: Columns) -> None:
    """`ORDER BY x LIMIT 3` of two columns -> `ORDER BY x, 1, 2 LIMIT 3`"""
    order = query.args.get("order")
    if order is None or query.args.get("limit") is None:
        return
    names = _outputs(query, columns)
    if names is None:
        raise NotImplementedError("the columns of a SELECT * with a LIMIT are not known")
    extra = [exp.Ordered(this=exp.Literal.number(number), nulls_first=True) for number in range(1, len(names) + 1)]
    order.set("expressions", [*order.expressions, *extra])


def _break_ties_of_windows(select: exp.Select, columns: Columns) -> None:
    for window in [each for each in select.find_all(exp.Window) if each.parent_select is select]:
        if _name(window.this) == NUMBERED and window.args.get("order") is not None:
            _break_ties_of_window(window, select, columns)


def _break_ties_of_window(window: exp.Window, select: exp.Select, columns: Columns) -> None:
    extra: list[exp.Expr] = []
    for item in select.expressions:
        if item.find(exp.Window):
            continue
        if isinstance(item, exp.Star):
            names = _star(select, columns)
            if names is None:
                raise NotImplementedError("the columns of a SELECT * with ROW_NUMBER are not known")
            extra += [exp.column(name, quoted=True) for name in names]
        else:
            extra.append(item.unalias().copy())
    order = window.args["order"]
    order.set("expressions", [*order.expressions, *(exp.Ordered(this=item, nulls_first=True) for item in extra)])


def _outputs(query: exp.Expr, columns: Columns) -> tuple[str, ...] | None:
    if isinstance(query, exp.SetOperation | exp.Subquery):
        return _outputs(query.this, columns)
    names: list[str] = []
    for item in query.expressions:
        if isinstance(item, exp.Star):
            inner = _star(query, columns)
            if inner is None:
                return None
            names += inner
        else:
            names.append(item.alias_or_name)
    return tuple(names)


def _star(select: exp.Expr, columns: Columns) -> tuple[str, ...] | None:
    origin = select.args.get("from_") or select.args.get("from")
    source = origin.this if origin is not None else None
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
