"""Connections to a PostgreSQL server, reading one query as of one moment, and names quoted as SQL has them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from tidegate.connectors.postgres.options import ReadOptions, Server
from tidegate.errors import Error, line_and_column, make

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
concurrently constraint create cross current_catalog current_date current_role current_schema current_time
current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from
full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime
localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning
right select session_user similar some symmetric system_user table tablesample then to trailing true union unique user
using variadic verbose when where window with
"""
_RESERVED = frozenset(_WORDS.split())


def quoted(*names: str) -> str:
    """`public.orders`, `"Big Corp"."order"`: in quotes where they are needed."""
    return ".".join(name if _PLAIN.fullmatch(name) and name not in _RESERVED else _in_quotes(name) for name in names)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


BATCH = 50_000
_CURSOR = "tidegate"
_DECLARED = f'DECLARE "{_CURSOR}" CURSOR FOR '
_REFUSED = re.compile(r"FATAL:\s+(.*)")
_NOT_NOW = re.compile(
    r"FATAL:\s+(the database system is |sorry, too many clients|remaining connection slots|number of requested standby)"
)
_FORMS = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "cursor_tuple_fraction": "1",
}
AS_TEXT = " ".join(f"-c {name}={value}" for name, value in _FORMS.items())
"""Settings of a connection whose values come as texts that are known here."""

PATIENT = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
"""Settings of a connection that reads a whole table, or waits while another one does."""


class Unreachable(OSError):
    """The server cannot be reached now. `said` is the reason in the words of the server or of libpq."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(f"{message}: {said}" if said else message)
        self.message, self.said = message, said


class Reading:
    """A query under way: names and types (oids) of its columns, and its rows, values as PostgreSQL writes them."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.names: list[str] = [column.name for column in cursor.description]
        self.oids: list[int] = [column.type_code for column in cursor.description]

    def batches(self) -> Iterator[list[tuple[str | None, ...]]]:
        while rows := self._cursor.fetchmany(BATCH):
            yield rows


@contextlib.contextmanager
def reading(options: ReadOptions, relation: str, wanted: tuple[str, ...]) -> Iterator[Reading]:
    """Runs the query. Of a table only the columns that are wanted are read, if it has them all."""
    driver = library()
    connection = _reached(options.server)
    try:
        with connection:
            connection.isolation_level = driver.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            query = options.query or _table_query(driver, connection, options.table, wanted)
            with connection.cursor(_CURSOR) as cursor:
                cursor.execute(query)
                yield Reading(cursor)
    except driver.Error as failure:
        raise _failed(failure, options, relation) from None


def library() -> Any:
    """psycopg, or an error that says how to get it."""
    try:
        import psycopg
    except ImportError:
        raise make(
            "CONNECTOR_JARS",
            name="POSTGRES",
            jars="the Python package psycopg",
            hint="pip install 'tidegate[postgres]'",
        ) from None
    return psycopg


def connected(server: Server, as_text: bool = False, settings: str = "", **more: Any) -> Any:
    """A connection. `as_text`: values come as PostgreSQL writes them, in forms that do not depend on the server, and
    with further `settings`."""
    driver = library()
    given = {"fallback_application_name": "tidegate", "client_encoding": "utf8", **dict(server.settings), **more}
    try:
        if as_text:
            asked = driver.conninfo.conninfo_to_dict(server.url).get("options", "")
            given["options"] = f"{asked} {AS_TEXT} {settings}".strip()
        connection = driver.connect(server.url, **given)
    except driver.ProgrammingError as failure:
        said = " ".join(_without_password(str(failure), server).split())
        raise make("INVALID_OPTION", message=f"option 'url' cannot be used: {said}", hint="correct the url") from None
    except driver.Error as failure:
        raise _unconnected(str(failure), server) from None
    if as_text:
        _as_text(connection.adapters)
    return connection


