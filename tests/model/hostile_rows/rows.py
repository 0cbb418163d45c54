"""Random rows whose values functions fail for: odd patterns, zones, charsets, bytes, bounds of types, large values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

COLUMNS = {
    "s": "STRING",
    "r": "STRING",
    "n": "INT",
    "k": "BIGINT",
    "d": "DOUBLE",
    "c": "DECIMAL(20,4)",
    "b": "BINARY",
    "f": "BOOLEAN",
    "t": "TIMESTAMP",
    "u": "TIMESTAMP_NTZ",
    "e": "DATE",
    "a": "ARRAY<INT>",
    "g": "ARRAY<STRING>",
    "m": "MAP<STRING,INT>",
    "o": "STRUCT<p:STRING,q:INT>",
}
_TEXTS = (
    *("", "a", "0", "-1", "NaN", "1e400", "9" * 500, "\u0000", "\U0001f600" * 50, "x" * 17),
    *("(", "[", "*", "\\", "(a+)+$", "ab" * 4_000),
    *("%", "%s%d%n", "%2000000000d", "yyyy-MM-dd", "YYYY", "bbbb", "2024-13-45", "9999-12-31 23:59:59", "P1Y"),
    *("UTC", "Mars/Base", "+99:99", "utf-8", "UTF-99", "gzip", "AES"),
    *("{", '{"a":', "$.a[", "SELECT", "https://[::1", "-----"),
)
_TIMES = (
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 10),
    dt.datetime(2024, 2, 29),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
)
_VALUES: dict[str, tuple[Any, ...]] = {
    "STRING": _TEXTS,
    "INT": (0, -1, 1, 2, 36, 37, 65, 1_000_000, 100_000_000, 2**31 - 1, -(2**31)),
    "BIGINT": (0, -1, 1, 2**40, 2**63 - 1, -(2**63)),
    "DOUBLE": (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, -1.5),
    "DECIMAL(20,4)": tuple(
        Decimal(text) for text in ("0", "9999999999999999.9999", "-9999999999999999.9999", "0.0001")
    ),
    "BINARY": (b"", b"\xff\xfe", b"\x00" * 16, b"abc", b"\x80" * 10_000),
    "BOOLEAN": (True, False),
    "TIMESTAMP": tuple(each.replace(tzinfo=dt.UTC) for each in _TIMES),
    "TIMESTAMP_NTZ": _TIMES,
    "DATE": tuple(each.date() for each in _TIMES),
    "ARRAY<INT>": ([], [None], [0], [2**31 - 1, -(2**31)], list(range(1000))),
    "ARRAY<STRING>": ([], [None], ["("], ["\u0000", "a"], ["a"] * 1000),
    "MAP<STRING,INT>": ({}, {"a": None}, {"": 1}, {"k": 2**31 - 1}),
    "STRUCT<p:STRING,q:INT>": ({"p": None, "q": None}, {"p": "(", "q": 0}, {"p": "\u0000", "q": -1}),
}


def random_row(number: int, random: Random) -> dict[str, Any]:
    """A row with this id. An eighth of the values is NULL."""
    values = {name: random.choice(_VALUES[type]) for name, type in COLUMNS.items()}
    return {"id": number, **{name: None if random.random() < 0.125 else value for name, value in values.items()}}
