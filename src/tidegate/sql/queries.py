"""A query with the clauses that are ours, collected from where they were read, and the hints of a SELECT."""

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
    """The hints of a SELECT: name, options, place. A positional argument has its number as option name."""
    hint = query.args.get("hint")
    return [_hint(node) for node in hint.expressions] if isinstance(hint, exp.Hint) else []


def _hint(node: exp.Expr) -> tuple[str, dict[str, str], Span | None]:
    found = call(node)
    if found is None:
        return node.name.lower(), {}, span_of(node)
    options = {
        (arg.this.name if isinstance(arg, exp.EQ) else str(number)): (
            arg.expression.name if isinstance(arg, exp.EQ) else arg.name
        )
        for number, arg in enumerate(found.args)
    }
    return found.name, options, span_of(node)


# Clauses that speak about the whole query, with the words to name them in messages.
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
    found = parser._parse_ddl_select() if query_ahead(parser) else None
    if isinstance(found, exp.Values):
        found = parser._values_to_select(found)
    if not isinstance(found, exp.Query):
        parser.refuse(f"expected SELECT{parser.instead()}")
    said = _collect_clauses(parser, found)
    span = parser.since(start)
    return Query(
        select=found,
        text=parser.sql[span.start : span.end],
        span=span,
        emit=said.emit,
        allowed_lateness=said.allowed_lateness,
        late_data_to=said.late_data_to,
        as_of_step=said.as_of_step,
    )


def _collect_clauses(parser: Parser, query: exp.Query) -> Clauses:
    """What is said at the end of the query; EMIT and its like anywhere else are refused."""
    outermost = list(_outermost(query))
    _refuse_inner(parser, query, outermost)
    said: dict[str, object] = {}
    for node in outermost:
        for clause, label in WHOLE_QUERY.items():
            value = getattr(clauses(node), clause)
            if value is not None and clause in said:
                parser.refuse(f"{label} is given twice", span=clauses(node).span(clause))
            if value is not None:
                said[clause] = value
    return Clauses(**said)  # type: ignore[arg-type]


def _outermost(query: exp.Expr) -> Iterator[exp.Expr]:
    """The query, and the parts that end where it ends: the last branch of a UNION, a query in parentheses."""
    yield query
    if isinstance(query, exp.SetOperation):
        yield from _outermost(query.expression)
    elif isinstance(query, exp.Subquery):
        yield from _outermost(query.this)


def _refuse_inner(parser: Parser, query: exp.Query, outermost: list[exp.Expr]) -> None:
    for node in query.find_all(exp.Query):
        if any(node is outer for outer in outermost):
            continue
        for clause, label in WHOLE_QUERY.items():
            span: Span | None = clauses(node).span(clause)
            if span is not None:
                parser.refuse(
                    f"{label} belongs at the end of the whole query, not inside it",
                    hint=f"make the inner query a view of its own, with its own {label}",
                    span=span,
                )
