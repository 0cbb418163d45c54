"""How a step gets into a table: with COPY, at the end of it or through a table of the session by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.postgres.sink_copy import copied
from tidegate.connectors.postgres.sink_table import Table, quoted
from tidegate.connectors.postgres.sink_types import Field
from tidegate.connectors.rows import appended, outcome
from tidegate.errors import make

STAGED = "pg_temp.tidegate_staged"
_GONE = '"tidegate gone"'


class Appending:
    """Rows, or changes with op, weight and step, go to the end of the table."""

    def __init__(self, table: Table, fields: Sequence[Field], spec: SinkSpec, changelog: bool) -> None:
        self._fields, self._spec, self._changelog = fields, spec, changelog
        self._into = f"COPY {table.name} ({', '.join(map(quoted, table.names))}) FROM STDIN"

    def write(self, connection: Any, changes: pa.Table) -> None:
        rows = changes if self._changelog else appended(changes, self._spec)
        _copy(connection, self._into, rows, self._fields)


class Replacing:
    """Each key has one row. Those that are gone are deleted, those that are new or changed are written, with one
    statement each."""

    def __init__(self, table: Table, fields: Sequence[Field], spec: SinkSpec) -> None:
        self._table, self._fields, self._spec = table, fields, spec
        named = dict(zip((field.name for field in fields), table.names, strict=True))
        self._names = [quoted(name) for name in table.names]
        self._key = [quoted(named[name]) for name in spec.key]

    def prepare(self, connection: Any) -> None:
        """A table of this session with the same columns, empty at the beginning of each transaction."""
        columns = ", ".join(self._names)
        connection.execute(f"DROP TABLE IF EXISTS {STAGED}")
        connection.execute(
            f"CREATE TEMP TABLE tidegate_staged ON COMMIT DELETE ROWS AS"
            f" SELECT {columns}, false AS {_GONE} FROM {self._table.name} WITH NO DATA"
        )

    def write(self, connection: Any, changes: pa.Table) -> None:
        kept, gone = outcome(changes, self._spec.columns, self._spec.key)
        nulls = self._null_keys(kept) or self._null_keys(gone)
        flags = [pa.repeat(pa.scalar(flag), rows.num_rows) for flag, rows in ((False, kept), (True, gone))]
        both = pa.concat_tables([kept, gone]).append_column(_GONE, pa.chunked_array(flags, pa.bool_()))
        into = f"COPY {STAGED} ({', '.join([*self._names, _GONE])}) FROM STDIN"
        _copy(connection, into, both, [*self._fields, Field(_GONE, pa.bool_(), "boolean")])
        if gone.num_rows:
            self._delete(connection, nulls)
        if kept.num_rows:
            connection.execute(self._insertion())

    def _null_keys(self, rows: pa.Table) -> bool:
        lacking = [name for name in self._spec.key if rows.column(name).null_count]
        if lacking and rows.num_rows and not self._table.nulls:
            raise make(
                "PIPELINE_FAILED",
                message=f"a row has NULL in its key {lacking[0]}, which no unique index of table"
                f" {self._table.shown} takes for a value",
                hint=f"CREATE UNIQUE INDEX ON {self._table.name} ({', '.join(self._key)}) NULLS NOT DISTINCT (from"
                " PostgreSQL 15 on; a primary key has to go first), or leave such rows out of the view",
            )
        return bool(lacking)

    def _delete(self, connection: Any, nulls: bool) -> None:
        """Equality finds rows by the index; it never finds NULL."""
        delete = f"DELETE FROM {self._table.name} AS t USING {STAGED} AS s WHERE s.{_GONE} AND "
        connection.execute(delete + " AND ".join(f"t.{name} = s.{name}" for name in self._key))
        if nulls:
            lacking = " OR ".join(f"s.{name} IS NULL" for name in self._key)
            same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM s.{name}" for name in self._key)
            connection.execute(f"{delete}({lacking}) AND {same}")

    def _insertion(self) -> str:
        columns = ", ".join(self._names)
        others = [f"{name} = EXCLUDED.{name}" for name in self._names if name not in self._key]
        then = f"UPDATE SET {', '.join(others)}" if others else "NOTHING"
        return (
            f"INSERT INTO {self._table.name} ({columns}) SELECT {columns} FROM {STAGED} WHERE NOT {_GONE}"
            f" ON CONFLICT ({', '.join(self._key)}) DO {then}"
        )


def _copy(connection: Any, into: str, rows: pa.Table, fields: Sequence[Field]) -> None:
    with connection.cursor() as cursor, cursor.copy(into) as copy:
        for piece in copied(rows, fields):
            copy.write(piece)
