"""Data types: one tree, parsed from Spark's names, with the Arrow and Polars types that hold its values.

Arrow types are those of Spark's own conversion, with timestamps in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.core.quoting import identifier
from tidegate.core.schema import Schema
from tidegate.errors import make

INTEGRAL = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATING = frozenset({"float", "double"})
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
    "varchar": "string",
    "char": "string",
}
_SIMPLE: dict[str, tuple[pa.DataType, pl.DataType]] = {
    "void": (pa.null(), pl.Null()),
    "boolean": (pa.bool_(), pl.Boolean()),
    "tinyint": (pa.int8(), pl.Int8()),
    "smallint": (pa.int16(), pl.Int16()),
    "int": (pa.int32(), pl.Int32()),
    "bigint": (pa.int64(), pl.Int64()),
    "float": (pa.float32(), pl.Float32()),
    "double": (pa.float64(), pl.Float64()),
    "string": (pa.string(), pl.String()),
    "binary": (pa.binary(), pl.Binary()),
    "date": (pa.date32(), pl.Date()),
    "time": (pa.time64("ns"), pl.Time()),
    "timestamp": (pa.timestamp("us", tz="UTC"), pl.Datetime("us", "UTC")),
    "timestamp_ntz": (pa.timestamp("us"), pl.Datetime("us")),
    "interval day to second": (pa.duration("us"), pl.Duration("us")),
}
_OF_ARROW = {
    **{arrow: name for name, (arrow, _) in _SIMPLE.items()},
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z0-9_]+|'(?:[^'\\]|\\.)*'|\S)")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


@dataclass(frozen=True)
class Type:
    """A data type: `array<int>` is Type("array", (Type("int"),)). A struct has `fields`, a decimal has `digits`.

    Lengths of CHAR and VARCHAR and collations are dropped, since they do not change how values are stored. A name that
    is not known is a type without Arrow and Polars types.
    """

    name: str
    inner: tuple[Type, ...] = ()
    fields: tuple[str, ...] = ()
    digits: tuple[int, int] = (10, 0)
    required: frozenset[str] = field(default=frozenset(), compare=False)
    """The fields of a struct that are NOT NULL. Types are equal without them."""

    def __str__(self) -> str:
        return self.render()

    def render(self, upper: bool = False) -> str:
        """Spark's name of the type. Names of fields keep their case."""
        word = self.name.upper() if upper and self.is_stored else self.name
        inner = [each.render(upper) for each in self.inner]
        match self.name:
            case "decimal":
                return f"{word}({self.digits[0]},{self.digits[1]})"
            case "struct":
                inner = [f"{_field_name(name)}:{kind}" for name, kind in zip(self.fields, inner, strict=True)]
            case "array" | "map":
                pass
            case _:
                return word
        return f"{word}<{','.join(inner)}>"

    @property
    def stored_as(self) -> str:
        """The simple type that holds the values: `interval hour` and `time(3)` are stored like their longest forms."""
        if _DAY_TIME.fullmatch(self.name):
            return "interval day to second"
        return "time" if self.name.startswith("time(") else self.name

    @property
    def is_stored(self) -> bool:
        """True if values can be stored, as far as it depends on the type without those inside of it."""
        return bool(self.inner) or self.name == "decimal" or self.stored_as in _SIMPLE


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """The type of a Spark name such as `array<struct<a:bigint>>`."""
    tokens = _Tokens(text)
    parsed = _type(tokens)
    if tokens.peek():
        raise cannot_store(text)
    return parsed


@lru_cache(maxsize=4096)
def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a Spark name: `array<struct<a:bigint>>` -> list of struct of int64."""
    try:
        return to_arrow(parse_type(name))
    except KeyError:
        raise cannot_store(name) from None


@lru_cache(maxsize=4096)
def polars_type(name: str) -> pl.DataType:
    """The Polars type of a Spark name; a map is a list of its entries.

    >>> polars_type("array<decimal(10,2)>")
    List(Decimal(precision=10, scale=2))
    """
    try:
        return to_polars(parse_type(name))
    except KeyError:
        raise cannot_store(name) from None


def to_arrow(kind: Type) -> pa.DataType:
    """The Arrow type. Raises KeyError if there is none."""
    inner = [to_arrow(each) for each in kind.inner]
    match kind.name:
        case "decimal":
            return pa.decimal128(*kind.digits)
        case "array":
            return pa.list_(pa.field("element", inner[0]))
        case "map":
            return pa.map_(pa.field("key", inner[0], nullable=False), pa.field("value", inner[1]))
        case "struct":
            fields = zip(kind.fields, inner, strict=True)
            return pa.struct([pa.field(name, each, nullable=name not in kind.required) for name, each in fields])
    return _SIMPLE[kind.stored_as][0]


def to_polars(kind: Type) -> pl.DataType:
    """The Polars type. Raises KeyError if there is none."""
    inner = [to_polars(each) for each in kind.inner]
    match kind.name:
        case "decimal":
            return pl.Decimal(*kind.digits)
        case "array":
            return pl.List(inner[0])
        case "map":
            return pl.List(pl.Struct({"key": inner[0], "value": inner[1]}))
        case "struct":
            return pl.Struct(dict(zip(kind.fields, inner, strict=True)))
    return _SIMPLE[kind.stored_as][1]


def from_arrow(arrow: pa.DataType) -> Type:
    """The type whose values an Arrow column holds."""
    if pa.types.is_decimal(arrow):
        return Type("decimal", digits=(arrow.precision, arrow.scale))
    if pa.types.is_map(arrow):
        return Type("map", (from_arrow(arrow.key_type), from_arrow(arrow.item_type)))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return Type("array", (from_arrow(arrow.value_type),))
    if isinstance(arrow, pa.StructType):
        inner = tuple(from_arrow(each.type) for each in arrow.fields)
        required = frozenset(each.name for each in arrow.fields if not each.nullable)
        return Type("struct", inner, tuple(each.name for each in arrow.fields), required=required)
    if pa.types.is_timestamp(arrow):
        return Type("timestamp" if arrow.tz else "timestamp_ntz")
    return Type(_OF_ARROW.get(arrow, str(arrow)))


def spark_name(arrow: pa.DataType) -> str:
    """Spark's name of an Arrow type in capitals: int64 -> BIGINT."""
    return from_arrow(arrow).render(upper=True)


