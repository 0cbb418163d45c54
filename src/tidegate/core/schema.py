"""Columns and their types. A type is Spark's own name for it, as its analyser prints it (`bigint`, `decimal(10,2)`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One named, typed column of a relation."""

    name: str
    type: str
    nullable: bool = True


Schema = tuple[Column, ...]


def names(schema: Schema) -> tuple[str, ...]:
    """The column names in order."""
    return tuple(column.name for column in schema)
