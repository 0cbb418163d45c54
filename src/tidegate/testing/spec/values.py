"""The cells of a spec file: splits a line into cells, and converts cells to values of their column's type and back."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from tidegate.core import render
from tidegate.core.types import FLOATING, INTEGRAL, Type

DAY = "2020-01-01"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPS = ("+I", "-U", "+U", "-D", "+", "-")
_FLOATS = {"nan": "nan", "infinity": "inf", "-infinity": "-inf", "inf": "inf", "-inf": "-inf"}


def split(text: str) -> tuple[str, ...]:
    """Splits a line at `|`: `a | 'x | y' | {"k": "v | w"}` has three cells. Quoted cells keep their quotes."""
    cells, position = [], 0
    while True:
        end = _end_of_cell(text, position)
        cells.append(text[position:end].strip())
        if end >= len(text):
            return tuple(cells)
        position = end + 1


def split_op(text: str) -> tuple[str, str]:
    """`+I a | 1` is the op `+I` and the rest; without an op, the op is empty."""
    for op in OPS:
        if text == op or text.startswith(op + " "):
            return op, text[len(op) :].strip()
    return "", text


def split_delete(text: str) -> tuple[str, str]:
    """`- a | 1` deletes; `-1 | a` is a row with a negative number."""
    return ("-", text[2:].strip()) if text.startswith("- ") else ("", text)


def split_tombstone(text: str) -> tuple[bool, str]:
    """`a !` is a tombstone of the key `a`."""
    return (True, text[:-2].strip()) if text.endswith(" !") else (False, text)


def _end_of_cell(text: str, start: int) -> int:
    first = len(text) - len(text[start:].lstrip())
    quote = {"'": "'", "{": '"', "[": '"'}.get(text[first : first + 1])
    if quote is None:
        end = text.find("|", start)
        return len(text) if end < 0 else end
    inside = escaped = False
    for position in range(first, len(text)):
        letter = text[position]
        if escaped:
            escaped = False
        elif letter == "\\" and quote == '"' and inside:
            escaped = True
        elif letter == quote:
            inside = not inside
        elif letter == "|" and not inside:
            return position
    return len(text)


class JsonText(str):
    """A string written as JSON: equal to any string with the same JSON value."""


class WrongValue(ValueError):
    """A cell that cannot be parsed as its column's type."""

    def __init__(self, text: str, kind: Type) -> None:
        super().__init__(f"{text} is not a value of type {str(kind).upper()}")


def parse(cell: str, kind: Type) -> Any:
    """The value of a cell in a column of this type."""
    if cell == "NULL":
        return None
    quoted = len(cell) >= 2 and cell.startswith("'") and cell.endswith("'")
    text = cell[1:-1].replace("''", "'") if quoted else cell
    try:
        return _of_text(text, kind, quoted)
    except (ValueError, ArithmeticError, KeyError, TypeError) as problem:
        raise WrongValue(cell, kind) from problem


def _of_text(text: str, kind: Type, quoted: bool) -> Any:
    if kind.name in INTEGRAL:
        return int(text)
    if kind.name in FLOATING:
        return _float(text, kind)
    match kind.name:
        case "boolean":
            return {"true": True, "false": False}[text.lower()]
        case "decimal":
            return _decimal(text)
        case "timestamp":
            return _timestamp(text)
        case "timestamp_ntz":
            return _timestamp(text).replace(tzinfo=None)
        case "date":
            return date.fromisoformat(text)
        case "binary":
            return bytes.fromhex(text.removeprefix("0x"))
        case "array" | "struct" | "map":
            return _of_json(json.loads(text, parse_float=Decimal), kind)
        case _:
            return JsonText(text) if not quoted and _is_json(text) else text


def _of_json(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    match kind.name:
        case "array":
            return [_of_json(item, kind.inner[0]) for item in value]
        case "struct":
            fields = zip(kind.fields, kind.inner, strict=True)
            return {name: _of_json(value.get(name), inner) for name, inner in fields}
        case "map":
            key, item = kind.inner
            return {_of_text(name, key, True): _of_json(one, item) for name, one in value.items()}
        case "boolean":
            return bool(value)
        case _:
            return _of_text(str(value), kind, True)


def _float(text: str, kind: Type) -> float:
    value = float(_FLOATS.get(text.lower(), text))
    return float(struct.unpack("f", struct.pack("f", value))[0]) if kind.name == "float" else value


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as problem:
        raise ValueError(text) from problem


def _timestamp(text: str) -> datetime:
    """`2024-05-01 12:00:03.250`, `12:00:03` on the first day of virtual time, or `@1500` in epoch milliseconds."""
    if text.startswith("@"):
        return EPOCH + timedelta(milliseconds=float(text[1:]))
    value = datetime.fromisoformat(f"{DAY} {text}" if text[2:3] == ":" else text)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _is_json(text: str) -> bool:
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def show(value: Any, kind: Type) -> str:
    """A value as a spec file would write it."""
    if value is None:
        return "NULL"
    match kind.name:
        case "boolean":
            return str(value).lower()
        case "timestamp" | "timestamp_ntz":
            return show_time(value)
        case "binary":
            return bytes(value).hex()
        case "array" | "struct" | "map":
            return json.dumps(_plain(value, kind), ensure_ascii=False)
        case "float" | "double":
            return repr(float(value))
        case "string":
            return _show_text(str(value))
        case _:
            return str(value)


def show_time(value: datetime) -> str:
    """A timestamp without the date if it is the first day of virtual time: `12:00:03`."""
    return render.text(value).removeprefix(DAY + " ")


def _show_text(text: str) -> str:
    plain = text.replace("\n", "\\n")
    if _is_json(plain):
        return plain
    odd = not plain or plain != plain.strip() or "|" in plain or plain == "NULL" or plain[0] in "'#{["
    return "'" + plain.replace("'", "''") + "'" if odd or plain.endswith(" !") else plain


def _plain(value: Any, kind: Type) -> Any:
    """A nested value as a JSON value."""
    if value is None:
        return None
    match kind.name:
        case "array":
            return [_plain(item, kind.inner[0]) for item in value]
        case "struct":
            fields = zip(kind.fields, members(value, kind), kind.inner, strict=True)
            return {name: _plain(one, inner) for name, one, inner in fields}
        case "map":
            key, item = kind.inner
            return {show(one, key).strip("'"): _plain(other, item) for one, other in pairs(value)}
        case "boolean" | "tinyint" | "smallint" | "int" | "bigint" | "float" | "double":
            return value
        case "decimal":
            return float(value)
        case "timestamp" | "timestamp_ntz":
            return show_time(value)
        case _:
            return str(value)


def members(value: Any, kind: Type) -> list[Any]:
    """The fields of a struct in order, whatever Python shape the struct has."""
    return [value[name] for name in kind.fields] if isinstance(value, dict) else list(value)


def pairs(value: Any) -> list[tuple[Any, Any]]:
    """The entries of a map, whatever Python shape the map has."""
    return list(value.items()) if isinstance(value, dict) else [(key, item) for key, item in value]
