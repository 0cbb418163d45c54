"""The options of `INTO WEBHOOK (...)` and `FROM WEBHOOK (...)`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.http import host_of, origin_of, path_of, port_of
from tidegate.connectors.webhook.signing import SIGNATURE
from tidegate.core.options import Bag
from tidegate.errors import make

MAX_AGE = timedelta(minutes=5)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN = ("host", "content-length", "content-type", "connection", "transfer-encoding", "x-tidegate-")


@dataclass(frozen=True)
class PostOptions:
    """Where and how events are posted. `retries` may be infinite; `batch` is the largest number of events per request,
    None for one event each; with `timestamp` the signature covers the time of the request."""

    url: str
    secret: str | None
    batch: int | None
    timeout: float
    retries: float
    backoff: float
    max_backoff: float
    timestamp: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def post_options(bag: Bag) -> PostOptions:
    """Take a sink's options out of the bag."""
    url, secret = _url(bag), _secret(bag)
    batch, rows = bag.boolean("batch"), bag.integer("batch_rows", 1000, minimum=1)
    return PostOptions(
        url=url,
        secret=secret,
        batch=rows if batch else None,
        timeout=_seconds(bag, "timeout", 10),
        retries=_number(bag.take("max_retries", _retries, "a whole number, or 'unlimited'"), 5),
        backoff=_seconds(bag, "backoff", 1),
        max_backoff=_seconds(bag, "max_backoff", 60),
        timestamp=_timestamp(bag, secret),
        headers=_headers(bag),
    )


def _url(bag: Bag) -> str:
    at = bag.span_of("url")
    url = bag.required("url", "https://example.com/hook").strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or re.search(r"[^\x21-\x7e]", url):
        raise make(
            "INVALID_OPTION",
            message="the url of a webhook is not one that can be posted to",
            hint="write url = 'https://example.com/hook', with %XX for other signs than ASCII ones",
            span=at,
        )
    return url


def _secret(bag: Bag) -> str | None:
    at = bag.span_of("secret")
    secret = bag.text("secret")
    if secret == "":
        raise make("INVALID_OPTION", message="the secret is empty", hint="leave it out to sign nothing", span=at)
    return secret


def _timestamp(bag: Bag, secret: str | None) -> bool:
    at = bag.span_of("timestamp")
    timestamp = bag.boolean("timestamp")
    if timestamp and secret is None:
        raise make("INVALID_OPTION", message="timestamp needs a secret", hint="add secret = '...'", span=at)
    return timestamp


def _seconds(bag: Bag, name: str, default: int) -> float:
    at = bag.span_of(name)
    seconds = (bag.duration(name, timedelta(seconds=default)) or timedelta()).total_seconds()
    if seconds <= 0:
        raise make("INVALID_OPTION", message=f"{name} cannot be zero", hint=f"write {name} = '{default}s'", span=at)
    return seconds


def _number(given: float | None, default: float) -> float:
    return default if given is None else given


def _retries(text: str) -> float:
    number = math.inf if text.strip().casefold() == "unlimited" else int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _headers(bag: Bag) -> dict[str, str]:
    headers = bag.passed("headers.")
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not re.fullmatch(r"[\x20-\x7e\t]*", value):
            message, hint = f"headers.{name} cannot be a header", "a header is one line of ASCII"
        elif name.casefold().startswith(_OWN):
            message, hint = f"headers.{name} cannot be set", "the connector sets it itself"
        else:
            continue
        raise make("INVALID_OPTION", message=message, hint=hint, span=bag.span)
    return headers


@dataclass(frozen=True)
class ReceiveOptions:
    """Where events are received, and what they become. A timestamp that a signature covers may be `max_age` seconds
    old; `needs_timestamp` rejects signatures without one."""

    host: str
    port: int
    path: str
    secret: str | None
    signature: str
    channel: str
    max_body: int
    cors: str | None
    max_age: float
    needs_timestamp: bool


def receive_options(spec: SourceSpec, bag: Bag) -> ReceiveOptions:
    """Take a source's options out of the bag."""
    secret, max_age = _secret(bag), bag.duration("max_age")
    return ReceiveOptions(
        host=host_of(bag, secret is not None, "secret"),
        port=port_of(bag, 8081),
        path=path_of(bag, "/hooks"),
        secret=secret,
        signature=bag.text("signature_header", SIGNATURE) or SIGNATURE,
        channel=bag.text("channel") or f"webhook:{spec.relation}",
        max_body=bag.size("max_body", 1 << 20) or 1 << 20,
        cors=origin_of(bag),
        max_age=(MAX_AGE if max_age is None else max_age).total_seconds(),
        needs_timestamp=max_age is not None,
    )
