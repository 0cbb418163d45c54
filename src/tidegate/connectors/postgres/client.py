"""Connections to a PostgreSQL server, the result of a query in one snapshot, and quoting of names."""

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
    """`public.orders`, `"Big Corp"."order"`: quoted only where necessary."""
    return ".".join(name if _PLAIN.fullmatch(name) and name not in _RESERVED else _in_quotes(name) for name in names)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


BATCH = 50_000
_CURSOR = "tidegate"
_DECLARED = f'DECLARE "{_CURSOR}" CURSOR FOR '
_FATAL = re.compile(r"FATAL:\s+(.*)")
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
"""Settings of a connection that fix the text form of values."""

PATIENT = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
"""Settings of a connection that reads a whole table, or waits while another one does."""


class Unreachable(OSError):
    """The server cannot be reached now. `reason` is the text of the server or of libpq."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(f"{message}: {reason}" if reason else message)
        self.message, self.reason = message, reason


class Reading:
    """An open query: names and types (oids) of its columns, and its rows, with values as PostgreSQL writes them."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.names: list[str] = [column.name for column in cursor.description]
        self.oids: list[int] = [column.type_code for column in cursor.description]

    def batches(self) -> Iterator[list[tuple[str | None, ...]]]:
        while rows := self._cursor.fetchmany(BATCH):
            yield rows


@contextlib.contextmanager
def reading(options: ReadOptions, relation: str, columns: tuple[str, ...]) -> Iterator[Reading]:
    """Run the query. Of a table, only the columns in `columns` are read if it has all of them."""
    driver = library()
    connection = _connect_once(options.server)
    try:
        with connection:
            connection.isolation_level = driver.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            query = options.query or _table_query(driver, connection, options.table, columns)
            with connection.cursor(_CURSOR) as cursor:
                cursor.execute(query)
                yield Reading(cursor)
    except driver.Error as failure:
        raise _failed(failure, options, relation) from None


def library() -> Any:
    """Import psycopg; an error says how to install it."""
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
    """Connect. `as_text`: values are returned as text, in forms that do not depend on the server, and with further
    `settings`."""
    driver = library()
    arguments = {"fallback_application_name": "tidegate", "client_encoding": "utf8", **dict(server.settings), **more}
    try:
        if as_text:
            in_url = driver.conninfo.conninfo_to_dict(server.url).get("options", "")
            arguments["options"] = f"{in_url} {AS_TEXT} {settings}".strip()
        connection = driver.connect(server.url, **arguments)
    except driver.ProgrammingError as failure:
        reason = " ".join(_without_password(str(failure), server).split())
        raise make("INVALID_OPTION", message=f"option 'url' cannot be used: {reason}", hint="correct the url") from None
    except driver.Error as failure:
        raise _unconnected(str(failure), server) from None
    if as_text:
        _load_as_text(connection.adapters)
    return connection


def broken(server: Server, failure: object) -> Unreachable:
    """The error for a connection that was lost."""
    reason = " ".join(_without_password(str(failure), server).split()).rstrip(".")
    return Unreachable(f"the connection to PostgreSQL at {server.place} broke", reason)


def _connect_once(server: Server) -> Any:
    """Connect for one query: an unreachable server is an error, not retried."""
    try:
        return connected(server, as_text=True)
    except Unreachable as away:
        raise make(
            "PIPELINE_FAILED",
            message=away.message,
            detail=away.reason,
            hint="check that it runs and that the address is right, then start again",
        ) from None


def _load_as_text(adapters: Any) -> None:
    """Return every value as the text that PostgreSQL sends: the type of a value depends on the column of the relation,
    and no value (`infinity`, a date BC) fails the rows around it."""
    from psycopg.types.string import TextLoader

    for type_info in list(adapters.types):
        for oid in (type_info.oid, type_info.array_oid):
            if oid:
                adapters.register_loader(oid, TextLoader)


def _table_query(driver: Any, connection: Any, table: tuple[str, ...], columns: tuple[str, ...]) -> str:
    name = driver.sql.Identifier(*table).as_string(connection)
    existing = [column.name for column in connection.execute(f"SELECT * FROM {name} LIMIT 0").description]
    folded = {column.casefold() for column in columns}
    if not folded <= {column.casefold() for column in existing}:
        return f"SELECT * FROM {name}"
    selected = [
        driver.sql.Identifier(column).as_string(connection) for column in existing if column.casefold() in folded
    ]
    return f"SELECT {', '.join(selected)} FROM {name}"


def _unconnected(text: str, server: Server) -> Exception:
    reason = _without_password(text, server)
    rejected = _FATAL.search(reason)
    if rejected is None or _NOT_NOW.search(reason):
        return Unreachable(f"no PostgreSQL server answers at {server.place}", " ".join(reason.split()))
    if "WAL sender" in rejected[1] or "walsender" in rejected[1]:
        return make(
            "PIPELINE_FAILED",
            message=f"PostgreSQL at {server.place} does not let {server.user} follow changes: {rejected[1]}",
            hint=f"as a superuser: ALTER ROLE {quoted(server.user)} REPLICATION; then start again",
        )
    return make(
        "PIPELINE_FAILED",
        message=f"PostgreSQL at {server.place} rejected the connection: {rejected[1]}",
        hint="check the user, the password and the name of the database, then start again",
    )


def _failed(failure: Any, options: ReadOptions, relation: str) -> Error:
    """The error for a failed query. One without a diagnosis is a lost connection."""
    reason = failure.diag.message_primary
    if reason is None or failure.diag.severity_nonlocalized in ("FATAL", "PANIC"):
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
        message=f"{relation} cannot be read from {origin} at {options.server.place}: {reason}",
        detail=_caret(options.query, failure.diag.statement_position) or failure.diag.message_detail,
        hint=failure.diag.message_hint or fix,
    )


def _caret(query: str | None, position: str | None) -> str | None:
    """The line of the query with a caret. PostgreSQL counts from 1, and from the beginning of DECLARE."""
    if query is None or position is None or int(position) <= len(_DECLARED):
        return None
    line, column = line_and_column(query, int(position) - len(_DECLARED) - 1)
    label = f"line {line}:  "
    return f"{label}{query.splitlines()[line - 1]}\n{' ' * (len(label) + column - 1)}^"


def _without_password(text: str, server: Server) -> str:
    return re.sub(rf"(?<!\w){re.escape(server.password)}(?!\w)", "***", text) if server.password else text
