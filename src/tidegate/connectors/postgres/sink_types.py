"""Which PostgreSQL types hold all values of a column."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.rows import ADDED
from tidegate.core.types import arrow_schema

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
