"""A view's SELECT as a batch query for Spark, made deterministic where SQL allows several answers."""

from __future__ import annotations

from sqlglot import exp

from tidegate.bind.adhoc.deterministic import SEVERAL_ANSWERS, Columns, deterministic
from tidegate.sql import call, render
from tidegate.sql.functions import TWINS
from tidegate.sql.statements import Query
from tidegate.sql.windows import table_window, window_function

ARRIVAL = frozenset({"first", "first_value", "last", "last_value", "any_value"})


def batch_sql(query: Query, columns: Columns) -> str:
    """Spark SQL for the query: its own text where possible, so that the oracle does not share bugs of our printer.

    `columns` gives the column names of a relation."""
    if not calls(query) & SEVERAL_ANSWERS and query.select.find(exp.Limit) is None:
        return own_text(query)
    return tree_sql(query.select.copy(), columns)


def tree_sql(tree: exp.Query, columns: Columns) -> str:
    """Spark SQL for a tree, which is modified in place."""
    return render(deterministic(tree, columns))


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
