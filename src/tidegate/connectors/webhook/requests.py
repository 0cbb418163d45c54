"""What a posted request says: events, or why it is refused."""

from __future__ import annotations

import json
import uuid
from typing import NoReturn

from tidegate.connectors.http import Exchange, Refusal
from tidegate.connectors.webhook.options import TakeOptions
from tidegate.connectors.webhook.signing import signed

KEYS = ("Idempotency-Key", "X-Tidegate-Id")
_BLANK = " \t\n\r"


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_no_constant)


def payloads(exchange: Exchange, options: TakeOptions) -> list[str]:
    """The events of a request, each as the JSON that was sent."""
    exchange.only("POST")
    body = exchange.body(options.max_body)
    if options.secret is not None and not signed(options.secret, body, exchange.headers.get(options.signature)):
        raise Refusal(401, f"the header {options.signature} does not have the signature of this body")
    try:
        return objects(body.decode())
    except UnicodeDecodeError:
        raise Refusal(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError) as failure:
        reason = "it is nested too deeply" if isinstance(failure, RecursionError) else str(failure)
        raise Refusal(400, f"the body is not a JSON object or an array of objects: {reason}") from None


def objects(text: str) -> list[str]:
    """A JSON object, or each object of an array, as it stands in the text.

    `[{"a": 1.50}, {}]` gives `{"a": 1.50}` and `{}`.
    """
    place = _skipped(text, 0)
    if not text.startswith("[", place):
        found, end = _object(text, place)
        _ended(text, end)
        return [found]
    every = []
    place = _skipped(text, place + 1)
    while not text.startswith("]", place):
        found, end = _object(text, place)
        every.append(found)
        place = _skipped(text, end)
        if text.startswith(",", place):
            place = _skipped(text, place + 1)
            if text.startswith("]", place):
                raise ValueError("a comma without an object behind it")
        elif not text.startswith("]", place):
            raise ValueError(f"neither , nor ] at character {place}")
    _ended(text, place + 1)
    return every


def _object(text: str, place: int) -> tuple[str, int]:
    value, end = _JSON.raw_decode(text, place)
    if not isinstance(value, dict):
        raise ValueError(f"there is no object at character {place}")
    return text[place:end], end


def _ended(text: str, place: int) -> None:
    if text[place:].strip(_BLANK):
        raise ValueError(f"something follows at character {place}")


def _skipped(text: str, place: int) -> int:
    while place < len(text) and text[place] in _BLANK:
        place += 1
    return place


def ids(exchange: Exchange, count: int) -> tuple[list[str], bool]:
    """An id for each event of a request, and whether the sender gave it: `key`, or `key#0`, `key#1` ...."""
    key = next((found for name in KEYS if (found := exchange.headers.get(name))), None)
    if key is None:
        return [str(uuid.uuid4()) for _ in range(count)], False
    return [key] if count == 1 else [f"{key}#{number}" for number in range(count)], True
