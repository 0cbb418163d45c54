"""Arrow types of Spark types, as Spark itself maps them, with timestamps in UTC; and Spark's names of Arrow types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from tidegate.core.schema import Schema
from tidegate.errors import make

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("ns"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.time64("ns"): "TIME",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
    pa.null(): "VOID",
}

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z0-9_]+|'(?:[^'\\]|\\.)*'|\S)")


@lru_cache(maxsize=4096)
def arrow_type(spark_type: str) -> pa.DataType:
    """`array<struct<a:bigint>>` -> list of struct of int64, as Spark's own Arrow conversion has it."""
    tokens = _Tokens(spark_type)
    found = _type(tokens)
    if tokens.peek():
        raise _unknown(spark_type)
    return found


def arrow_schema(columns: Schema) -> pa.Schema:
    """The columns of a relation as Arrow fields."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in columns])


def spark_name(found: pa.DataType) -> str:
    """Spark's name of an Arrow type in capitals: int64 -> BIGINT."""
    if pa.types.is_decimal(found):
        return f"DECIMAL({found.precision},{found.scale})"
    if pa.types.is_map(found):
        return f"MAP<{spark_name(found.key_type)},{spark_name(found.item_type)}>"
    if pa.types.is_struct(found):
        return f"STRUCT<{','.join(f'{f.name}:{spark_name(f.type)}' for f in found.fields)}>"
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return f"ARRAY<{spark_name(found.value_type)}>"
    return _NAMES.get(found, str(found))


class _Tokens:
    """The words and signs of a type's text, read one by one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._all = _TOKEN.findall(text)
        self._at = 0

    def peek(self) -> str:
        return self._all[self._at] if self._at < len(self._all) else ""

    def next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def skip(self, word: str) -> bool:
        if self.peek().lower() != word:
            return False
        self._at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.skip(word):
            raise _unknown(self.text)


def _type(tokens: _Tokens) -> pa.DataType:
    word = tokens.next().lower()
    match word:
        case "array":
            return _array(tokens)
        case "map":
            return _map(tokens)
        case "struct":
            return pa.struct(list(_fields(tokens)))
        case "decimal" | "dec" | "numeric":
            precision, scale = _numbers(tokens, (10, 0))
            return pa.decimal128(precision, scale)
        case "interval":
            return _interval(tokens)
    if word not in _SIMPLE:
        raise _unknown(tokens.text)
    _numbers(tokens, (0, 0))
    if word == "string" and tokens.skip("collate"):
        tokens.next()
    return _SIMPLE[word]


def _array(tokens: _Tokens) -> pa.DataType:
    tokens.expect("<")
    element = _type(tokens)
    tokens.expect(">")
    return pa.list_(pa.field("element", element, nullable=True))


def _map(tokens: _Tokens) -> pa.DataType:
    tokens.expect("<")
    key = _type(tokens)
    tokens.expect(",")
    value = _type(tokens)
    tokens.expect(">")
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value, nullable=True))


def _fields(tokens: _Tokens) -> Iterator[pa.Field[pa.DataType]]:
    tokens.expect("<")
    while not tokens.skip(">"):
        name = tokens.next()
        tokens.skip(":")
        found = _type(tokens)
        required = tokens.skip("not")
        if required:
            tokens.expect("null")
        if tokens.skip("comment"):
            tokens.next()
        yield pa.field(name[1:-1].replace("``", "`") if name.startswith("`") else name, found, nullable=not required)
        if tokens.peek() != ">":
            tokens.expect(",")


def _numbers(tokens: _Tokens, default: tuple[int, int]) -> tuple[int, int]:
    """`(10,2)`, `(10)` or nothing."""
    if not tokens.skip("("):
        return default
    first, second = int(tokens.next()), 0
    if tokens.skip(","):
        second = int(tokens.next())
    tokens.expect(")")
    return first, second


def _interval(tokens: _Tokens) -> pa.DataType:
    """Day-time intervals of any extent are durations; year-month intervals have no Arrow type in Spark."""
    units = {"day", "hour", "minute", "second"}
    if tokens.next().lower() not in units:
        raise _unknown(tokens.text)
    if tokens.skip("to") and tokens.next().lower() not in units:
        raise _unknown(tokens.text)
    return pa.duration("us")


def _unknown(spark_type: str) -> Exception:
    return make(
        "NOT_SUPPORTED",
        message=f"columns of type {spark_type} cannot be stored",
        hint="numbers, text, binary, dates, times, timestamps, day-time intervals, arrays, maps and structs can",
    )
