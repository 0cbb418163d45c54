"""The tables that a capture follows, as the server defines them now, and what must hold for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.client import quoted
from tidegate.connectors.postgres.options import Following, Server
from tidegate.core.schema import names
from tidegate.errors import Error, make

_IDENTITY = """ARRAY(
    SELECT a.attname::text FROM pg_index i JOIN pg_attribute a
      ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    WHERE i.indrelid = {0}.oid AND i.indimmediate AND i.indisvalid
      AND ({0}.relreplident = 'i' AND i.indisreplident OR {0}.relreplident = 'd' AND i.indisprimary))"""
_TABLES = f"""
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relreplident::text, {_IDENTITY.format("c")},
    c.relkind = 'r' AND c.relhassubclass,
    (SELECT jsonb_object_agg(a.attname, jsonb_build_array(a.attnum, a.xmin::text)) FROM pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    ARRAY(SELECT a.attname::text FROM pg_attribute a
          WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped),
    (SELECT jsonb_agg(jsonb_build_array(m.nspname, l.relname, l.oid::bigint, l.relfilenode::bigint,
         l.relreplident, {_IDENTITY.format("l")}) ORDER BY l.oid)
     FROM pg_class l JOIN pg_namespace m ON m.oid = l.relnamespace
     WHERE l.oid = c.oid AND c.relkind <> 'p'
        OR l.oid IN (SELECT p.relid FROM pg_partition_tree(c.oid) p WHERE p.isleaf AND c.relkind = 'p')
           AND l.relkind <> 'p')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_ALL = """
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' AND n.nspname !~ '^pg_'
  AND n.nspname <> 'information_schema' ORDER BY n.nspname, c.relname
"""


class Part(NamedTuple):
    """A partition, or a table without partitions. `file` changes when it is truncated or rewritten."""

    schema: str
    name: str
    oid: int
    file: int
    identity: str
    columns: Sequence[str]

    @property
    def sql(self) -> str:
        return quoted(self.schema, self.name)


class Form(NamedTuple):
    """Digests of what rows depend on: columns, partitions and replica identity (`whole`), when columns were `altered`,
    and the `files` of the rows."""

    whole: str
    altered: str
    files: str

    def rewritten(self, before: Form) -> bool:
        """True if rows can have changed without a change that was sent: by an ALTER TABLE that rewrites them or adds a
        column again, by partitions that were attached or detached, by another replica identity. Rows that are only in
        other files were truncated, which is sent, or vacuumed."""
        return self.whole != before.whole or (self.altered != before.altered and self.files != before.files)


@dataclass(frozen=True)
class OriginTable:
    """A table of the server. `identity` is its replica identity: f (the whole row), or `columns` identify an old row.
    `inherited`: other tables inherit from it. `marks` of a column are its number, which is never used again, and the
    transaction that altered it last. `generated` columns are not sent."""

    oid: int
    schema: str
    name: str
    kind: str
    identity: str
    columns: tuple[str, ...]
    inherited: bool
    marks: Mapping[str, tuple[int, str]]
    generated: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def sql(self) -> str:
        return quoted(self.schema, self.name)

    @property
    def alone(self) -> str:
        """The table without those that inherit from it; partitions are part of it."""
        return f"ONLY {self.sql}" if self.inherited else self.sql

    @property
    def identifies_rows(self) -> bool:
        """True if updates and deletes identify their row."""
        return self.identity == "f" or bool(self.columns)

    def form(self, columns: Sequence[str]) -> Form:
        """The form of the table, as far as some of its columns depend on it."""
        selected = {name.casefold() for name in columns}
        marks = sorted(tuple(mark) for name, mark in self.marks.items() if name.casefold() in selected)
        files = [(part.oid, part.file) for part in self.parts]
        whole = [[number for number, _ in marks], self.identity, sorted(self.columns), self.kind == "p" and files]
        return Form(_digest(whole), _digest([mark for _, mark in marks]), _digest(files))


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()[:8]


def find_table(connection: Any, name: tuple[str, ...], server: Server, option: str) -> OriginTable:
    """Return the table of a name as the user has written it."""
    quoted_name = ".".join('"' + part.replace('"', '""') + '"' for part in name)
    row = connection.execute(f"{_TABLES} WHERE c.oid = to_regclass(%s)", (quoted_name,)).fetchone()
    shown = ".".join(name)
    if row is None:
        raise make(
            "PIPELINE_FAILED",
            message=f"there is no table {shown} at {server.place}",
            hint=f"create it, or correct {option} = '{shown}'; names are written as the database spells them",
        )
    table = _table(row)
    if table.kind not in "rp":
        raise make(
            "PIPELINE_FAILED",
            message=f"{shown} at {server.place} is not a table, so it has no changes to follow",
            hint="follow the tables that it reads",
        )
    return table


def all_tables(connection: Any) -> list[OriginTable]:
    return [_table(row) for row in connection.execute(f"{_TABLES} {_ALL}").fetchall()]


def same_tables(connection: Any, tables: Sequence[OriginTable]) -> dict[int, OriginTable]:
    """Return the tables as they are now, also if they were renamed, without those that were dropped."""
    oids = [table.oid for table in tables]
    rows = connection.execute(f"{_TABLES} WHERE c.oid = ANY (%s::oid[])", (oids,)).fetchall()
    return {table.oid: table for table in map(_table, rows)}


def _table(row: Sequence[Any]) -> OriginTable:
    oid, schema, name, kind, identity, columns, inherited, marks, generated, parts = row
    partitions = tuple(Part(*part) for part in parts or ())
    described = inherited, marks or {}, tuple(generated), partitions
    return OriginTable(oid, schema, name, kind, identity, tuple(columns), *described)


def selected_tables(connection: Any, following: Following, server: Server) -> list[OriginTable]:
    if not following.tables:
        return all_tables(connection)
    option = "table" if len(following.tables) == 1 else "tables"
    return [find_table(connection, name, server, option) for name in following.tables]


def check_published(tables: Sequence[OriginTable]) -> None:
    """Check the tables of a publication that Tidegate creates, which must not disturb others: PostgreSQL rejects UPDATE
    and DELETE of a published table without a replica identity."""
    for table in tables:
        if not table.identifies_rows:
            raise make(
                "PIPELINE_FAILED",
                message=f"table {table.sql} has no replica identity: PostgreSQL would refuse every UPDATE and DELETE of"
                " it once it is published",
                hint=f"ALTER TABLE {table.sql} REPLICA IDENTITY FULL; or give it a primary key. If rows only ever"
                f" come: CREATE PUBLICATION inserts FOR TABLE {table.sql} WITH (publish = 'insert'); and write"
                " publication = 'inserts'",
            )


def check_parts(table: OriginTable) -> None:
    """Check the replica identity of partitions: their changes are sent as changes of the table, but with the old values
    of their own replica identity, and NULL for the rest."""
    for part in table.parts:
        if part.identity != "f" and (table.identity == "f" or not set(table.columns) <= set(part.columns)):
            raise _blind_part(table, part)


def _blind_part(table: OriginTable, part: Part) -> Error:
    return make(
        "PIPELINE_FAILED",
        message=f"table {table.sql} tells its old rows {_identified(table.identity, table.columns)}, but its partition"
        f" {part.sql} {_identified(part.identity, part.columns)}: PostgreSQL would send NULL for what is missing",
        detail="a partition does not get the replica identity of its table by itself",
        hint=f"ALTER TABLE {part.sql} REPLICA IDENTITY FULL; then start again",
    )


def _identified(identity: str, columns: Sequence[str]) -> str:
    if identity == "f":
        return "by all columns"
    return f"by ({', '.join(columns)})" if columns else "not at all"


def check_key(spec: SourceSpec, table: OriginTable) -> None:
    """Check that the key of a relation is part of the old values that the server sends."""
    identifying = {name.casefold() for name in table.columns}
    unknown = [name for name in spec.key if name.casefold() not in identifying]
    if table.identity != "f" and unknown:
        raise _no_key(spec, table)


def _no_key(spec: SourceSpec, table: OriginTable) -> Error:
    other = f"PRIMARY KEY ({', '.join(table.columns)}) in {spec.relation}, or " if table.columns else ""
    return make(
        "PIPELINE_FAILED",
        message=f"{spec.relation} has the key ({', '.join(spec.key)}), but table {table.sql} tells its old rows"
        f" {_identified(table.identity, table.columns)}",
        hint=f"{other}ALTER TABLE {table.sql} REPLICA IDENTITY FULL; then start again",
    )


def check_sent(spec: SourceSpec, table: OriginTable) -> None:
    """Reject generated columns, which PostgreSQL does not send."""
    computed = {name.casefold(): name for name in table.generated}
    for name in names(spec.columns):
        if name.casefold() in computed:
            raise make(
                "PIPELINE_FAILED",
                message=f"column {computed[name.casefold()]} of table {table.sql} is generated, and PostgreSQL does not"
                " send such values",
                hint=f"leave {name} out of the columns of {spec.relation}, and compute it in a view",
            )
