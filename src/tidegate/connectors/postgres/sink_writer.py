"""How a sink writes rows: COPY into the table or a staging table, and errors of the server."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.postgres.client import Unreachable, broken, connected, library
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.sink_table import Field, Table, quoted
from tidegate.connectors.rows import appended, outcome
from tidegate.core.render import json_cells
from tidegate.errors import Error, make

LOST_SECONDS = 30
_PASSING = ("08", "25006", "40", "53", "55P03", "57")
"""SQLSTATE prefixes of failures that can pass: a server that is unreachable, stopping, full or read-only; deadlocks."""


def connect_for_writing(server: Server) -> Any:
    """Connect with autocommit, and without prepared statements: a plan made for a large step would be reused for small
    ones."""
    more: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
    if "tcp_user_timeout" not in server.url:
        more["tcp_user_timeout"] = str(LOST_SECONDS * 1000)
    return connected(server, **more)


@contextlib.contextmanager
def translated_errors(server: Server, subject: str, rights: str) -> Iterator[None]:
    """Translate errors of the server. `rights` is the statement that grants the user the rights that may be missing."""
    driver = library()
    try:
        yield
    except driver.Error as failure:
        raise _failed(failure, server, subject, rights) from None


def _failed(failure: Any, server: Server, subject: str, rights: str) -> Exception:
    """Translate a failure; one without a code is a lost connection."""
    code, message = failure.sqlstate, failure.diag.message_primary
    if code is None or message is None:
        return broken(server, failure)
    if code.startswith(_PASSING):
        return Unreachable(f"PostgreSQL at {server.place} takes nothing now", message)
    return _rejection(failure, server, subject, rights)


def _rejection(failure: Any, server: Server, subject: str, rights: str) -> Error:
    diagnosis = failure.diag
    where = (diagnosis.context or "").splitlines()[:1]
    hints = {"42501": rights, "3F000": "create the schema first, or choose another table"}
    return make(
        "PIPELINE_FAILED",
        message=f"{subject} cannot be written to PostgreSQL at {server.place}: {diagnosis.message_primary}",
        detail=diagnosis.message_detail or "".join(where) or None,
        hint=hints.get(failure.sqlstate, "change the view or the table: the sink goes on by itself"),
    )


BATCH = 20_000
NULL = "\\N"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def copy_lines(rows: pa.Table, fields: Sequence[Field]) -> Iterator[bytes]:
    """Yield rows as lines of COPY, in pieces."""
    for start in range(0, rows.num_rows, BATCH):
        piece = rows.slice(start, BATCH).combine_chunks()
        cells = [_cells(column, field) for column, field in zip(piece.columns, fields, strict=True)]
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*cells, "\t"), "", "\n")
        yield "".join(lines.to_pylist()).encode()


def _cells(column: pa.ChunkedArray[Any], field: Field) -> Any:
    texts = render_column(column, field.declared)
    if not _plain(column.type):
        for sign, escaped in _ESCAPES:
            texts = pc.replace_substring(texts, sign, escaped)
    return pc.fill_null(texts, NULL)


def _plain(type_: pa.DataType) -> bool:
    """True if values never contain a character that COPY interprets."""
    types = pa.types
    return not (types.is_string(type_) or types.is_binary(type_) or types.is_nested(type_))


def render_column(column: Any, declared: str) -> Any:
    """Render values as PostgreSQL reads them; NULL stays NULL."""
    types, type_ = pa.types, column.type
    if declared == "jsonb":
        return _where_valid(column, _json(column))
    if types.is_timestamp(type_):
        clock = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.binary_join_element_wise(clock, "+00" if type_.tz else "", "")
    if types.is_binary(type_):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    if types.is_duration(type_):
        return pa.array([None if value is None else _interval(value) for value in column.to_pylist()], pa.string())
    if isinstance(type_, pa.ListType):
        return pa.array(_arrays(column, declared.removesuffix("[]")), pa.string())
    return column.cast(pa.string())


def _where_valid(column: Any, texts: list[str]) -> Any:
    return pc.if_else(column.is_valid(), pa.array(texts, pa.string()), pa.scalar(None, pa.string()))


def _json(column: Any) -> list[str]:
    """Render values as JSON; a string that is JSON stays as it is."""
    if pa.types.is_string(column.type):
        return [_json_text(text) for text in column.to_pylist()]
    return json_cells(column)


def _json_text(text: str | None) -> str:
    try:
        json.loads(text or "")
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text or ""


def _interval(value: dt.timedelta) -> str:
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


def _arrays(column: Any, element: str) -> Iterator[str | None]:
    """Yield arrays as `{1,NULL,"a b"}`; the elements of all of them are rendered as one column."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = iter(render_column(array.flatten(), element).to_pylist())
    for length in pc.list_value_length(array).to_pylist():
        yield None if length is None else "{" + ",".join(_quoted(next(texts)) for _ in range(length)) + "}"


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


