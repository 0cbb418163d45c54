"""Metadata columns of records: `_key`, `_partition`, `_offset`, `_timestamp`, `_headers`, `_topic`."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.options import Bag
from tidegate.core.quoting import identifier
from tidegate.core.schema import Column, Schema
from tidegate.errors import did_you_mean, make

_HEADERS = "map_from_entries(transform(array_distinct(transform(`__headers`, h -> h.key)), k -> struct(k, {last})))"
_LAST = "element_at(filter(`__headers`, h -> h.key = k), -1).value"
FIELDS = {
    "key": ("`__record_key`", ("binary", "string")),
    "partition": ("`__partition`", ("int", "bigint")),
    "offset": ("`__offset`", ("bigint",)),
    "timestamp": ("`__timestamp`", ("timestamp", "timestamp_ntz")),
    "headers": ("", ("map<string,string>", "map<string,binary>")),
    "topic": ("`__topic`", ("string",)),
}
_PREFIX = "metadata."


def metadata(columns: Schema, bag: Bag) -> dict[str, str]:
    """Return the metadata columns of a relation with their fields: columns with the names above, and those declared as
    `c T METADATA FROM 'field'`, which is passed as an option `metadata.c`."""
    declared = {name.casefold(): field for name, field in bag.take_prefixed(_PREFIX).items()}
    fields = {}
    for column in columns:
        field = declared.get(column.name.casefold())
        if field is None and column.name.startswith("_") and column.name[1:].casefold() in FIELDS:
            field = column.name[1:]
        if field is not None:
            fields[column.name] = _checked(column, field.casefold(), bag)
    return fields


def _checked(column: Column, field: str, bag: Bag) -> str:
    if field not in FIELDS:
        message = f"a record has no metadata '{field}'"
        raise make("INVALID_OPTION", message=message, hint=did_you_mean(field, FIELDS, "metadata"), span=bag.span)
    allowed = FIELDS[field][1]
    if column.type not in allowed:
        raise make(
            "TYPE_MISMATCH",
            message=f"{column.name} is {column.type.upper()}, but the {field} of a record is {allowed[0].upper()}",
            hint=f"declare {column.name} {allowed[0].upper()}",
            span=bag.span,
        )
    return field


def expressions(columns: Schema, fields: Mapping[str, str]) -> list[str]:
    """Return the metadata columns as Spark SQL over the columns that the source carries."""
    return [
        f"CAST({_expression(fields[column.name], column.type)} AS {column.type}) AS {identifier(column.name)}"
        for column in columns
        if column.name in fields
    ]


def _expression(field: str, type: str) -> str:
    if field != "headers":
        return FIELDS[field][0]
    last = f"CAST({_LAST} AS STRING)" if type.endswith("string>") else _LAST
    return _HEADERS.format(last=last)
