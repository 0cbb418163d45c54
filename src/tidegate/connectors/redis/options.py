"""Options of `INTO REDIS (...)`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.rows import no_key
from tidegate.core.options import Bag
from tidegate.errors import Span, make

MODES = ("stream", "keys")
PORT = 6379
_URL = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    r"(?P<host>\[[^\]@\s]+\]|[^:@/?#\s\[\]]+)(?::(?P<port>\d{1,5}))?(?:/(?P<number>\d*))?"
)
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Server:
    """Where a Redis server is and who asks. `place` may be shown. Secrets are not printed."""

    host: str
    port: int = PORT
    number: int = 0
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}/{self.number}"


@dataclass(frozen=True)
class WriteOptions:
    """Where changes go: to the end of a stream, cut to about `max_length` entries if that is given, or to keys that
    begin with `prefix`."""

    server: Server
    mode: Literal["stream", "keys"]
    stream: str = ""
    max_length: int | None = None
    prefix: str = ""


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag."""
    mode_at, clash_at = bag.span_of("mode"), bag.span_of("stream")
    server = _server(bag)
    if bag.choice("mode", MODES, "stream") == "stream":
        stream = bag.required("stream", spec.reads or "orders")
        return WriteOptions(server, "stream", stream, bag.integer("maxlen", minimum=1, aliases=("max_length",)))
    if not spec.key:
        raise no_key(spec.kind, "keys", spec.reads, mode_at)
    if bag.text("stream") is not None:
        message = "mode 'keys' writes to a key for each row, not to a stream"
        raise make("INVALID_OPTION", message=message, hint="write prefix = '...' instead of stream", span=clash_at)
    return WriteOptions(server, "keys", prefix=bag.text("prefix", f"{spec.reads or spec.name}:") or "")


def _server(bag: Bag) -> Server:
    """The URL is never repeated in an error: one that cannot be read may have its password anywhere."""
    at, user_at = bag.span_of("url"), bag.span_of("password")
    url = bag.required("url", "redis://localhost:6379/0")
    user, password = bag.text("user", aliases=("username",)), bag.text("password")
    found = _URL.fullmatch(url.strip())
    if found is None or _PERCENT.search(url) or int(found["port"] or PORT) not in range(1, 65536):
        raise make(
            "INVALID_OPTION",
            message="option 'url' is not the address of a Redis server",
            hint="expected 'redis://user:password@host:6379/0', or 'rediss://...' for TLS; a password with other signs"
            " than letters and digits goes into password = '...'",
            span=at,
        )
    if (found["user"] and user) or (found["password"] and password):
        raise _twice(user_at)
    return Server(
        host=found["host"].strip("[]"),
        port=int(found["port"] or PORT),
        number=int(found["number"] or 0),
        tls=found["scheme"] == "rediss",
        user=unquote(found["user"]) if found["user"] else user,
        password=unquote(found["password"]) if found["password"] else password,
    )


def _twice(at: Span | None) -> Exception:
    message = "url has a user or a password too"
    return make("INVALID_OPTION", message=message, hint="leave one out", span=at)
