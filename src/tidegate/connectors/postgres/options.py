"""Options of the PostgreSQL connectors: where the server is, and what is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import unquote

from tidegate.connectors.contract import SourceSpec
from tidegate.core.options import Bag
from tidegate.errors import Span, make

REFRESH = ("cdc", "manual", "snapshot_only", "periodic")
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
    """Where a database is and who asks: a URL or nothing, and what is not in it, by the names that libpq has for it.
    `place` and `user` may be shown. Secrets are not printed."""

    place: str
    url: str = field(default="", repr=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    password: str | None = field(default=None, repr=False)
    user: str = "this user"


@dataclass(frozen=True)
class Following:
    """How changes are followed. No `tables` are all of them; names that are not given are made up. `snapshot`: events
    begin with the rows that are there. `max_slot_lag` is in bytes."""

    tables: tuple[tuple[str, ...], ...]
    publication: str | None
    slot: str | None
    snapshot: bool
    max_slot_lag: int


@dataclass(frozen=True)
class ReadOptions:
    """What is read and when. Of a source that is read as a whole just one of `query` and `table` (the parts of its
    name) is given; one that follows changes has `following`."""

    server: Server
    query: str | None
    table: tuple[str, ...]
    refresh_interval: timedelta | None
    following: Following | None = None


def read_options(bag: Bag) -> ReadOptions:
    """Take the options of a table out of the bag."""
    server = server_options(bag)
    refresh_at = bag.span_of("refresh")
    query, table = _what(bag)
    refresh, interval = _when(bag)
    if refresh == "cdc" and query is not None:
        raise make(
            "INVALID_OPTION",
            message="the changes of a query cannot be followed",
            hint="write table = '...', or leave out refresh = 'cdc'",
            span=refresh_at,
        )
    if query is not None or interval is not None or refresh in ("manual", "snapshot_only"):
        _reject_following(bag)
        return ReadOptions(server, query, table, interval)
    bag.choice("snapshot", ("initial",))
    return ReadOptions(server, None, table, None, _following(bag, (table,), snapshot=True))


def event_options(bag: Bag) -> ReadOptions:
    """Take the options of a source of events out of the bag."""
    server = server_options(bag)
    expected = "names such as 'orders, sales.items', or '*' for all tables"
    tables = bag.take("tables", table_names, expected, aliases=("table", "table_name"))
    if tables is None:
        hint = "add tables = 'orders, sales.items', or tables = '*' for all of them"
        raise make("MISSING_OPTION", where=bag.where, name="tables", hint=hint, span=bag.span)
    snapshot = bag.choice("snapshot", ("initial", "never"), "never") == "initial"
    return ReadOptions(server, None, (), None, _following(bag, tables, snapshot))


def _following(bag: Bag, tables: tuple[tuple[str, ...], ...], snapshot: bool) -> Following:
    slot = bag.take("slot", _slot_name, "small letters, digits and _, at most 63 of them", aliases=("slot_name",))
    publication = bag.text("publication", aliases=("publication_name",))
    return Following(tables, publication, slot, snapshot, bag.size("max_slot_lag", MAX_SLOT_LAG) or MAX_SLOT_LAG)


def _reject_following(bag: Bag) -> None:
    for name in ("slot", "publication", "snapshot", "max_slot_lag"):
        at = bag.span_of(name)
        if bag.text(name) is not None:
            raise make(
                "INVALID_OPTION",
                message=f"option '{name}' is for a table whose changes are followed",
                hint=f"leave it out, or follow a table: table = '...', refresh = 'cdc', {name} = '...'",
                span=at,
            )


def _slot_name(text: str) -> str:
    if not re.fullmatch("[a-z0-9_]{1,63}", text):
        raise ValueError(text)
    return text


def server_options(bag: Bag) -> Server:
    url_at, user_at, host_at = bag.span_of("url"), bag.span_of("user"), bag.span_of("host")
    url = bag.text("url")
    who = _Settings(
        user=bag.text("user", aliases=("username",)),
        password=bag.text("password"),
        sslmode=bag.choice("sslmode", SSL_MODES),
    )
    host = bag.text("host", aliases=("hostname",))
    port = bag.integer("port", minimum=1)
    database = bag.text("database", aliases=("dbname", "database_name"))
    if url is not None:
        if host or port or database:
            raise _twice("url says where the database is already", "leave out host, port and database", host_at)
        return _by_url(url, who, url_at, user_at)
    if host is None:
        example = "postgresql://user:password@host:5432/database"
        raise make("MISSING_OPTION", where=bag.where, name="url", hint=f"add url = '{example}'", span=bag.span)
    if database is None:
        raise make("MISSING_OPTION", where=bag.where, name="database", hint="add database = 'shop'", span=bag.span)
    where = _Settings(host=host, port=str(port or PORT), dbname=database)
    return Server(
        f"{host}:{port or PORT}/{database}", "", _given(_PATIENCE | where | who), who["password"], *_user(who["user"])
    )


def _by_url(url: str, who: _Settings, at: Span | None, user_at: Span | None) -> Server:
    """The URL is never repeated in an error: one that cannot be read may have its password anywhere."""
    found = _URL.fullmatch(url.strip())
    if found is None or _PERCENT.search(url) or not all(map(_HOST.fullmatch, found["hosts"].split(","))):
        raise make(
            "INVALID_OPTION",
            message="option 'url' is not the address of a PostgreSQL database",
            hint="expected 'postgresql://user:password@host:5432/database'; a password with other signs than letters"
            " and digits goes into password = '...'",
            span=at,
        )
    more = found["more"] or ""
    if re.search(r"(^|&)password=", more):
        raise make(
            "INVALID_OPTION",
            message="the password stands among the parameters of url, where it would be shown",
            hint="write password = '...', or 'postgresql://user:password@host:5432/database'",
            span=at,
        )
    if (found["user"] and who["user"]) or (found["password"] and who["password"]):
        raise _twice("url has a user or a password too", "leave one out", user_at)
    patience = {} if "connect_timeout=" in more else _PATIENCE
    password = unquote(found["password"]) if found["password"] else who["password"]
    user = _user(unquote(found["user"]) if found["user"] else who["user"])
    return Server(found["place"] or "localhost", found["bare"], _given(patience | who), password, *user)


def _user(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _given(settings: _Settings) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in settings.items() if value is not None)


def _twice(message: str, hint: str, at: Span | None) -> Exception:
    return make("INVALID_OPTION", message=message, hint=hint, span=at)


def _what(bag: Bag) -> tuple[str | None, tuple[str, ...]]:
    at = bag.span_of("query")
    query = bag.text("query")
    table = bag.take("table", table_name, "a name such as 'customers' or 'sales.customers'", aliases=("table_name",))
    if query is not None and table is not None:
        raise make("INVALID_OPTION", message="query and table exclude each other", hint="leave one out", span=at)
    if query is None and table is None:
        hint = "add table = 'schema.name', or query = 'SELECT ...'"
        raise make("MISSING_OPTION", where=bag.where, name="table", hint=hint, span=bag.span)
    if query is None:
        return None, table or ()
    bare = query.strip().rstrip("; \t\r\n")
    if not bare:
        raise make("INVALID_OPTION", message="option 'query' is empty", hint="write query = 'SELECT ...'", span=at)
    return bare, ()


def table_name(text: str) -> tuple[str, ...]:
    """`sales.customers` and `"my.schema"."Order Items"`, as the parts that they are made of."""
    parts: list[str] = []
    rest = text.strip()
    while found := _NAME.match(rest):
        parts.append(found[1].replace('""', '"') if found[1] else found[2].strip())
        rest = rest[found.end() :]
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


def _when(bag: Bag) -> tuple[str | None, timedelta | None]:
    interval_at, refresh_at = bag.span_of("refresh_interval"), bag.span_of("refresh")
    interval = bag.positive_duration("refresh_interval", aliases=("refresh_every", "refresh.interval"))
    refresh = bag.choice("refresh", REFRESH)
    if refresh == "periodic" and interval is None:
        hint = "add refresh_interval = '1m'"
        raise make("MISSING_OPTION", where=bag.where, name="refresh_interval", hint=hint, span=refresh_at)
    if refresh in ("cdc", "manual", "snapshot_only") and interval is not None:
        raise make(
            "INVALID_OPTION",
            message=f"refresh = '{refresh}' and refresh_interval contradict each other",
            hint="leave out one of them",
            span=interval_at,
        )
    return refresh, interval


def reject_columns(spec: SourceSpec, bag: Bag) -> None:
    """They go to the bus, which has columns of its own."""
    if spec.format is not None:
        raise make("UNKNOWN_FORMAT", message=f"{spec.kind} has no formats", hint="leave FORMAT out", span=bag.span)
    if spec.columns:
        raise make(
            "NOT_SUPPORTED",
            message=f"{spec.kind} gives events, so {spec.relation} has no columns of its own",
            hint=f"CREATE SOURCE {spec.relation} FROM {spec.kind} (...), and read pgcdc_events",
            span=bag.span,
        )