STAGED = "pg_temp.tidegate_staged"
_GONE = '"tidegate gone"'


class Appending:
    """Appends rows, or changes with op, weight and step."""

    def __init__(self, table: Table, fields: Sequence[Field], spec: SinkSpec, changelog: bool) -> None:
        self._fields, self._spec, self._changelog = fields, spec, changelog
        self._into = f"COPY {table.name} ({', '.join(map(quoted, table.names))}) FROM STDIN"

    def write(self, connection: Any, changes: pa.Table) -> None:
        rows = changes if self._changelog else appended(changes, self._spec)
        _copy(connection, self._into, rows, self._fields)


class Replacing:
    """Keeps one row per key: deletes and upserts the changed rows of a step, with one statement each."""

    def __init__(self, table: Table, fields: Sequence[Field], spec: SinkSpec) -> None:
        self._table, self._fields, self._spec = table, fields, spec
        by_field = dict(zip((field.name for field in fields), table.names, strict=True))
        self._names = [quoted(name) for name in table.names]
        self._key = [quoted(by_field[name]) for name in spec.key]

    def prepare(self, connection: Any) -> None:
        """Create a staging table of this session, which is empty at the beginning of each transaction."""
        columns = ", ".join(self._names)
        connection.execute(f"DROP TABLE IF EXISTS {STAGED}")
        connection.execute(
            f"CREATE TEMP TABLE tidegate_staged ON COMMIT DELETE ROWS AS"
            f" SELECT {columns}, false AS {_GONE} FROM {self._table.name} WITH NO DATA"
        )

    def write(self, connection: Any, changes: pa.Table) -> None:
        upserted, deleted = outcome(changes, self._spec.columns, self._spec.key)
        nulls = self._null_keys(upserted) or self._null_keys(deleted)
        flags = [pa.repeat(pa.scalar(flag), rows.num_rows) for flag, rows in ((False, upserted), (True, deleted))]
        both = pa.concat_tables([upserted, deleted]).append_column(_GONE, pa.chunked_array(flags, pa.bool_()))
        into = f"COPY {STAGED} ({', '.join([*self._names, _GONE])}) FROM STDIN"
        _copy(connection, into, both, [*self._fields, Field(_GONE, pa.bool_(), "boolean")])
        if deleted.num_rows:
            self._delete(connection, nulls)
        if upserted.num_rows:
            connection.execute(self._insertion())

    def _null_keys(self, rows: pa.Table) -> bool:
        with_nulls = [name for name in self._spec.key if rows.column(name).null_count]
        if with_nulls and rows.num_rows and not self._table.nulls:
            raise make(
                "PIPELINE_FAILED",
                message=f"a row has NULL in its key {with_nulls[0]}, which no unique index of table"
                f" {self._table.shown} takes for a value",
                hint=f"CREATE UNIQUE INDEX ON {self._table.name} ({', '.join(self._key)}) NULLS NOT DISTINCT (from"
                " PostgreSQL 15 on; a primary key has to go first), or leave such rows out of the view",
            )
        return bool(with_nulls)

    def _delete(self, connection: Any, nulls: bool) -> None:
        """Delete rows by the index, with equality, and those with NULL in their key separately."""
        delete = f"DELETE FROM {self._table.name} AS t USING {STAGED} AS s WHERE s.{_GONE} AND "
        connection.execute(delete + " AND ".join(f"t.{name} = s.{name}" for name in self._key))
        if nulls:
            any_null = " OR ".join(f"s.{name} IS NULL" for name in self._key)
            same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM s.{name}" for name in self._key)
            connection.execute(f"{delete}({any_null}) AND {same}")

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
        for piece in copy_lines(rows, fields):
            copy.write(piece)
