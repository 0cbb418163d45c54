"""Spark's type names as Polars types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import polars as pl

_PLAIN: dict[str, pl.DataType] = {
    "void": pl.Null(),
    "boolean": pl.Boolean(),
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
}
_PATTERNS: tuple[tuple[str, pl.DataType], ...] = (
    (r"(char|varchar)\(\d+\)|string collate \w+", pl.String()),
    (r"interval (day|hour|minute|second)( to (hour|minute|second))?", pl.Duration("us")),
    (r"time\(\d\)", pl.Time()),
)


@cache
def polars_type(spark_type: str) -> pl.DataType:
    """The Polars type of a Spark type, given by its simple name; a map is a list of its entries.

    >>> polars_type("array<decimal(10,2)>")
    List(Decimal(precision=10, scale=2))
    """
    name = spark_type.strip()
    if name.lower() in _PLAIN:
        return _PLAIN[name.lower()]
    if decimal := decimal_parts(name):
        return pl.Decimal(*decimal)
    for pattern, dtype in _PATTERNS:
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return dtype
    return _nested(name)


def decimal_parts(spark_type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other type."""
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", spark_type.strip(), re.IGNORECASE)
    return (int(found[1]), int(found[2])) if found else None


def _nested(name: str) -> pl.DataType:
    kind, _, rest = name.partition("<")
    parts = list(_split(rest.removesuffix(">")))
    match kind.lower():
        case "array":
            return pl.List(polars_type(parts[0]))
        case "map":
            key, value = (polars_type(part) for part in parts)
            return pl.List(pl.Struct({"key": key, "value": value}))
        case "struct":
            fields = (part.split(":", 1) for part in parts)
            return pl.Struct({field.strip().strip("`"): polars_type(type) for field, type in fields})
    raise ValueError(f"Columns of type {name} cannot be kept in state.")


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are not inside brackets."""
    depth, start = 0, 0
    for place, sign in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text[start:]:
        yield text[start:]
