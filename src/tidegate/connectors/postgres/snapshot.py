"""The content of tables as of one moment of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.connectors.postgres.client import PATIENT, Away, broken, connected, library
from tidegate.connectors.postgres.keyed_rows import Key
from tidegate.connectors.postgres.lsn import parse_lsn, reached_by_stream
from tidegate.connectors.postgres.naming import quoted
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.origin import OriginTable
from tidegate.connectors.postgres.pgoutput import Table, TableColumn
from tidegate.errors import Error, make

PIECE = 20_000
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WHOLE = "-c row_security=off"
"""Rows that a policy hides are an error, not left out: their changes would come all the same."""


class Moment:
    """A transaction that only reads, and sees the database as of its beginning, or as of an exported snapshot."""

    def __init__(self, server: Server, exported: str | None = None) -> None:
        self._server = server
        self._connection = connected(server, as_text=True, settings=f"{PATIENT} {_WHOLE}", autocommit=True)
        self._connection.execute(_BEGIN)
        if exported is not None:
            try:
                self._connection.execute(f"SET TRANSACTION SNAPSHOT '{exported}'")
            except library().Error as failure:
                self.close()
                raise Away(f"the snapshot at {server.place} is gone", str(failure)) from None

    def close(self) -> None:
        self._connection.close()

    def place(self) -> int:
        """A place that a stream has reached once it has sent all that was committed before this moment."""
        self._connection.execute("SELECT 1 FROM pg_class LIMIT 1")
        return reached_by_stream(parse_lsn(self._asked("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]))

    def content(
        self, table: OriginTable, columns: Sequence[str] | None, where: str | None
    ) -> Iterator[tuple[Table, list[tuple[str | None, ...]]]]:
        """All rows of a table, in pieces, each with what the table is like; at least one piece."""
        chosen = "*" if columns is None else ", ".join(map(quoted, columns))
        query = f"SELECT {chosen} FROM {table.alone}" + (f" WHERE {where}" if where else "")
        self._asked(f"DECLARE piece NO SCROLL CURSOR FOR {query}", table)
        while True:
            found = self._asked(f"FETCH {PIECE} FROM piece", table)
            shape = tuple(TableColumn(column.name, column.type_code, True) for column in found.description)
            rows = found.fetchall()
            yield Table(table.oid, table.schema, table.name, table.identity, shape), rows
            if len(rows) < PIECE:
                self._asked("CLOSE piece")
                return

    def rows(self, table: Table, columns: Sequence[str], key: Sequence[str], keys: Sequence[Key]) -> list[Any]:
        """The rows of a table that have one of some keys."""
        types = dict(
            self._asked(
                "SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s",
                None,
                table.oid,
            ).fetchall()
        )
        listed = ", ".join(f"%s::text[]::{types[name]}[]" for name in key)
        names = [f"k{number}" for number in range(len(key))]
        same = " AND ".join(f"t.{quoted(name)} = k.{other}" for name, other in zip(key, names, strict=True))
        chosen = ", ".join(f"t.{quoted(name)}" for name in columns)
        query = f"SELECT {chosen} FROM {quoted(table.schema, table.name)} t JOIN unnest({listed}) k({', '.join(names)})"
        given = [list(part) for part in zip(*keys, strict=True)]
        found: list[Any] = self._asked(f"{query} ON {same}", None, *given).fetchall()
        return found

    def _asked(self, query: str, table: OriginTable | None = None, *given: Any) -> Any:
        driver = library()
        try:
            return self._connection.execute(query, given or None)
        except driver.errors.InsufficientPrivilege as refused:
            raise self._unread(refused.diag.message_primary, table.sql if table is not None else "...") from None
        except driver.OperationalError as failure:
            raise broken(self._server, failure) from None

    def _unread(self, said: str, name: str) -> Error:
        user = quoted(self._server.user)
        mended = f"as its owner: GRANT SELECT ON {name} TO {user}"
        if "row-level security" in said:
            mended = f"as a superuser: ALTER ROLE {user} BYPASSRLS"
        return make(
            "PIPELINE_FAILED",
            message=f"{self._server.user} may not read {name} at {self._server.place}: {said}",
            hint=f"{mended}; then start again",
        )
