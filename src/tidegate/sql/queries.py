"""Reads a query and collects our clauses from it; the hints of a SELECT."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidegate.errors import Span
from tidegate.sql.clauses import Clauses, clauses
from tidegate.sql.functions import call
from tidegate.sql.grammar import Parser
from tidegate.sql.spans import span_of
from tidegate.sql.statements import Query

EARLY_FIRE = "early_fire"


def hints(query: exp.Expr) -> list[tuple[str, dict[str, str], Span | None]]:
    """The hints of a SELECT: name, options, span. The option name of a positional argument is its number."""
    hint = query.args.get("hint")
    return [_hint(node) for node in hint.expressions] if isinstance(hint, exp.Hint) else []


def _hint(node: exp.Expr) -> tuple[str, dict[str, str], Span | None]:
    function = call(node)
    if function is None:
        return node.name.lower(), {}, span_of(node)
    options = {
        (arg.this.name if isinstance(arg, exp.EQ) else str(number)): (
            arg.expression.name if isinstance(arg, exp.EQ) else arg.name
        )
        for number, arg in enumerate(function.args)
    }
    return function.name, options, span_of(node)


# Clauses that apply to the whole query, with their names in messages.
WHOLE_QUERY = {
    "emit": "EMIT",
    "allowed_lateness": "ALLOWED LATENESS",
    "late_data_to": "LATE DATA TO",
    "as_of_step": "AS OF STEP",
}


def query_ahead(parser: Parser) -> bool:
    return parser.at("SELECT") or parser.at("WITH") or parser.at("(") or parser.at("FROM") or parser.at("VALUES")


def read_query(parser: Parser) -> Query:
    """The query that must come next."""
    start = parser.start_token()
    select = parser._parse_ddl_select() if query_ahead(parser) else None
    if isinstance(select, exp.Values):
        select = parser._values_to_select(select)
    if not isinstance(select, exp.Query):
        parser.fail(f"expected SELECT{parser.instead()}")
    _reject_joins_alone(parser, select)
    own = _collect_clauses(parser, select)
    span = parser.since(start)
    return Query(
        select=select,
        text=parser.sql[span.start : span.end],
        span=span,
        emit=own.emit,
        allowed_lateness=own.allowed_lateness,
        late_data_to=own.late_data_to,
        as_of_step=own.as_of_step,
    )


def _reject_joins_alone(parser: Parser, query: exp.Query) -> None:
    """Reject `SELECT * JOIN b`: a join without a relation before it."""
    for select in query.find_all(exp.Select):
        if select.args.get("joins") and select.args.get("from_") is None:
            span = span_of(select.args["joins"][0]) or parser.next_span()
            parser.fail("this join has nothing before it", hint="write FROM a JOIN b ON ...", span=span)


def _collect_clauses(parser: Parser, query: exp.Query) -> Clauses:
    """The clauses at the end of the query; reject EMIT and its like anywhere else."""
    outermost = list(_outermost(query))
    _reject_inner(parser, query, outermost)
    values: dict[str, object] = {}
    for node in outermost:
        for clause, label in WHOLE_QUERY.items():
            value = getattr(clauses(node), clause)
            if value is not None and clause in values:
                parser.fail(f"{label} is given twice", span=clauses(node).span(clause))
            if value is not None:
                values[clause] = value
    return Clauses(**values)  # type: ignore[arg-type]


def _outermost(query: exp.Expr) -> Iterator[exp.Expr]:
    """The query, and the parts that end where it ends: the last branch of a UNION, a query in parentheses."""
    yield query
    if isinstance(query, exp.SetOperation):
        yield from _outermost(query.expression)
    elif isinstance(query, exp.Subquery):
        yield from _outermost(query.this)


def _reject_inner(parser: Parser, query: exp.Query, outermost: list[exp.Expr]) -> None:
    for node in query.find_all(exp.Query):
        if any(node is outer for outer in outermost):
            continue
        for clause, label in WHOLE_QUERY.items():
            span: Span | None = clauses(node).span(clause)
            if span is not None:
                parser.fail(
                    f"{label} belongs at the end of the whole query, not inside it",
                    hint=f"make the inner query a view of its own, with its own {label}",
                    span=span,
                )
