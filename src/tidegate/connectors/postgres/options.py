"""Options of the PostgreSQL connectors: where the server is, and what is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated
from urllib.parse import unquote

from pydantic import Field

from tidegate.connectors.contract import SourceSpec
from tidegate.core.option_models import (
    POSITIVE_DURATION,
    SECRET,
    SIZE,
    Aliases,
    OptionModel,
    Parsed,
    Spans,
    choice,
    whole_number,
)
from tidegate.core.options import Bag
from tidegate.errors import Span, make

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
PORT = 5432
MAX_SLOT_LAG = 1 << 30
_Settings = dict[str, str | None]
_PATIENCE: _Settings = {"connect_timeout": "10"}
_URL = re.compile(
    r"(?:jdbc:)?(?P<bare>postgres(?:ql)?://(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    r"(?P<place>(?P<hosts>[^@/?#\s]*)(?:/[^@/?#\s]*)?)(?:\?(?P<more>[^#\s]*))?)"
)
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LISTED = re.compile(r'((?:"(?:[^"]|"")*"|[^",])*),')
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class Server:
    """Where a database is, and who connects: a URL, and settings of libpq that are not in it. `place` and `user` can be
    displayed; secrets are not part of the repr."""

    place: str
    url: str = field(default="", repr=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    password: str | None = field(default=None, repr=False)
    user: str = "this user"


@dataclass(frozen=True)
class Following:
    """How changes are followed. Empty `tables` means all of them, a name of None a generated one. `snapshot`: begin
    with the rows that exist. `max_slot_lag` is in bytes."""

    tables: tuple[tuple[str, ...], ...]
    publication: str | None
    slot: str | None
    snapshot: bool
    max_slot_lag: int


@dataclass(frozen=True)
class ReadOptions:
    """What is read, and when: `query` or `table` (the parts of its name) as a whole, or the changes of `following`."""

    server: Server
    query: str | None
    table: tuple[str, ...]
    refresh_interval: timedelta | None
    following: Following | None = None


def table_name(text: str) -> tuple[str, ...]:
    """`sales.customers` and `"my.schema"."Order Items"`, as the parts that they are made of."""
    parts: list[str] = []
    rest = text.strip()
    while part := _NAME.match(rest):
        parts.append(part[1].replace('""', '"') if part[1] else part[2].strip())
        rest = rest[part.end() :]
        if not rest.startswith("."):
            break
        rest = rest[1:] or "."
    if rest or not 1 <= len(parts) <= 2 or not all(parts):
        raise ValueError(text)
    return tuple(parts)


def table_names(text: str) -> tuple[tuple[str, ...], ...]:
    """`orders, sales.items` as the parts of each name; `*` as nothing."""
    if text.strip() == "*":
        return ()
    return tuple(table_name(part) for part in _LISTED.findall(f"{text},"))


def _slot_name(text: str) -> str:
    if not re.fullmatch("[a-z0-9_]{1,63}", text):
        raise ValueError(text)
    return text


class TableOptions(OptionModel):
    """What a table is a copy of, and when it is read."""

    query: str | None = Field(None, description="A SELECT.")
    table: Annotated[
        tuple[str, ...] | None,
        Parsed(table_name, "a name such as 'customers' or 'sales.customers'"),
        Aliases("table_name"),
    ] = Field(None, description="A table, spelled as in the database.")
    refresh_interval: Annotated[timedelta | None, POSITIVE_DURATION, Aliases("refresh_every", "refresh.interval")] = (
        Field(None, description="Polling interval.")
    )
    refresh: Annotated[str | None, choice("cdc", "manual", "snapshot_only", "periodic")] = Field(
        None, description="Replicate the table, or read it as a whole."
    )

    def check(self, spans: Spans) -> None:
        if self.query is not None and self.table is not None:
            message = "query and table exclude each other"
            raise make("INVALID_OPTION", message=message, hint="leave one out", span=spans["query"])
        if self.query is not None and not _bare(self.query):
            message, hint = "option 'query' is empty", "write query = 'SELECT ...'"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["query"])
        if self.refresh in ("cdc", "manual", "snapshot_only") and self.refresh_interval is not None:
            raise make(
                "INVALID_OPTION",
                message=f"refresh = '{self.refresh}' and refresh_interval contradict each other",
                hint="leave out one of them",
                span=spans["refresh_interval"],
            )
        if self.refresh == "cdc" and self.query is not None:
            raise make(
                "INVALID_OPTION",
                message="the changes of a query cannot be followed",
                hint="write table = '...', or leave out refresh = 'cdc'",
                span=spans["refresh"],
            )


def _bare(query: str) -> str:
    return query.strip().rstrip("; \t\r\n")


class FollowOptions(OptionModel):
    """How changes are followed."""

    slot: Annotated[
        str | None, Parsed(_slot_name, "small letters, digits and _, at most 63 of them"), Aliases("slot_name")
    ] = Field(None, description="Name of the replication slot.")
    publication: Annotated[str | None, Aliases("publication_name")] = Field(
        None, description="Name of the publication."
    )
    max_slot_lag: Annotated[int, SIZE] = Field(
        MAX_SLOT_LAG, description="Bytes of WAL that the slot retains before a warning is logged."
    )


class TableFollowOptions(FollowOptions):
    """How a table is followed, which always begins with its rows."""

    snapshot: Annotated[str, choice("initial")] = Field("initial", description="A table begins with its rows.")


class EventOptions(FollowOptions):
    """Which changes become events."""

    tables: Annotated[
        tuple[tuple[str, ...], ...] | None,
        Parsed(table_names, "names such as 'orders, sales.items', or '*' for all tables"),
        Aliases("table", "table_name"),
    ] = Field(None, description="Names of tables, or '*' for all.")
    snapshot: Annotated[str, choice("initial", "never")] = Field(
        "never", description="Begin with the rows that exist, or with the next change."
    )


def read_options(bag: Bag) -> ReadOptions:
    """Take the options of a table out of the bag."""
    server = server_options(bag)
    refresh_at = bag.span_of("refresh")
    options = TableOptions.take(bag)
    if options.query is None and options.table is None:
        hint = "add table = 'schema.name', or query = 'SELECT ...'"
        raise make("MISSING_OPTION", where=bag.where, name="table", hint=hint, span=bag.span)
    if options.refresh == "periodic" and options.refresh_interval is None:
        hint = "add refresh_interval = '1m'"
        raise make("MISSING_OPTION", where=bag.where, name="refresh_interval", hint=hint, span=refresh_at)
    query, table, interval = options.query, options.table or (), options.refresh_interval
    if query is not None or interval is not None or options.refresh in ("manual", "snapshot_only"):
        _reject_following(bag)
        return ReadOptions(server, None if query is None else _bare(query), table, interval)
    return ReadOptions(server, None, table, None, _following(TableFollowOptions.take(bag), (table,), snapshot=True))


def event_options(bag: Bag) -> ReadOptions:
    """Take the options of a source of events out of the bag."""
    server = server_options(bag)
    options = EventOptions.take(bag)
    if options.tables is None:
        hint = "add tables = 'orders, sales.items', or tables = '*' for all of them"
        raise make("MISSING_OPTION", where=bag.where, name="tables", hint=hint, span=bag.span)
    return ReadOptions(server, None, (), None, _following(options, options.tables, options.snapshot == "initial"))


def _following(options: FollowOptions, tables: tuple[tuple[str, ...], ...], snapshot: bool) -> Following:
    return Following(tables, options.publication, options.slot, snapshot, options.max_slot_lag or MAX_SLOT_LAG)


def _reject_following(bag: Bag) -> None:
    for name in TableFollowOptions.model_fields:
        at = bag.span_of(name)
        if bag.text(name) is not None:
            raise make(
                "INVALID_OPTION",
                message=f"option '{name}' is for a table whose changes are followed",
                hint=f"leave it out, or follow a table: table = '...', refresh = 'cdc', {name} = '...'",
                span=at,
            )


class ServerOptions(OptionModel):
    """Where the server is, and who connects."""

    url: str | None = Field(None, description="Address of the database.")
    user: Annotated[str | None, Aliases("username")] = Field(None, description="User, if the url has none.")
    password: str | None = Field(None, description="Password, if the url has none.", json_schema_extra=SECRET)
    sslmode: Annotated[str | None, choice(*SSL_MODES)] = Field(None, description="As in libpq.")
    host: Annotated[str | None, Aliases("hostname")] = Field(None, description="Host, instead of a url.")
    port: Annotated[int | None, whole_number(1)] = Field(None, description="Port, with host; 5432 by default.")
    database: Annotated[str | None, Aliases("dbname", "database_name")] = Field(
        None, description="Database, with host."
    )


def server_options(bag: Bag) -> Server:
    """Take the options of the server out of the bag."""
    url_at, user_at, host_at = bag.span_of("url"), bag.span_of("user"), bag.span_of("host")
    options = ServerOptions.take(bag)
    url, host, port, database = options.url, options.host, options.port, options.database
    login = _Settings(user=options.user, password=options.password, sslmode=options.sslmode)
    if url is not None:
        if host or port or database:
            raise _twice("url says where the database is already", "leave out host, port and database", host_at)
        return _by_url(url, login, url_at, user_at)
    if host is None:
        example = "postgresql://user:password@host:5432/database"
        raise make("MISSING_OPTION", where=bag.where, name="url", hint=f"add url = '{example}'", span=bag.span)
    if database is None:
        raise make("MISSING_OPTION", where=bag.where, name="database", hint="add database = 'shop'", span=bag.span)
    where = _Settings(host=host, port=str(port or PORT), dbname=database)
    return Server(
        f"{host}:{port or PORT}/{database}",
        "",
        _set_items(_PATIENCE | where | login),
        login["password"],
        *_user(login["user"]),
    )


def _by_url(url: str, login: _Settings, at: Span | None, user_at: Span | None) -> Server:
    """The URL is never repeated in an error: one that cannot be parsed may have its password anywhere."""
    match = _URL.fullmatch(url.strip())
    if match is None or _PERCENT.search(url) or not all(map(_HOST.fullmatch, match["hosts"].split(","))):
        raise make(
            "INVALID_OPTION",
            message="option 'url' is not the address of a PostgreSQL database",
            hint="expected 'postgresql://user:password@host:5432/database'; a password with other signs than letters"
            " and digits goes into password = '...'",
            span=at,
        )
    more = match["more"] or ""
    if re.search(r"(^|&)password=", more):
        raise make(
            "INVALID_OPTION",
            message="the password stands among the parameters of url, where it would be shown",
            hint="write password = '...', or 'postgresql://user:password@host:5432/database'",
            span=at,
        )
    if (match["user"] and login["user"]) or (match["password"] and login["password"]):
        raise _twice("url has a user or a password too", "leave one out", user_at)
    patience = {} if "connect_timeout=" in more else _PATIENCE
    password = unquote(match["password"]) if match["password"] else login["password"]
    user = _user(unquote(match["user"]) if match["user"] else login["user"])
    return Server(match["place"] or "localhost", match["bare"], _set_items(patience | login), password, *user)


def _user(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _set_items(settings: _Settings) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in settings.items() if value is not None)


def _twice(message: str, hint: str, at: Span | None) -> Exception:
    return make("INVALID_OPTION", message=message, hint=hint, span=at)


def reject_columns(spec: SourceSpec, bag: Bag) -> None:
    """Reject columns and formats: events have the columns of the bus."""
    if spec.columns:
        raise make(
            "NOT_SUPPORTED",
            message=f"{spec.kind} gives events, so {spec.relation} has no columns of its own",
            hint=f"CREATE SOURCE {spec.relation} FROM {spec.kind} (...), and read pgcdc_events",
            span=bag.span,
        )
