"""What a table must tell so that it can be followed without inventing anything."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.origin import OriginTable, Part
from tidegate.core.schema import names
from tidegate.errors import Error, make


def check_published(tables: Sequence[OriginTable]) -> None:
    """A publication of ours must not stop what others do: PostgreSQL refuses UPDATE and DELETE of a published table
    without a replica identity."""
    for table in tables:
        if not table.told:
            raise make(
                "PIPELINE_FAILED",
                message=f"table {table.sql} has no replica identity: PostgreSQL would refuse every UPDATE and DELETE of"
                " it once it is published",
                hint=f"ALTER TABLE {table.sql} REPLICA IDENTITY FULL; or give it a primary key. If rows only ever"
                f" come: CREATE PUBLICATION inserts FOR TABLE {table.sql} WITH (publish = 'insert'); and write"
                " publication = 'inserts'",
            )


def check_parts(table: OriginTable) -> None:
    """Changes of partitions come in the name of their table, but with the old values that their own replica identity
    gives; the rest comes as NULL."""
    for part in table.parts:
        if part.identity != "f" and (table.identity == "f" or not set(table.columns) <= set(part.columns)):
            raise _blind_part(table, part)


def _blind_part(table: OriginTable, part: Part) -> Error:
    return make(
        "PIPELINE_FAILED",
        message=f"table {table.sql} tells its old rows {_told(table.identity, table.columns)}, but its partition"
        f" {part.sql} {_told(part.identity, part.columns)}: PostgreSQL would send NULL for what is missing",
        detail="a partition does not get the replica identity of its table by itself",
        hint=f"ALTER TABLE {part.sql} REPLICA IDENTITY FULL; then start again",
    )


def _told(identity: str, columns: Sequence[str]) -> str:
    if identity == "f":
        return "by all columns"
    return f"by ({', '.join(columns)})" if columns else "not at all"


def check_key(spec: SourceSpec, table: OriginTable) -> None:
    """The key of a relation must be part of what the server says of rows that are updated or deleted."""
    there = {name.casefold() for name in table.columns}
    unknown = [name for name in spec.key if name.casefold() not in there]
    if table.identity != "f" and unknown:
        raise _no_key(spec, table)


def _no_key(spec: SourceSpec, table: OriginTable) -> Error:
    other = f"PRIMARY KEY ({', '.join(table.columns)}) in {spec.relation}, or " if table.columns else ""
    return make(
        "PIPELINE_FAILED",
        message=f"{spec.relation} has the key ({', '.join(spec.key)}), but table {table.sql} tells its old rows"
        f" {_told(table.identity, table.columns)}",
        hint=f"{other}ALTER TABLE {table.sql} REPLICA IDENTITY FULL; then start again",
    )


def check_sent(spec: SourceSpec, table: OriginTable) -> None:
    """Columns that PostgreSQL computes are not sent with changes."""
    computed = {name.casefold(): name for name in table.generated}
    for name in names(spec.columns):
        if name.casefold() in computed:
            raise make(
                "PIPELINE_FAILED",
                message=f"column {computed[name.casefold()]} of table {table.sql} is generated, and PostgreSQL does not"
                " send such values",
                hint=f"leave {name} out of the columns of {spec.relation}, and compute it in a view",
            )
