"""What `INTO WEBHOOK (...)` and `FROM WEBHOOK (...)` can be told."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.http import host_of, path_of, port_of
from tidegate.core.options import Bag
from tidegate.errors import make

SIGNATURE = "X-Tidegate-Signature"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN = ("host", "content-length", "content-type", "connection", "transfer-encoding", "x-tidegate-")


@dataclass(frozen=True)
class PostOptions:
    """Where and how events are posted. `retries` may be infinite; `batch` is how many events go in one request
    at most, None for each by itself."""

    url: str
    secret: str | None
    batch: int | None
    timeout: float
    retries: float
    backoff: float
    max_backoff: float
    headers: Mapping[str, str] = field(default_factory=dict)


def post_options(bag: Bag) -> PostOptions:
    """Takes a sink's options out of the bag."""
    url = _url(bag)
    batch, rows = bag.boolean("batch"), bag.integer("batch_rows", 1000, minimum=1)
    return PostOptions(
        url=url,
        secret=_secret(bag),
        batch=rows if batch else None,
        timeout=_seconds(bag, "timeout", 10),
        retries=_number(bag.take("max_retries", _retries, "a whole number, or 'unlimited'"), 5),
        backoff=_seconds(bag, "backoff", 1),
        max_backoff=_seconds(bag, "max_backoff", 60),
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


def _seconds(bag: Bag, name: str, default: int) -> float:
    at = bag.span_of(name)
    found = (bag.duration(name, timedelta(seconds=default)) or timedelta()).total_seconds()
    if found <= 0:
        raise make("INVALID_OPTION", message=f"{name} cannot be zero", hint=f"write {name} = '{default}s'", span=at)
    return found


def _number(given: float | None, default: float) -> float:
    return default if given is None else given


def _retries(text: str) -> float:
    number = math.inf if text.strip().casefold() == "unlimited" else int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _headers(bag: Bag) -> dict[str, str]:
    found = bag.passed("headers.")
    for name, value in found.items():
        if not _TOKEN.fullmatch(name) or not re.fullmatch(r"[\x20-\x7e\t]*", value):
            message, hint = f"headers.{name} cannot be a header", "a header is one line of ASCII"
        elif name.casefold().startswith(_OWN):
            message, hint = f"headers.{name} cannot be set", "the connector sets it itself"
        else:
            continue
        raise make("INVALID_OPTION", message=message, hint=hint, span=bag.span)
    return found


@dataclass(frozen=True)
class TakeOptions:
    """Where events are waited for, and what they become."""

    host: str
    port: int
    path: str
    secret: str | None
    signature: str
    channel: str
    max_body: int


def take_options(spec: SourceSpec, bag: Bag) -> TakeOptions:
    """Takes a source's options out of the bag."""
    secret = _secret(bag)
    return TakeOptions(
        host=host_of(bag, secret is not None, "secret"),
        port=port_of(bag, 8081),
        path=path_of(bag, "/hooks"),
        secret=secret,
        signature=bag.text("signature_header", SIGNATURE) or SIGNATURE,
        channel=bag.text("channel") or f"webhook:{spec.relation}",
        max_body=bag.size("max_body", 1 << 20) or 1 << 20,
    )
