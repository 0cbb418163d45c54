"""Options of `INTO REDIS (...)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Annotated, Literal
from urllib.parse import unquote

from pydantic import Field

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.rows import no_key
from tidegate.core.option_models import SECRET, Aliases, OptionModel, Spans, choice, whole_number
from tidegate.core.options import Bag
from tidegate.errors import Span, make

PORT = 6379
_URL = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    r"(?P<host>\[[^\]@\s]+\]|[^:@/?#\s\[\]]+)(?::(?P<port>\d{1,5}))?(?:/(?P<number>\d*))?"
)
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Server:
    """Where a Redis server is, and who connects. `place` can be displayed; the password is not part of the repr."""

    host: str
    port: int = PORT
    number: int = 0
    tls: bool = False
    user: str | None = None
    password: str | None = attribute(default=None, repr=False)

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}/{self.number}"


@dataclass(frozen=True)
class WriteOptions:
    """Where changes are written: to a stream, trimmed to about `max_length` entries if that is set, or to keys that
    begin with `prefix`."""

    server: Server
    mode: Literal["stream", "keys"]
    stream: str = ""
    max_length: int | None = None
    prefix: str = ""


class ServerOptions(OptionModel):
    """Where the server is."""

    url: str = Field(description="Address of the server.", examples=["redis://localhost:6379/0"])
    user: Annotated[str | None, Aliases("username")] = Field(None, description="User, if the url has none.")
    password: str | None = Field(None, description="Password, if the url has none.", json_schema_extra=SECRET)


class ModeOptions(OptionModel):
    """What is written."""

    mode: Annotated[Literal["stream", "keys"], choice("stream", "keys")] = Field(
        "stream", description="Entries of a stream, or a key per row."
    )


class StreamOptions(OptionModel):
    """Options of mode `stream`."""

    stream: str = Field(description="Key of the stream.", examples=["orders"])
    maxlen: Annotated[int | None, whole_number(1), Aliases("max_length")] = Field(
        None, description="Approximate number of entries that stay in the stream."
    )


class KeysOptions(OptionModel):
    """Options of mode `keys`; `stream` is rejected with a hint."""

    stream: str | None = Field(None, description="Only for mode stream.")
    prefix: str | None = Field(None, description="Prefix of keys; the view's name and a colon.")

    def check(self, spans: Spans) -> None:
        if self.stream is not None:
            message = "mode 'keys' writes to a key for each row, not to a stream"
            hint = "write prefix = '...' instead of stream"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["stream"])


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag."""
    mode_at = bag.span_of("mode")
    server = _server(bag)
    if ModeOptions.take(bag).mode == "stream":
        stream = StreamOptions.take(bag, stream=spec.reads or "orders")
        return WriteOptions(server, "stream", stream.stream, stream.maxlen)
    if not spec.key:
        raise no_key(spec.kind, "keys", spec.reads, mode_at)
    prefix = KeysOptions.take(bag).prefix
    return WriteOptions(server, "keys", prefix=f"{spec.reads or spec.name}:" if prefix is None else prefix)


def _server(bag: Bag) -> Server:
    """The URL is never repeated in an error: one that cannot be parsed may have its password anywhere."""
    at, user_at = bag.span_of("url"), bag.span_of("password")
    options = ServerOptions.take(bag)
    url, user, password = options.url, options.user, options.password
    match = _URL.fullmatch(url.strip())
    if match is None or _PERCENT.search(url) or int(match["port"] or PORT) not in range(1, 65536):
        raise make(
            "INVALID_OPTION",
            message="option 'url' is not the address of a Redis server",
            hint="expected 'redis://user:password@host:6379/0', or 'rediss://...' for TLS; a password with other signs"
            " than letters and digits goes into password = '...'",
            span=at,
        )
    if (match["user"] and user) or (match["password"] and password):
        raise _twice(user_at)
    return Server(
        host=match["host"].strip("[]"),
        port=int(match["port"] or PORT),
        number=int(match["number"] or 0),
        tls=match["scheme"] == "rediss",
        user=unquote(match["user"]) if match["user"] else user,
        password=unquote(match["password"]) if match["password"] else password,
    )


def _twice(at: Span | None) -> Exception:
    message = "url has a user or a password too"
    return make("INVALID_OPTION", message=message, hint="leave one out", span=at)
