"""All statements but CREATE."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tidegate.errors import enumerated
from tidegate.sql.grammar import Parser
from tidegate.sql.queries import query_ahead, read_query
from tidegate.sql.statements import (
    Advance,
    Delete,
    Describe,
    Drop,
    Explain,
    Insert,
    Lateness,
    Name,
    Query,
    RefreshTable,
    Select,
    Set,
    Show,
    ShowCreate,
    Subscribe,
    Update,
)


def read_insert(parser: Parser) -> Insert:
    """INSERT INTO rel [(columns)] VALUES (...), ... | SELECT ..."""
    start = parser.begin()
    parser.expect("INTO", after="INSERT")
    parser.take("TABLE")
    name = parser.dotted_name("the relation to insert into")
    columns = parser.names_in_parentheses(name.text) if parser.at("(") and not _is_query(parser) else ()
    values = _values(parser) if parser.at("VALUES") else None
    query = read_query(parser) if values is None else None
    return Insert(*parser.finish(start), name, columns, values, query)


def read_delete(parser: Parser) -> Delete:
    start = parser.begin()
    parser.expect("FROM", after="DELETE")
    name = parser.dotted_name("the table to delete from")
    where = parser.value("a condition after WHERE") if parser.take("WHERE") else None
    return Delete(*parser.finish(start), name, where)


def read_update(parser: Parser) -> Update:
    start = parser.begin()
    name = parser.dotted_name("the table to update")
    parser.expect("SET", after=f"UPDATE {name.text}")
    assignments = [_assignment(parser)]
    while parser.take(","):
        assignments.append(_assignment(parser))
    where = parser.value("a condition after WHERE") if parser.take("WHERE") else None
    return Update(*parser.finish(start), name, tuple(assignments), where)


def read_advance(parser: Parser) -> Advance:
    """ADVANCE rel.col TO value."""
    start = parser.begin()
    relation, column = _relation_and_column(parser, "ADVANCE")
    parser.expect("TO", after=f"ADVANCE {relation.text}.{column.text}")
    value = parser.value("a value after TO")
    return Advance(*parser.finish(start), relation, column, value)


def read_lateness(parser: Parser) -> Lateness:
    """LATENESS view.col expr."""
    start = parser.begin()
    view, column = _relation_and_column(parser, "LATENESS")
    value = parser.value(f"an INTERVAL or a number after LATENESS {view.text}.{column.text}")
    return Lateness(*parser.finish(start), view, column, value)


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
    parser.mark_since(values, start)
    return values


def _row(parser: Parser) -> exp.Tuple:
    start = parser.start_token()
    parser.expect("(", after="VALUES", hint="write VALUES (1, 'a'), (2, 'b')")
    cells = [parser.value("a value")]
    while parser.take(","):
        cells.append(parser.value("a value"))
    if not parser.take(")"):
        parser.fail(f"expected , or ) in a row of VALUES{parser.instead()}")
    row = exp.Tuple(expressions=cells)
    parser.mark_since(row, start)
    return row


def _assignment(parser: Parser) -> tuple[Name, exp.Expr]:
    name = parser.name("a column to set")
    parser.expect("=", after=name.text)
    return name, parser.value(f"a value for {name.text}")


def _relation_and_column(parser: Parser, after: str) -> tuple[Name, Name]:
    usage = f"write {after} relation.column ..."
    relation = parser.name(f"relation.column after {after}")
    if not parser.take("."):
        parser.fail(f"{after} needs a column of {relation.text}{parser.instead()}", hint=usage)
    return relation, parser.name(f"a column of {relation.text}")


SHOWABLE = ("SOURCES", "TABLES", "VIEWS", "MATERIALIZED VIEWS", "STREAMS", "SINKS", "QUERIES")
KINDS = ("SOURCE", "STREAM", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK")
STAGES = ("parsed", "bound", "rewritten", "circuit")
DEFAULT_STAGE = "circuit"


def read_select(parser: Parser) -> Select:
    start = parser.start_token()
    query = read_query(parser)
    return Select(*parser.finish(start), query)


def read_drop(parser: Parser) -> Drop:
    start = parser.begin()
    kind = _kind(parser, "DROP")
    if_exists = parser.take("IF", "EXISTS")
    name = parser.dotted_name(f"the {kind} to drop")
    cascade = parser.take("CASCADE")
    if not cascade:
        parser.take("RESTRICT")
    return Drop(*parser.finish(start), kind, name, if_exists, cascade)


def read_show(parser: Parser) -> Show | ShowCreate:
    start = parser.begin()
    if parser.take("CREATE"):
        kind = _kind(parser, "SHOW CREATE")
        name = parser.dotted_name(f"the {kind} to show")
        return ShowCreate(*parser.finish(start), kind, name)
    for what in SHOWABLE:
        if parser.take(*what.split()):
            return Show(*parser.finish(start), what.lower())
    choices = enumerated((*SHOWABLE, "CREATE kind name"))
    parser.fail(f"SHOW must be followed by {choices}{parser.instead()}", hint=parser.guess(*SHOWABLE))


def read_describe(parser: Parser) -> Describe:
    start = parser.begin()
    extended = parser.take("EXTENDED")
    if parser.peek(1) is not None:
        parser.take_any("TABLE", "SOURCE", "STREAM", "VIEW", "SINK")
    name = parser.dotted_name("the relation to describe")
    return Describe(*parser.finish(start), name, extended)


def read_explain(parser: Parser) -> Explain:
    """EXPLAIN [(stage)] SELECT ... | view."""
    start = parser.begin()
    stage = _stage(parser)
    query: Query | None = None
    view = None
    if query_ahead(parser):
        query = read_query(parser)
    else:
        if not parser.take("MATERIALIZED", "VIEW") and parser.peek(1) is not None:
            parser.take("VIEW")
        view = parser.dotted_name("a SELECT or the name of a view after EXPLAIN")
    return Explain(*parser.finish(start), stage, query, view)


def read_subscribe(parser: Parser) -> Subscribe:
    start = parser.begin()
    parser.take("TO")
    view = parser.dotted_name("the view to subscribe to")
    step = None
    if parser.take("FROM"):
        parser.expect("STEP", after=f"SUBSCRIBE {view.text} FROM")
        step = parser.integer("a step number after FROM STEP")
    return Subscribe(*parser.finish(start), view, step)


def read_set(parser: Parser) -> Set:
    """SET name = value; the name may be dotted or quoted, as in Flink's SET 'table.exec.x' = 'y'."""
    start = parser.begin()
    name = _setting_name(parser)
    if not (parser.take("=") or parser.take("TO")):
        parser.fail(f"SET {name} must be followed by = and a value{parser.instead()}")
    value = _setting(parser, name)
    return Set(*parser.finish(start), name, value)