def name_from_json(document: Any) -> str:
    """Spark's name of a type, from the JSON that Spark prints for it."""
    if isinstance(document, str):
        return _ALIASES.get(document, document)
    match document["type"]:
        case "array":
            return f"array<{name_from_json(document['elementType'])}>"
        case "map":
            return f"map<{name_from_json(document['keyType'])},{name_from_json(document['valueType'])}>"
        case "struct":
            fields = (f"{_field_name(each['name'])}:{name_from_json(each['type'])}" for each in document["fields"])
            return f"struct<{','.join(fields)}>"
        case other:
            return name_from_json(other)


def decimal_parts(name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other type."""
    parsed = parse_type(name)
    return parsed.digits if parsed.name == "decimal" else None


def not_stored(name: str) -> str | None:
    """The part of a type that rows cannot store, None if they can store all of it: `array<variant>` -> variant."""
    return next((part.name for part in parts(parse_type(name)) if not part.is_stored), None)


def without_void(name: str) -> str:
    """The type with text in place of Spark's void, the type of NULL: `array<void>` -> array<string>."""
    kind = parse_type(name)
    return str(_without_void(kind)) if any(part.name == "void" for part in parts(kind)) else name


def _without_void(kind: Type) -> Type:
    inner = tuple(_without_void(each) for each in kind.inner)
    return replace(kind, name="string" if kind.name == "void" else kind.name, inner=inner)


def parts(kind: Type) -> Iterator[Type]:
    """The type and all types inside of it."""
    yield kind
    for inner in kind.inner:
        yield from parts(inner)


def has_map(name: str) -> bool:
    """True if values of a type are or contain maps, which have no order and no hash."""
    return any(part.name == "map" for part in parts(parse_type(name)))


def arrow_schema(columns: Schema) -> pa.Schema:
    """The columns of a relation as Arrow fields."""
    return pa.schema([pa.field(each.name, arrow_type(each.type), nullable=each.nullable) for each in columns])


def nullable_schema(columns: Schema) -> pa.Schema:
    """Columns as Arrow fields that may all be NULL: NOT NULL is a promise of a relation, not of its rows in flight."""
    return pa.schema([pa.field(each.name, arrow_type(each.type)) for each in columns])


def cannot_store(name: str) -> Exception:
    """The error for a type that has no Arrow or Polars type."""
    return make(
        "NOT_SUPPORTED",
        message=f"columns of type {name} cannot be stored",
        hint="numbers, text, binary, dates, times, timestamps, day-time intervals, arrays, maps and structs can",
    )


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
        if not token:
            raise cannot_store(self.text)
        self._at += 1
        return token

    def skip(self, word: str) -> bool:
        if self.peek().lower() != word:
            return False
        self._at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.skip(word):
            raise cannot_store(self.text)


def _type(tokens: _Tokens) -> Type:
    word = tokens.next().lower()
    word = _ALIASES.get(word, word)
    match word:
        case "array":
            return Type("array", tuple(_inner(tokens, 1)))
        case "map":
            return Type("map", tuple(_inner(tokens, 2)))
        case "struct":
            return _struct(tokens)
        case "decimal":
            precision, scale = (*_numbers(tokens), 0)[:2] if tokens.peek() == "(" else (10, 0)
            return Type("decimal", digits=(precision, scale))
        case "interval":
            return Type(_interval(tokens))
        case "string":
            _numbers(tokens)
            if tokens.skip("collate"):
                tokens.next()
            return Type("string")
    if not _PLAIN_NAME.fullmatch(word):
        raise cannot_store(tokens.text)
    numbers = _numbers(tokens)
    return Type(f"{word}({','.join(map(str, numbers))})" if numbers else word)


def _inner(tokens: _Tokens, count: int) -> Iterator[Type]:
    for index in range(count):
        tokens.expect("," if index else "<")
        yield _type(tokens)
    tokens.expect(">")


def _struct(tokens: _Tokens) -> Type:
    names, inner, required = [], [], set()
    tokens.expect("<")
    while not tokens.skip(">"):
        name = tokens.next()
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        tokens.skip(":")
        names.append(name)
        inner.append(_type(tokens))
        if tokens.skip("not"):
            tokens.expect("null")
            required.add(name)
        if tokens.skip("comment"):
            tokens.next()
        if tokens.peek() != ">":
            tokens.expect(",")
    return Type("struct", tuple(inner), tuple(names), required=frozenset(required))


def _numbers(tokens: _Tokens) -> tuple[int, ...]:
    """`(10,2)`, `(10)` or nothing."""
    if not tokens.skip("("):
        return ()
    words = [tokens.next()]
    while tokens.skip(","):
        words.append(tokens.next())
    tokens.expect(")")
    if not all(each.isdigit() for each in words):
        raise cannot_store(tokens.text)
    return tuple(map(int, words))


def _interval(tokens: _Tokens) -> str:
    words = ["interval"]
    while _PLAIN_NAME.fullmatch(tokens.peek()) and tokens.peek().lower() not in ("not", "comment"):
        words.append(tokens.next().lower())
    return " ".join(words)


def _field_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else identifier(name)
