"""Statements that feed a relation: INSERT, DELETE, UPDATE, ADVANCE, and LATENESS of a view."""

from __future__ import annotations

from sqlglot import exp

from tidegate.sql.grammar import Parser
from tidegate.sql.queries import read_query
from tidegate.sql.statements import Advance, Delete, Insert, Lateness, Name, Update


def read_insert(parser: Parser) -> Insert:
    """INSERT INTO rel [(columns)] VALUES (...), ... | SELECT ..."""
    start = parser.begun()
    parser.expect("INTO", after="INSERT")
    parser.take("TABLE")
    name = parser.dotted_name("the relation to insert into")
    columns = parser.names_in_parentheses(name.text) if parser.at("(") and not _is_query(parser) else ()
    values = _values(parser) if parser.at("VALUES") else None
    query = read_query(parser) if values is None else None
    return Insert(*parser.ended(start), name, columns, values, query)


def read_delete(parser: Parser) -> Delete:
    start = parser.begun()
    parser.expect("FROM", after="DELETE")
    name = parser.dotted_name("the table to delete from")
    where = parser.value("a condition after WHERE") if parser.take("WHERE") else None
    return Delete(*parser.ended(start), name, where)


def read_update(parser: Parser) -> Update:
    start = parser.begun()
    name = parser.dotted_name("the table to update")
    parser.expect("SET", after=f"UPDATE {name.text}")
    assignments = [_assignment(parser)]
    while parser.take(","):
        assignments.append(_assignment(parser))
    where = parser.value("a condition after WHERE") if parser.take("WHERE") else None
    return Update(*parser.ended(start), name, tuple(assignments), where)


def read_advance(parser: Parser) -> Advance:
    """ADVANCE rel.col TO value."""
    start = parser.begun()
    relation, column = _relation_and_column(parser, "ADVANCE")
    parser.expect("TO", after=f"ADVANCE {relation.text}.{column.text}")
    value = parser.value("a value after TO")
    return Advance(*parser.ended(start), relation, column, value)


def read_lateness(parser: Parser) -> Lateness:
    """LATENESS view.col expr."""
    start = parser.begun()
    view, column = _relation_and_column(parser, "LATENESS")
    value = parser.value(f"an INTERVAL or a number after LATENESS {view.text}.{column.text}")
    return Lateness(*parser.ended(start), view, column, value)


def _is_query(parser: Parser) -> bool:
    following = parser.peek(1)
    return following is not None and following.text.upper() in ("SELECT", "WITH", "(")


def _values(parser: Parser) -> exp.Values:
    start = parser.start_token()
    parser._advance()
    rows = [_row(parser)]
    while parser.take(","):
        rows.append(_row(parser))
    values = exp.Values(expressions=rows)
    parser.marked(values, start)
    return values


def _row(parser: Parser) -> exp.Tuple:
    start = parser.start_token()
    parser.expect("(", after="VALUES", hint="write VALUES (1, 'a'), (2, 'b')")
    cells = [parser.value("a value")]
    while parser.take(","):
        cells.append(parser.value("a value"))
    if not parser.take(")"):
        parser.refuse(f"expected , or ) in a row of VALUES{parser.instead()}")
    row = exp.Tuple(expressions=cells)
    parser.marked(row, start)
    return row


def _assignment(parser: Parser) -> tuple[Name, exp.Expr]:
    name = parser.name("a column to set")
    parser.expect("=", after=name.text)
    return name, parser.value(f"a value for {name.text}")


def _relation_and_column(parser: Parser, after: str) -> tuple[Name, Name]:
    usage = f"write {after} relation.column ..."
    relation = parser.name(f"relation.column after {after}")
    if not parser.take("."):
        parser.refuse(f"{after} needs a column of {relation.text}{parser.instead()}", hint=usage)
    return relation, parser.name(f"a column of {relation.text}")
