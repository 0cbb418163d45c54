"""Written type names -> Spark's own (`simpleString`): VARCHAR(10) -> string, ROW(a INT) -> struct<a:int>."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType

from tidegate.errors import did_you_mean
from tidegate.sql.cursor import Cursor, word

SPARK_NAMES: dict[str, str] = {
    **dict.fromkeys(("STRING", "TEXT", "VARCHAR", "CHAR", "CHARACTER", "NVARCHAR", "UUID", "JSON", "JSONB"), "string"),
    **dict.fromkeys(("CHAR VARYING", "CHARACTER VARYING"), "string"),
    **dict.fromkeys(("TINYINT", "BYTE"), "tinyint"),
    **dict.fromkeys(("SMALLINT", "SHORT", "INT2"), "smallint"),
    **dict.fromkeys(("INT", "INTEGER", "INT4"), "int"),
    **dict.fromkeys(("BIGINT", "LONG", "INT8"), "bigint"),
    **dict.fromkeys(("FLOAT", "REAL", "FLOAT4"), "float"),
    **dict.fromkeys(("DOUBLE", "DOUBLE PRECISION", "FLOAT8"), "double"),
    **dict.fromkeys(("DECIMAL", "NUMERIC", "DEC"), "decimal"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "boolean"),
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMPLTZ", "DATETIME"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP_NTZ", "TIMESTAMPNTZ"), "timestamp_ntz"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES", "BYTEA", "BLOB"), "binary"),
    "VARIANT": "variant",
}
_CLOSING = {"<": ">", "(": ")"}


def read_type(cursor: Cursor, column: str) -> str:
    """The type that must come next, as Spark calls it."""
    here = cursor.here
    if here is None or here.token_type in (TokenType.COMMA, TokenType.R_PAREN, TokenType.GT):
        cursor.fail(f"{column} has no type", hint=f"write {column} STRING, {column} BIGINT, {column} TIMESTAMP, ...")
    type = NESTED_READERS.get(word(here), _simple)(cursor)
    while cursor.take("[", "]") or cursor.take("ARRAY"):
        type = f"array<{type}>"
    return type


def _simple(cursor: Cursor) -> str:
    token = cursor.start_token()
    spark = SPARK_NAMES.get(word(token))
    if spark is None:
        hint = (
            did_you_mean(token.text, (*SPARK_NAMES, *NESTED_READERS))
            or "write STRING, BIGINT, DOUBLE, DECIMAL(10,2), BOOLEAN, TIMESTAMP, ..."
        )
        cursor.fail(f"there is no type {token.text}", hint=hint)
    cursor._advance()
    sizes = _sizes(cursor)
    if spark == "decimal":
        precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
        return f"decimal({precision},{scale})"
    if spark == "timestamp":
        _time_zone(cursor)
    return spark


def _sizes(cursor: Cursor) -> tuple[int, ...]:
    """`(10)`, `(10, 2)`, or nothing."""
    if not cursor.take("("):
        return ()
    sizes = [cursor.integer("a size")]
    while cursor.take(","):
        sizes.append(cursor.integer("a size"))
    cursor.expect(")", after="the size of a type")
    return tuple(sizes)


def _time_zone(cursor: Cursor) -> None:
    """Skip WITH TIME ZONE and its like: all timestamps are points in time."""
    if cursor.at("WITH", "TIME") or cursor.at("WITH", "LOCAL", "TIME") or cursor.at("WITHOUT", "TIME"):
        cursor._advance()
        cursor.take("LOCAL")
        cursor.expect("TIME", "ZONE", after="TIMESTAMP WITH")


def _open(cursor: Cursor) -> str:
    """Consume `<` or `(`; returns the closing token."""
    name = cursor.start_token().text.upper()
    cursor._advance()
    opening = cursor.take_any("<", "(")
    if opening is None:
        cursor.fail(f"{name} must say what it contains{cursor.instead()}", hint="write ARRAY<STRING>, MAP<STRING, INT>")
    return _CLOSING[opening]


def _array(cursor: Cursor) -> str:
    closing = _open(cursor)
    element = read_type(cursor, "element")
    cursor.expect(closing, after=f"ARRAY<{element}")
    return f"array<{element}>"


def _map(cursor: Cursor) -> str:
    closing = _open(cursor)
    key = read_type(cursor, "key")
    cursor.expect(",", after=f"MAP<{key}")
    value = read_type(cursor, "value")
    cursor.expect(closing, after=f"MAP<{key}, {value}")
    return f"map<{key},{value}>"


def _struct(cursor: Cursor) -> str:
    closing = _open(cursor)
    fields = [_field(cursor)]
    while cursor.take(","):
        fields.append(_field(cursor))
    cursor.expect(closing, after="the fields of a STRUCT")
    return f"struct<{','.join(fields)}>"


def _field(cursor: Cursor) -> str:
    name = cursor.name("a field").text
    cursor.take(":")
    type_ = read_type(cursor, name)
    cursor.take("NOT", "NULL")
    return f"{name}:{type_}"


NESTED_READERS: dict[str, Callable[[Cursor], str]] = {"ARRAY": _array, "MAP": _map, "STRUCT": _struct, "ROW": _struct}