def broken(server: Server, failure: object) -> Unreachable:
    """A connection that was there and is not any more."""
    said = " ".join(_without_password(str(failure), server).split())
    return Unreachable(f"the connection to PostgreSQL at {server.place} broke", said)


def _reached(server: Server) -> Any:
    """A connection for one reading: a server that is away is an error."""
    try:
        return connected(server, as_text=True)
    except Unreachable as away:
        raise make(
            "PIPELINE_FAILED",
            message=away.message,
            detail=away.said,
            hint="check that it runs and that the address is right, then start again",
        ) from None


def _as_text(adapters: Any) -> None:
    """Values are taken as the text that PostgreSQL sends: what a value is depends on the column that it is for, and no
    value (`infinity`, a date BC) fails the rows around it."""
    from psycopg.types.string import TextLoader

    for known in list(adapters.types):
        for oid in (known.oid, known.array_oid):
            if oid:
                adapters.register_loader(oid, TextLoader)


def _table_query(driver: Any, connection: Any, table: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    name = driver.sql.Identifier(*table).as_string(connection)
    there = [column.name for column in connection.execute(f"SELECT * FROM {name} LIMIT 0").description]
    folded = {column.casefold() for column in wanted}
    if not folded <= {column.casefold() for column in there}:
        return f"SELECT * FROM {name}"
    chosen = [driver.sql.Identifier(column).as_string(connection) for column in there if column.casefold() in folded]
    return f"SELECT {', '.join(chosen)} FROM {name}"


def _unconnected(text: str, server: Server) -> Exception:
    said = _without_password(text, server)
    refused = _REFUSED.search(said)
    if refused is None or _NOT_NOW.search(said):
        return Unreachable(f"no PostgreSQL server answers at {server.place}", " ".join(said.split()))
    if "WAL sender" in refused[1] or "walsender" in refused[1]:
        return make(
            "PIPELINE_FAILED",
            message=f"PostgreSQL at {server.place} does not let {server.user} follow changes: {refused[1]}",
            hint=f"as a superuser: ALTER ROLE {quoted(server.user)} REPLICATION; then start again",
        )
    return make(
        "PIPELINE_FAILED",
        message=f"PostgreSQL at {server.place} rejected the connection: {refused[1]}",
        hint="check the user, the password and the name of the database, then start again",
    )


def _failed(failure: Any, options: ReadOptions, relation: str) -> Error:
    """A connection that breaks has no diagnosis; anything else is what the server says of the query."""
    said = failure.diag.message_primary
    if said is None or failure.diag.severity_nonlocalized in ("FATAL", "PANIC"):
        return make(
            "PIPELINE_FAILED",
            message=f"the connection to PostgreSQL at {options.server.place} broke while {relation} was read",
            detail=" ".join(_without_password(str(failure), options.server).split()),
            hint="check that the server runs, then start again",
        )
    origin = "its query" if options.query is not None else f"table {'.'.join(options.table)}"
    fix = f"correct it: CREATE OR REPLACE TABLE {relation} ..., or change the database, then start again"
    return make(
        "PIPELINE_FAILED",
        message=f"{relation} cannot be read from {origin} at {options.server.place}: {said}",
        detail=_place(options.query, failure.diag.statement_position) or failure.diag.message_detail,
        hint=failure.diag.message_hint or fix,
    )


def _place(query: str | None, position: str | None) -> str | None:
    """The line of the query with a caret. PostgreSQL counts from 1, and from the beginning of DECLARE."""
    if query is None or position is None or int(position) <= len(_DECLARED):
        return None
    line, column = line_and_column(query, int(position) - len(_DECLARED) - 1)
    label = f"line {line}:  "
    return f"{label}{query.splitlines()[line - 1]}\n{' ' * (len(label) + column - 1)}^"


def _without_password(text: str, server: Server) -> str:
    return re.sub(rf"(?<!\w){re.escape(server.password)}(?!\w)", "***", text) if server.password else text
