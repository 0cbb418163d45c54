"""Read a posted request: its events, or the reason why it is rejected."""

from __future__ import annotations

import json
import time
import uuid
from typing import NoReturn

from starlette.exceptions import HTTPException
from starlette.responses import Response

from tidegate.connectors.http import cors_headers
from tidegate.connectors.webhook.options import MAX_AGE, ReceiveOptions
from tidegate.connectors.webhook.signing import TIMESTAMP, is_signed
from tidegate.core.http_messages import HttpRequest
from tidegate.core.http_pages import reject_pages

KEYS = ("Idempotency-Key", "X-Tidegate-Id")
_BLANK = " \t\n\r"


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_no_constant)


def check_origin(request: HttpRequest, options: ReceiveOptions) -> None:
    """Reject what a page in somebody's browser posts, unless `cors` allows its origin or the body must be signed.

    Browsers name the page's origin in every POST, and any page may post to this machine without asking first.
    """
    if options.secret is None:
        reject_pages(request, options.cors, "post")


def preflight(options: ReceiveOptions) -> Response:
    """Answer a browser that asks whether a page may post."""
    allowed = ", ".join(("Content-Type", *KEYS, options.signature_header, TIMESTAMP))
    headers = {"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": allowed}
    return Response("", 200, {**headers, "Access-Control-Max-Age": "86400", **cors_headers(options.cors)})


def payloads(request: HttpRequest, body: bytes, options: ReceiveOptions) -> list[str]:
    """Return the events of a request, each as the JSON that was sent."""
    if options.secret is not None:
        _verify(request, body, options.secret, options)
    try:
        return objects(body.decode())
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError) as failure:
        reason = "it is nested too deeply" if isinstance(failure, RecursionError) else str(failure)
        raise HTTPException(400, f"the body is not a JSON object or an array of objects: {reason}") from None


def _verify(request: HttpRequest, body: bytes, secret: str, options: ReceiveOptions) -> None:
    """Check the signature, and the age of the timestamp if the signature covers one."""
    timestamp = request.headers.get(TIMESTAMP)
    if not is_signed(secret, body, request.headers.get(options.signature_header), timestamp):
        raise HTTPException(401, f"the header {options.signature_header} does not have the signature of this body")
    if timestamp is None:
        if options.max_age is not None:
            raise HTTPException(401, f"the header {TIMESTAMP} is missing")
    elif not _is_recent(timestamp, age := MAX_AGE if options.max_age is None else options.max_age):
        raise HTTPException(401, f"the header {TIMESTAMP} is not within {age:g} seconds of now")


def _is_recent(timestamp: str, seconds: float) -> bool:
    return timestamp.isdecimal() and len(timestamp) < 20 and abs(time.time() - int(timestamp)) <= seconds


def objects(text: str) -> list[str]:
    """Return a JSON object, or each object of an array, as it is written in the text.

    `[{"a": 1.50}, {}]` gives `{"a": 1.50}` and `{}`.
    """
    at = _skip_blanks(text, 0)
    if not text.startswith("[", at):
        object, end = _object(text, at)
        _check_end(text, end)
        return [object]
    every = []
    at = _skip_blanks(text, at + 1)
    while not text.startswith("]", at):
        object, end = _object(text, at)
        every.append(object)
        at = _skip_blanks(text, end)
        if text.startswith(",", at):
            at = _skip_blanks(text, at + 1)
            if text.startswith("]", at):
                raise ValueError("a comma without an object behind it")
        elif not text.startswith("]", at):
            raise ValueError(f"neither , nor ] at character {at}")
    _check_end(text, at + 1)
    return every


def _object(text: str, at: int) -> tuple[str, int]:
    value, end = _JSON.raw_decode(text, at)
    if not isinstance(value, dict):
        raise ValueError(f"there is no object at character {at}")
    return text[at:end], end


def _check_end(text: str, at: int) -> None:
    if text[at:].strip(_BLANK):
        raise ValueError(f"something follows at character {at}")


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def ids(request: HttpRequest, count: int) -> tuple[list[str], bool]:
    """Return an id for each event of a request, and whether the sender gave it: `key`, or `key#0`, `key#1` ...."""
    key = next((value for name in KEYS if (value := request.headers.get(name))), None)
    if key is None:
        return [str(uuid.uuid4()) for _ in range(count)], False
    return [key] if count == 1 else [f"{key}#{number}" for number in range(count)], True
