"""The tables that are followed, as the server has them when a capture begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.base import SourceSpec
from tidegate.connectors.postgres.naming import quoted
from tidegate.connectors.postgres.options import Following, Server
from tidegate.errors import Error, make

_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relreplident::text, ARRAY(
    SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = c.oid
      AND (c.relreplident = 'i' AND i.indisreplident OR c.relreplident = 'd' AND i.indisprimary))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_ALL = """
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' AND n.nspname !~ '^pg_'
  AND n.nspname <> 'information_schema' ORDER BY n.nspname, c.relname
"""


@dataclass(frozen=True)
class OriginTable:
    """A table of the server. `identity`: f (the whole row) or the `columns` by which an old row is told."""

    oid: int
    schema: str
    name: str
    kind: str
    identity: str
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        return quoted(self.schema, self.name)

    @property
    def told(self) -> bool:
        """Whether updates and deletes say which row they are about."""
        return self.identity == "f" or bool(self.columns)


def find_table(connection: Any, name: tuple[str, ...], server: Server, option: str) -> OriginTable:
    """The table of a name as the user has written it."""
    spelled = ".".join('"' + part.replace('"', '""') + '"' for part in name)
    found = connection.execute(f"{_TABLES} WHERE c.oid = to_regclass(%s)", (spelled,)).fetchone()
    shown = ".".join(name)
    if found is None:
        raise make(
            "PIPELINE_FAILED",
            message=f"there is no table {shown} at {server.place}",
            hint=f"create it, or correct {option} = '{shown}'; names are written as the database spells them",
        )
    table = _made(found)
    if table.kind not in "rp":
        raise make(
            "PIPELINE_FAILED",
            message=f"{shown} at {server.place} is not a table, so it has no changes to follow",
            hint="follow the tables that it reads",
        )
    return table


def all_tables(connection: Any) -> list[OriginTable]:
    return [_made(row) for row in connection.execute(f"{_TABLES} {_ALL}").fetchall()]


def _made(row: Sequence[Any]) -> OriginTable:
    oid, schema, name, kind, identity, columns = row
    return OriginTable(oid, schema, name, kind, identity, tuple(columns))


def wanted_tables(connection: Any, following: Following, server: Server) -> list[OriginTable]:
    if not following.tables:
        return all_tables(connection)
    option = "table" if len(following.tables) == 1 else "tables"
    return [find_table(connection, name, server, option) for name in following.tables]


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


def check_key(spec: SourceSpec, table: OriginTable) -> None:
    """The key of a relation must be part of what the server says of rows that are updated or deleted."""
    there = {name.casefold() for name in table.columns}
    unknown = [name for name in spec.key if name.casefold() not in there]
    if table.identity != "f" and unknown:
        raise _no_key(spec, table)


def _no_key(spec: SourceSpec, table: OriginTable) -> Error:
    told = f"by ({', '.join(table.columns)})" if table.columns else "not at all"
    other = f"PRIMARY KEY ({', '.join(table.columns)}) in {spec.relation}, or " if table.columns else ""
    return make(
        "PIPELINE_FAILED",
        message=f"{spec.relation} has the key ({', '.join(spec.key)}), but table {table.sql} tells its old rows {told}",
        hint=f"{other}ALTER TABLE {table.sql} REPLICA IDENTITY FULL; then start again",
    )
