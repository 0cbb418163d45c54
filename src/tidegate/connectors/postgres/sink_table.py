"""The table that a sink writes to: its columns and types, created if it does not exist, checked if it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.rows import ADDED
from tidegate.core.types import arrow_schema, spark_name
from tidegate.errors import Error, enumerated, make

JSON_OF_EVENTS = ("payload", "transaction")
_TEXTS = ("text", "character varying", "character", "citext", "name", "uuid", "json", "jsonb", "xml", "inet", "cidr")
_WIDER: dict[str, tuple[str, ...]] = {
    "smallint": ("integer", "bigint", "numeric", "real", "double precision"),
    "integer": ("bigint", "numeric", "double precision"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": _TEXTS,
    "jsonb": ("json", "text"),
    "date": ("timestamp without time zone",),
}
_SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.time64("ns"): "time without time zone",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
    pa.duration("us"): "interval",
    pa.null(): "text",
}
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")


@dataclass(frozen=True)
class Field:
    """A column to be written: `declared` is the type that it has in a table of our making."""

    name: str
    type: pa.DataType
    declared: str


def fields(spec: SinkSpec, changelog: bool) -> tuple[Field, ...]:
    """What goes into the table: the relation's columns, before them op, weight and step if it is a changelog."""
    own = [Field(found.name, found.type, _declared(found, spec.events)) for found in arrow_schema(spec.columns)]
    types = (pa.string(), pa.int64(), pa.int64())
    added = [Field(name, type_, declared(type_)) for name, type_ in zip(ADDED, types, strict=True)]
    return (*(added if changelog else []), *own)


def _declared(found: pa.Field[pa.DataType], events: bool) -> str:
    return "jsonb" if events and found.name in JSON_OF_EVENTS else declared(found.type)


def declared(type_: pa.DataType) -> str:
    """The type for a column: arrays of simple values are arrays, whatever else is nested is JSON."""
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    if isinstance(type_, pa.ListType) and not pa.types.is_nested(type_.value_type):
        return f"{declared(type_.value_type)}[]"
    return _SIMPLE.get(type_, "jsonb")


def holds(there: str, wanted: str, enumeration: bool) -> bool:
    """Whether a column of a type (as format_type has it) takes all values that one of the wanted type has. Text goes
    into whatever is written as text: the view's author knows what it is."""
    if there.endswith("[]") and wanted.endswith("[]"):
        return holds(there[:-2], wanted[:-2], enumeration)
    if enumeration:
        return wanted == "text"
    numbers = _NUMERIC.fullmatch(wanted)
    if numbers:
        return _digits_fit(there, int(numbers[1]), int(numbers[2]))
    bare = re.sub(r"\(\d+(,-?\d+)?\)", "", there)
    wider = bare in _WIDER.get(wanted, ()) and (bare != "numeric" or there == bare)
    return bare == wanted or wider


def _digits_fit(there: str, precision: int, scale: int) -> bool:
    found = _NUMERIC.fullmatch(there)
    if found is None or found[1] is None:
        return found is not None
    return int(found[2]) >= scale and int(found[1]) - int(found[2]) >= precision - scale


NULLS_AS_VALUES = 150_000
"""The version since which a unique index can take NULL for a value."""

_COLUMNS = """
SELECT a.attname, format_type(CASE WHEN t.typbasetype = 0 THEN t.oid ELSE t.typbasetype END,
       CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END), coalesce(e.typtype, t.typtype) = 'e',
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typlen = -1
WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT array_agg(a.attname::text), bool_or(coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false))
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s::oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
  AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid
"""


@dataclass(frozen=True)
class Table:
    """A table that fits. `shown` is its name for people; `names` are those of its columns for the fields, in their
    order; `nulls`: its unique index takes NULL in a key for a value."""

    name: str
    shown: str
    names: tuple[str, ...]
    nulls: bool = False


@dataclass(frozen=True)
class There:
    """A column that a table has. `needed`: a row without it is refused; `made`: only the server fills it."""

    name: str
    type: str
    enumeration: bool
    needed: bool
    made: bool


