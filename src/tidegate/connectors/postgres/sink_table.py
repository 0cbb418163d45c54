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
    """A column to write; `declared` is its type in a table that the sink creates."""

    name: str
    type: pa.DataType
    declared: str


def fields(spec: SinkSpec, changelog: bool) -> tuple[Field, ...]:
    """Return the columns to write: those of the relation, after op, weight and step if it is a changelog."""
    own = [Field(one.name, one.type, _declared(one, spec.events)) for one in arrow_schema(spec.columns)]
    types = (pa.string(), pa.int64(), pa.int64())
    added = [Field(name, type_, declared(type_)) for name, type_ in zip(ADDED, types, strict=True)]
    return (*(added if changelog else []), *own)


def _declared(field: pa.Field[pa.DataType], events: bool) -> str:
    return "jsonb" if events and field.name in JSON_OF_EVENTS else declared(field.type)


def declared(type_: pa.DataType) -> str:
    """Return the type of a column: arrays of simple values are arrays, other nested values are JSON."""
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    if isinstance(type_, pa.ListType) and not pa.types.is_nested(type_.value_type):
        return f"{declared(type_.value_type)}[]"
    return _SIMPLE.get(type_, "jsonb")


def holds(existing: str, needed: str, enumeration: bool) -> bool:
    """True if a column of a type (as format_type prints it) can hold all values of another. Text fits every type that
    is written as text: the author of the view knows what it contains."""
    if existing.endswith("[]") and needed.endswith("[]"):
        return holds(existing[:-2], needed[:-2], enumeration)
    if enumeration:
        return needed == "text"
    numbers = _NUMERIC.fullmatch(needed)
    if numbers:
        return _digits_fit(existing, int(numbers[1]), int(numbers[2]))
    bare = re.sub(r"\(\d+(,-?\d+)?\)", "", existing)
    wider = bare in _WIDER.get(needed, ()) and (bare != "numeric" or existing == bare)
    return bare == needed or wider


def _digits_fit(existing: str, precision: int, scale: int) -> bool:
    match = _NUMERIC.fullmatch(existing)
    if match is None or match[1] is None:
        return match is not None
    return int(match[2]) >= scale and int(match[1]) - int(match[2]) >= precision - scale


NULLS_AS_VALUES = 150_000
"""The first version with NULLS NOT DISTINCT in unique indexes."""

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
    """A table that fits. `shown` is its name in messages; `names` are the columns of the fields, in their order;
    `nulls`: its unique index treats NULLs as equal."""

    name: str
    shown: str
    names: tuple[str, ...]
    nulls: bool = False


@dataclass(frozen=True)
class ExistingColumn:
    """A column of the table. `needed`: a row without it is rejected; `made`: only the server fills it."""

    name: str
    type: str
    enumeration: bool
    needed: bool
    made: bool


def quoted(*parts: str) -> str:
    """Quote a name for PostgreSQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def find_oid(connection: Any, name: str) -> int | None:
    """Return the oid of a table, None if it does not exist."""
    [oid] = connection.execute("SELECT to_regclass(%s)::oid", [name]).fetchone()
    return None if oid is None else int(oid)


def definition(name: str, fields: Sequence[Field], spec: SinkSpec, keyed: bool, version: int) -> str:
    """Return CREATE TABLE for the fields. A key that can contain NULL becomes a unique index that treats NULLs as
    equal, where the server has that."""
    parts = [f"{quoted(field.name)} {field.declared}" for field in fields]
    if keyed:
        unique = "PRIMARY KEY" if not nullable(spec) or version < NULLS_AS_VALUES else "UNIQUE NULLS NOT DISTINCT"
        parts.append(f"{unique} ({', '.join(map(quoted, spec.key))})")
    return f"CREATE TABLE {name} ({', '.join(parts)})"


def nullable(spec: SinkSpec) -> bool:
    """True if the key can contain NULL."""
    return any(column.nullable for column in spec.columns if column.name in spec.key)


def check_table(connection: Any, oid: int, parts: tuple[str, ...], fields: Sequence[Field]) -> Table:
    """Find the columns of the fields; an error says what to change in the table."""
    name, shown = quoted(*parts), ".".join(parts)
    existing = [ExistingColumn(*row) for row in connection.execute(_COLUMNS, [oid])]
    columns = [_column(field, existing, name, shown) for field in fields]
    unfilled = [column for column in existing if column.needed and not column.made and column not in columns]
    if unfilled:
        raise make(
            "INVALID_OPTION",
            message=f"column {unfilled[0].name} of table {shown} is NOT NULL, and the sink has no values for it",
            hint=f"ALTER TABLE {name} ALTER COLUMN {quoted(unfilled[0].name)} DROP NOT NULL, or SET DEFAULT ...",
        )
    return Table(name, shown, tuple(column.name for column in columns))


def check_key(connection: Any, oid: int, table: Table, key: Sequence[str], spec: SinkSpec) -> Table:
    """Check that the table has a unique index on the key."""
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


def _column(field: Field, existing: Sequence[ExistingColumn], name: str, shown: str) -> ExistingColumn:
    """Return the column of that name, else the only one of that name in another case."""
    exact = [column for column in existing if column.name == field.name]
    alike = exact or [column for column in existing if column.name.casefold() == field.name.casefold()]
    if len(alike) != 1:
        raise make(
            "INVALID_OPTION",
            message=f"table {shown} has no column {field.name}",
            detail=f"its columns: {', '.join(column.name for column in existing)}",
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
        raise _type_error(field, column, name, shown)
    return column


def _type_error(field: Field, column: ExistingColumn, name: str, shown: str) -> Error:
    target = quoted(column.name)
    return make(
        "INVALID_OPTION",
        message=f"column {column.name} of table {shown} is {column.type}, which does not hold every"
        f" {spark_name(field.type)} of {field.name}",
        hint=f"ALTER TABLE {name} ALTER COLUMN {target} TYPE {field.declared} USING {target}::{field.declared}",
    )