def read_refresh(parser: Parser) -> RefreshTable:
    start = parser.begin()
    if not parser.take("SOURCE"):
        parser.expect("TABLE", after="REFRESH")
    name = parser.dotted_name("the table to refresh")
    return RefreshTable(*parser.finish(start), name)


def _kind(parser: Parser, after: str) -> str:
    """source, stream, table, view or sink; MATERIALIZED VIEW is a view."""
    if parser.take("MATERIALIZED"):
        parser.expect("VIEW", after=f"{after} MATERIALIZED")
        return "view"
    word = parser.take_any("SOURCE", "STREAM", "TABLE", "VIEW", "SINK")
    if word is None:
        parser.fail(f"{after} must be followed by {enumerated(KINDS)}{parser.instead()}", hint=parser.guess(*KINDS))
    return word.lower()


def _stage(parser: Parser) -> str:
    following = parser.peek(1)
    if not parser.at("(") or following is None or following.text.upper() in ("SELECT", "WITH", "("):
        return DEFAULT_STAGE
    parser._advance()
    stage = parser.name("a stage").text.lower()
    if stage not in STAGES:
        parser.fail(f"there is no stage {stage}", hint=f"stages: {', '.join(STAGES)}", span=parser.since(following))
    parser.expect(")", after=f"EXPLAIN ({stage}")
    return stage


def _setting_name(parser: Parser) -> str:
    if (token := parser.here) is not None and token.token_type == TokenType.STRING:
        parser._advance()
        return token.text
    name = parser.dotted_name("the name of a setting").text
    while parser.take("-"):
        name += "-" + parser.dotted_name(f"a name after {name}-").text
    return name


def _setting(parser: Parser, name: str) -> str:
    """The rest of the statement: one quoted text, or words and numbers as written."""
    start = parser.here
    if start is None:
        parser.fail(f"SET {name} = needs a value")
    while parser.here is not None:
        parser._advance()
    span = parser.since(start)
    return start.text if start.token_type == TokenType.STRING else parser.sql[span.start : span.end]
