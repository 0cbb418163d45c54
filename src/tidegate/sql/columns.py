"""The columns of CREATE SOURCE|TABLE: types, keys, and the annotations of time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Never

from sqlglot import exp

from tidegate.errors import make
from tidegate.sql.cursor import Cursor
from tidegate.sql.durations import read_duration
from tidegate.sql.statements import ColumnDef, Name, WatermarkClause
from tidegate.sql.types import read_type

ANNOTATIONS = "NOT NULL, PRIMARY KEY, LATENESS d or WATERMARK d"


@dataclass
class Columns:
    """The declarations between the parentheses."""

    columns: list[ColumnDef] = field(default_factory=list)
    primary_key: tuple[Name, ...] = ()
    watermarks: list[WatermarkClause] = field(default_factory=list)


def read_columns(cursor: Cursor, relation: Name) -> Columns:
    """`(name type annotations, ..., PRIMARY KEY (...), WATERMARK FOR ...)`."""
    declared = Columns()
    cursor.expect("(", after=relation.text, hint=f"write {relation.text} (column TYPE, ...)")
    while True:
        _element(cursor, declared)
        if cursor.take(")"):
            break
        _comma(cursor)
    _check_keys(cursor, declared)
    return declared


def _comma(cursor: Cursor) -> None:
    if not cursor.take(","):
        cursor.fail(f"expected , or ) or {ANNOTATIONS}{cursor.instead()}")


def _element(cursor: Cursor, declared: Columns) -> None:
    """A column, unless the words make it a key or a watermark: `primary`, `watermark` alone are column names."""
    if cursor.take("CONSTRAINT"):
        cursor.name("the name of a constraint")
    if cursor.at("PRIMARY KEY", "(") or cursor.at("PRIMARY", "KEY", "("):
        _table_key(cursor, declared)
    elif cursor.at("WATERMARK", "FOR") or (cursor.at("WATERMARK") and _delay_follows(cursor)):
        declared.watermarks.append(_watermark(cursor))
    else:
        declared.columns.append(_column(cursor, declared))


def _delay_follows(cursor: Cursor) -> bool:
    following = cursor.peek(2)
    return following is not None and following.text.upper() == "DELAY"


def _table_key(cursor: Cursor, declared: Columns) -> None:
    start = cursor.start_token()
    cursor.take("PRIMARY KEY") or cursor.take("PRIMARY", "KEY")
    names = cursor.names_in_parentheses("PRIMARY KEY")
    cursor.take("NOT", "ENFORCED")
    if declared.primary_key:
        cursor.fail("the primary key is given twice", span=cursor.since(start))
    declared.primary_key = names


def _watermark(cursor: Cursor) -> WatermarkClause:
    start = cursor.start_token()
    cursor._advance()
    if not cursor.take("FOR"):
        column = cursor.name("a column after WATERMARK")
        cursor.expect("DELAY", "OF", after=f"WATERMARK {column.text}")
        return WatermarkClause(column, read_duration(cursor, "DELAY OF"), cursor.since(start))
    column = cursor.name("a column after WATERMARK FOR")
    delay = _delay(cursor, column) if cursor.take("AS") else None
    return WatermarkClause(column, delay, cursor.since(start))


def _delay(cursor: Cursor, column: Name) -> exp.Expr | None:
    """The delay in `ts - INTERVAL ...`; None for `ts` itself."""
    start = cursor.start_token()
    value = cursor.value(f"an expression after WATERMARK FOR {column.text} AS")
    base, delay = (value.this, value.expression) if isinstance(value, exp.Sub) else (value, None)
    same = isinstance(base, exp.Column) and base.name.lower() == column.text.lower()
    if not same or (delay is not None and delay.find(exp.Column)):
        cursor.fail(
            f"the watermark of {column.text} must be {column.text} or {column.text} - INTERVAL ...",
            hint=f"write WATERMARK FOR {column.text} AS {column.text} - INTERVAL '5' SECOND",
            span=cursor.since(start),
        )
    return delay


def _column(cursor: Cursor, declared: Columns) -> ColumnDef:
    name = cursor.name("a column")
    if any(c.name.text.lower() == name.text.lower() for c in declared.columns):
        cursor.fail(f"column {name.text} is declared twice", span=name.span)
    if cursor.at("AS"):
        return _read_computed(cursor, name)
    return _with_annotations(cursor, name, read_type(cursor, name.text))


def _read_computed(cursor: Cursor, name: Name) -> ColumnDef:
    start = cursor.start_token()
    cursor._advance()
    value = cursor.value(f"PROCTIME() after {name.text} AS")
    if isinstance(value, exp.Anonymous) and value.name.upper() == "PROCTIME":
        return ColumnDef(name, "timestamp", nullable=False, primary_key=False, proctime=True)
    raise make(
        "NOT_SUPPORTED",
        message=f"column {name.text} is computed; only PROCTIME() can be declared so",
        hint=f"compute {name.text} in a view over this relation",
        span=name.span.hull(cursor.since(start)),
        text=cursor.sql,
    )


def _with_annotations(cursor: Cursor, name: Name, type_: str) -> ColumnDef:
    nullable, key = True, False
    lateness: exp.Expr | None = None
    hold_back: exp.Expr | None = None
    metadata: str | None = None
    while True:
        if cursor.take("NOT", "NULL"):
            nullable = False
        elif cursor.take("PRIMARY KEY") or cursor.take("PRIMARY", "KEY"):
            cursor.take("NOT", "ENFORCED")
            nullable, key = False, True
        elif lateness is None and cursor.take("LATENESS"):
            lateness = _amount(cursor, f"LATENESS of {name.text}")
        elif hold_back is None and cursor.take("WATERMARK"):
            hold_back = _amount(cursor, f"WATERMARK of {name.text}")
        elif metadata is None and cursor.take("METADATA"):
            metadata = _metadata(cursor, name)
        elif cursor.at("DEFAULT"):
            _reject_default(cursor, name)
        elif cursor.at("COLLATE"):
            _reject_collation(cursor, name)
        elif not (cursor.take("NULL") or _comment(cursor)):
            return ColumnDef(name, type_, nullable, key, lateness, hold_back, metadata=metadata)


def _metadata(cursor: Cursor, name: Name) -> str:
    """Flink's `ts TIMESTAMP METADATA FROM 'timestamp' VIRTUAL`: the metadata field, by default the column's name."""
    field = name.text
    if cursor.take("FROM"):
        text = cursor._parse_string()
        if text is None:
            cursor.fail(
                f"expected a text after METADATA FROM{cursor.instead()}", hint="write METADATA FROM 'timestamp'"
            )
        field = text.name
    cursor.take("VIRTUAL")
    return field


def _comment(cursor: Cursor) -> bool:
    return cursor.take("COMMENT") and bool(cursor._parse_string())


def _amount(cursor: Cursor, what: str) -> exp.Expr:
    """A value that can be subtracted from a column: an interval or a number."""
    amount = cursor._parse_bitwise()
    if amount is None:
        cursor.fail(f"{what} needs a value{cursor.instead()}", hint="write an INTERVAL for times, a number for numbers")
    return amount


def _reject_default(cursor: Cursor, name: Name) -> Never:
    raise make(
        "NOT_SUPPORTED",
        message=f"column {name.text} has a DEFAULT; defaults are not kept",
        hint="give the value in every INSERT, or COALESCE it in a view",
        span=cursor.next_span(),
        text=cursor.sql,
    )


def _reject_collation(cursor: Cursor, name: Name) -> Never:
    raise make(
        "NOT_SUPPORTED",
        message=f"column {name.text} has a collation; texts are compared byte by byte",
        hint=f"leave it out, and compare LOWER({name.text})",
        span=cursor.next_span(),
        text=cursor.sql,
    )


def _check_keys(cursor: Cursor, declared: Columns) -> None:
    inline = tuple(c.name for c in declared.columns if c.primary_key)
    if declared.primary_key and inline:
        cursor.fail("the primary key is given twice", span=inline[0].span)
    if len(inline) > 1:
        names = ", ".join(n.text for n in inline)
        cursor.fail(
            "only one column can be marked PRIMARY KEY", hint=f"write PRIMARY KEY ({names})", span=inline[1].span
        )
    declared.primary_key = declared.primary_key or inline
    _check_declared(cursor, declared)


def _check_declared(cursor: Cursor, declared: Columns) -> None:
    """Reject a key or watermark on a column that is not declared."""
    known = {c.name.text.lower() for c in declared.columns}
    for name in (*declared.primary_key, *(w.column for w in declared.watermarks)):
        if name.text.lower() not in known:
            raise make(
                "UNKNOWN_COLUMN",
                message=f"there is no column {name.text} among those declared here",
                hint=f"declared: {', '.join(c.name.text for c in declared.columns)}",
                span=name.span,
                text=cursor.sql,
            )
    keys = {name.text.lower() for name in declared.primary_key}
    declared.columns = [_as_key(c) if c.name.text.lower() in keys else c for c in declared.columns]


def _as_key(column: ColumnDef) -> ColumnDef:
    return replace(column, primary_key=True, nullable=False)
