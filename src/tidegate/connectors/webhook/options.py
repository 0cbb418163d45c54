"""The options of `INTO WEBHOOK (...)` and `FROM WEBHOOK (...)`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from tidegate.connectors.http import ORIGIN, PATH, PORT, check_host
from tidegate.connectors.webhook.signing import SIGNATURE
from tidegate.core.http_server import LOOPBACK
from tidegate.core.option_models import (
    SECONDS,
    SECRET,
    OptionModel,
    Parsed,
    Prefixed,
    Spans,
    not_zero,
    whole_number,
)  # fmt: skip
from tidegate.core.options import parse_size
from tidegate.errors import Error, Span, make

MAX_AGE = 300.0
"""Largest age of a signed timestamp in seconds, unless `max_age` is set."""

MAX_BODY = 1 << 20

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN = ("host", "content-length", "content-type", "connection", "transfer-encoding", "x-tidegate-")


def _retries(text: str) -> float:
    number = math.inf if text.strip().casefold() == "unlimited" else int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _body_size(text: str) -> int:
    return parse_size(text) or MAX_BODY


class PostOptions(OptionModel):
    """Where and how events are posted."""

    url: str = Field(
        description="Where to post; a user and password in it are sent.", examples=["https://example.com/hook"]
    )
    secret: str | None = Field(None, description="Key that signs every body.", json_schema_extra=SECRET)
    batch: bool = Field(False, description="Post a JSON array per step instead of one object per request.")
    batch_rows: Annotated[int, whole_number(1)] = Field(1000, description="Number of objects of an array.")
    timeout: Annotated[float, SECONDS] = Field(10.0, description="Longest wait for a response.")
    max_retries: Annotated[float, Parsed(_retries, "a whole number, or 'unlimited'")] = Field(
        5.0, description="Number of repetitions before a request becomes a dead letter."
    )
    backoff: Annotated[float, SECONDS] = Field(1.0, description="First pause after a failure; it doubles each time.")
    max_backoff: Annotated[float, SECONDS] = Field(60.0, description="Longest pause after a failure.")
    timestamp: bool = Field(False, description="Sign the time of the request together with the body.")
    headers: Annotated[Mapping[str, str], Prefixed("headers.")] = Field({}, description="Headers of every request.")

    def check(self, spans: Spans) -> None:
        _check_url(self.url.strip(), spans["url"])
        _check_secret(self.secret, spans["secret"])
        for name, default in (("timeout", "10s"), ("backoff", "1s"), ("max_backoff", "60s")):
            if getattr(self, name) <= 0:
                raise not_zero(name, default, spans)
        if self.timestamp and self.secret is None:
            message, hint = "timestamp needs a secret", "add secret = '...'"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["timestamp"])
        for name, value in self.headers.items():
            _check_header(name, value, spans["headers"])


def _check_url(url: str, span: Span | None) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or re.search(r"[^\x21-\x7e]", url):
        raise make(
            "INVALID_OPTION",
            message="the url of a webhook is not one that can be posted to",
            hint="write url = 'https://example.com/hook', with %XX for other signs than ASCII ones",
            span=span,
        )


def _check_secret(secret: str | None, span: Span | None) -> None:
    if secret == "":
        raise make("INVALID_OPTION", message="the secret is empty", hint="leave it out to sign nothing", span=span)


def _check_header(name: str, value: str, span: Span | None) -> None:
    if not _TOKEN.fullmatch(name) or not re.fullmatch(r"[\x20-\x7e\t]*", value):
        raise _bad_header(f"headers.{name} cannot be a header", "a header is one line of ASCII", span)
    if name.casefold().startswith(_OWN):
        raise _bad_header(f"headers.{name} cannot be set", "the connector sets it itself", span)


def _bad_header(message: str, hint: str, span: Span | None) -> Error:
    return make("INVALID_OPTION", message=message, hint=hint, span=span)


class ReceiveOptions(OptionModel):
    """Where events are received, and what they become."""

    secret: str | None = Field(None, description="Key that must have signed every body.", json_schema_extra=SECRET)
    max_age: Annotated[float | None, SECONDS] = Field(None, description="Longest age of a timestamp, required if set.")
    host: str = Field(LOOPBACK, description="Address to listen on; others than this machine's own need a secret.")
    port: Annotated[int, PORT] = Field(8081, description="Port to listen on; 0: any free one.")
    path: Annotated[str, PATH] = Field("/hooks", description="Path of the source.")
    signature_header: str = Field(SIGNATURE, description="Header with the signature.")
    channel: str | None = Field(None, description="Channel of the events.")
    max_body: Annotated[int, Parsed(_body_size, "a size in bytes such as '64mb'")] = Field(
        MAX_BODY, description="Largest size of a body."
    )
    cors: Annotated[str | None, ORIGIN] = Field(None, description="Origin whose pages may post; '*': any.")

    def check(self, spans: Spans) -> None:
        _check_secret(self.secret, spans["secret"])
        check_host(self.host, self.secret is not None, "secret", spans["host"])
