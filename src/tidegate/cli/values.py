"""Values as text: for tables that people read, and for JSON that programs read."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any


def shown(value: Any) -> str:
    """A value in a table: `NULL`, `true`, `2024-05-01 12:00:03.25`."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return _clock(value)
        case bytes():
            return value.hex()
        case float():
            return repr(value)
        case dict() | list() | tuple():
            return compact(value)
        case _:
            return str(value)


def plain(value: Any) -> Any:
    """A value that `json.dumps` takes: times in RFC 3339, decimals and what JSON cannot say as text."""
    match value:
        case dt.datetime():
            return _clock(value).replace(" ", "T") + "Z"
        case dt.date():
            return value.isoformat()
        case Decimal() | dt.timedelta():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def compact(value: Any) -> str:
    """JSON without blanks."""
    import json

    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))


def _clock(value: dt.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    text = value.isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text
