"""Rows that are refused, as they appear in `system.errors`."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from tidegate.core.columns import SEQ
from tidegate.kernels.api import RowError


def refusals(
    relation: str, code: str, rows: pl.DataFrame, columns: Sequence[str], message: Callable[[Mapping[str, Any]], str]
) -> list[tuple[int, RowError]]:
    """One error per row, each with the row's place in the step; `message` says what is wrong with a row."""
    found = []
    for row in rows.sort(SEQ).iter_rows(named=True):
        text = json.dumps({name: plain(row[name]) for name in columns}, ensure_ascii=False)
        found.append((row[SEQ], RowError(relation, code, message(row), text)))
    return found


def in_order(found: Sequence[tuple[int, RowError]]) -> list[RowError]:
    """Errors as their rows came."""
    return [error for _, error in sorted(found, key=lambda item: item[0])]


def row_json(row: Mapping[str, Any]) -> str:
    """A row as JSON."""
    return json.dumps({name: plain(value) for name, value in row.items()}, ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value as JSON has it: dates and times in ISO form, decimals as text, bytes in hexadecimal."""
    match value:
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal() | datetime.timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
    return value


def shown(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Some columns of a row for a message: `id = 1, day = 2024-05-01`."""
    return ", ".join(f"{name} = {plain(row[name])}" for name in columns)
