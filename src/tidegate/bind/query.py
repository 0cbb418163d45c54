"""Any query -> plan."""

from __future__ import annotations

from sqlglot import exp

from tidegate.bind.context import Bound, Context
from tidegate.bind.select import bind_select
from tidegate.bind.set_operations import bind_set_operation, limited
from tidegate.bind.unsupported import check_clauses, refused
from tidegate.errors import make
from tidegate.sql import span_of


def bind_query(query: exp.Query, context: Context) -> Bound:
    """The plan of a SELECT, of several put together, or of one in parentheses, with its WITH clause."""
    check_clauses(query)
    _check_with(query)
    inside = context.with_ctes(query)
    if isinstance(query, exp.Select):
        return bind_select(query, inside, bind_query)
    if isinstance(query, exp.SetOperation):
        return bind_set_operation(query, inside, bind_query)
    if isinstance(query, exp.Subquery):
        return limited(query, bind_query(query.this, inside))
    if isinstance(query, exp.Values):
        raise refused("VALUES in a view", span_of(query), "create a table and insert the rows")
    raise refused("this kind of query", span_of(query), "write SELECT ... FROM ...")


def _check_with(query: exp.Query) -> None:
    clause = query.args.get("with_")
    if clause is None:
        return
    if clause.args.get("recursive"):
        raise refused("WITH RECURSIVE", span_of(clause))
    seen: set[str] = set()
    for cte in clause.expressions:
        if cte.alias.casefold() in seen:
            message = f"WITH defines {cte.alias} twice"
            raise make("ALREADY_EXISTS", message=message, hint="give one another name", span=span_of(cte.args["alias"]))
        seen.add(cte.alias.casefold())