def quoted(*parts: str) -> str:
    """A name as PostgreSQL reads it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def found(connection: Any, name: str) -> int | None:
    """The number of a table, None if there is none of that name."""
    [oid] = connection.execute("SELECT to_regclass(%s)::oid", [name]).fetchone()
    return None if oid is None else int(oid)


def definition(name: str, fields: Sequence[Field], spec: SinkSpec, keyed: bool, version: int) -> str:
    """CREATE TABLE for the fields. A key in which there may be NULL is unique rather than primary, where NULL can be
    a value."""
    parts = [f"{quoted(field.name)} {field.declared}" for field in fields]
    if keyed:
        unique = "PRIMARY KEY" if not nullable(spec) or version < NULLS_AS_VALUES else "UNIQUE NULLS NOT DISTINCT"
        parts.append(f"{unique} ({', '.join(map(quoted, spec.key))})")
    return f"CREATE TABLE {name} ({', '.join(parts)})"


def nullable(spec: SinkSpec) -> bool:
    """Whether the key may have NULL in it."""
    return any(column.nullable for column in spec.columns if column.name in spec.key)


def looked_at(connection: Any, oid: int, parts: tuple[str, ...], fields: Sequence[Field]) -> Table:
    """The table's columns for the fields, or an error that says what to change in it."""
    name, shown = quoted(*parts), ".".join(parts)
    there = [There(*row) for row in connection.execute(_COLUMNS, [oid])]
    chosen = [_column(field, there, name, shown) for field in fields]
    left = [column for column in there if column.needed and not column.made and column not in chosen]
    if left:
        raise make(
            "INVALID_OPTION",
            message=f"column {left[0].name} of table {shown} is NOT NULL, and the sink has no values for it",
            hint=f"ALTER TABLE {name} ALTER COLUMN {quoted(left[0].name)} DROP NOT NULL, or SET DEFAULT ...",
        )
    return Table(name, shown, tuple(column.name for column in chosen))


def with_key(connection: Any, oid: int, table: Table, key: Sequence[str], spec: SinkSpec) -> Table:
    """The table again, once it is known that rows can be replaced by the key."""
    indexes = [nulls for names, nulls in connection.execute(_UNIQUE, [oid]) if set(names) == set(key)]
    if not indexes:
        nulls = nullable(spec) and connection.info.server_version >= NULLS_AS_VALUES
        index = f"CREATE UNIQUE INDEX ON {table.name} ({', '.join(map(quoted, key))})"
        raise make(
            "INVALID_OPTION",
            message=f"table {table.shown} has no unique index on {enumerated(key, 'and')}, the key of the view",
            hint=f"{index} NULLS NOT DISTINCT" if nulls else index,
        )
    return replace(table, nulls=any(indexes))


def _column(field: Field, there: Sequence[There], name: str, shown: str) -> There:
    """The column of that name, else the only one of that name in another case."""
    exact = [column for column in there if column.name == field.name]
    alike = exact or [column for column in there if column.name.casefold() == field.name.casefold()]
    if len(alike) != 1:
        raise make(
            "INVALID_OPTION",
            message=f"table {shown} has no column {field.name}",
            detail=f"its columns: {', '.join(column.name for column in there)}",
            hint=f"ALTER TABLE {name} ADD COLUMN {quoted(field.name)} {field.declared}",
        )
    [column] = alike
    if column.made:
        raise make(
            "INVALID_OPTION",
            message=f"column {column.name} of table {shown} is filled by PostgreSQL itself",
            hint=f"leave {field.name} out of the view, or ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} DROP"
            " EXPRESSION, or DROP IDENTITY",
        )
    if not holds(column.type, field.declared, column.enumeration):
        raise _misfit(field, column, name, shown)
    return column


def _misfit(field: Field, column: There, name: str, shown: str) -> Error:
    place = quoted(column.name)
    return make(
        "INVALID_OPTION",
        message=f"column {column.name} of table {shown} is {column.type}, which does not hold every"
        f" {spark_name(field.type)} of {field.name}",
        hint=f"ALTER TABLE {name} ALTER COLUMN {place} TYPE {field.declared} USING {place}::{field.declared}",
    )
