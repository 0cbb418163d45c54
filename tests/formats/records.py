"""Helpers that decode records in one Spark job, encode changes, and generate values of every type."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_type
from tidegate.formats.contract import Decoder, Encoder, Layout
from tidegate.formats.names import decoder, encoder

Record = tuple[bytes | str | None, bytes | str | None]

TRADES: Schema = (Column("id", "bigint"), Column("name", "string"), Column("qty", "int"))
EVERYTHING: Schema = (
    Column("id", "bigint"),
    Column("yes", "boolean"),
    Column("i8", "tinyint"),
    Column("i16", "smallint"),
    Column("i32", "int"),
    Column("f32", "float"),
    Column("f64", "double"),
    Column("money", "decimal(12,3)"),
    Column("word", "string"),
    Column("bytes", "binary"),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("local", "timestamp_ntz"),
    Column("items", "array<int>"),
    Column("times", "array<timestamp>"),
    Column("named", "map<string,double>"),
    Column("numbered", "map<int,timestamp_ntz>"),
    Column("inner", "struct<a:int,b:string,c:struct<d:decimal(5,1),e:date>>"),
)


def bag(**options: str) -> Bag:
    return Bag("kafka", [(key.replace("__", "."), value, None) for key, value in options.items()])


def reading(columns: Schema, format: str | None = None, primary: Sequence[str] = (), **options: str) -> Decoder:
    options_bag = bag(**options)
    created = decoder(Layout("trades", columns, tuple(primary)), format, options_bag, keyed=bool(primary))
    options_bag.finish()
    return created


def writing(columns: Schema, format: str | None = None, primary: Sequence[str] = (), **options: str) -> Encoder:
    options_bag = bag(**options)
    created = encoder(Layout("trades", columns, tuple(primary)), format, options_bag)
    options_bag.finish()
    return created


def rows(spark: SparkSession, decoder: Decoder, records: Sequence[Record]) -> list[Row]:
    """The rows of the records, in order."""
    data = [(place, _bytes(key), _bytes(value)) for place, (key, value) in enumerate(records)]
    frame = decoder.rows(spark.createDataFrame(data, "place int, __key binary, __value binary"))
    columns = frame.columns
    assert columns[0] == "place" and columns[-4:] == ["__w", "__row_of_record", "__error", "__raw"]
    return sorted(frame.collect(), key=lambda row: (row["place"], row["__row_of_record"]))


def summarize(rows: Sequence[Row], columns: Schema = TRADES) -> list[tuple[Any, ...]]:
    """Each row as (record number, weight, values ...) or (record number, error)."""
    return [
        (row["place"], row["__error"])
        if row["__error"] is not None
        else (row["place"], row["__w"], *(row[c.name] for c in columns))
        for row in rows
    ]


def changes(columns: Schema, *rows: tuple[Any, ...], step: int = 7) -> pa.Table:
    """The changes of a step from rows (op, values ...); a number before the op is the weight."""
    plain = [row if isinstance(row[0], int) else (-1 if row[0][0] == "-" else 1, *row) for row in rows]
    arrays = [pa.array([row[1] for row in plain], pa.string()), pa.array([row[0] for row in plain], pa.int64())]
    arrays.append(pa.array([step] * len(plain), pa.int64()))
    arrays += [pa.array([row[2 + i] for row in plain], arrow_type(c.type)) for i, c in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=["op", "weight", "step", *(c.name for c in columns)])


def same(one: Any, other: Any) -> bool:
    """Equality in which NaN equals NaN, a map equals its entries, and time zones are ignored."""
    match one, other:
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
        case dt.datetime(), dt.datetime():
            return one.replace(tzinfo=None) == other.replace(tzinfo=None)
        case (dict(), _) | (_, dict()):
            return same(_entries(one), _entries(other))
        case (list() | tuple(), list() | tuple()):
            return len(one) == len(other) and all(map(same, one, other))
        case (bytes() | bytearray(), bytes() | bytearray()):
            return bytes(one) == bytes(other)
    return bool(one == other)


def _entries(value: Any) -> list[Any]:
    entries = value.asDict().items() if isinstance(value, Row) else value.items() if isinstance(value, dict) else value
    return sorted((list(entry) for entry in entries), key=lambda entry: str(entry[0]))


def without_rows(value: Any) -> Any:
    """Spark's rows as dicts, at any depth."""
    if isinstance(value, Row):
        return {name: without_rows(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {key: without_rows(item) for key, item in value.items()}
    return [without_rows(item) for item in value] if isinstance(value, list) else value


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_TIMES = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_SINGLE = st.floats(width=32)


def _decimals(digits: int, places: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-places))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def values() -> list[st.SearchStrategy[Any]]:
    """A strategy for each column of EVERYTHING but the first."""
    utc = _TIMES.map(lambda time: time.replace(tzinfo=dt.UTC))
    inner = st.fixed_dictionaries({"d": maybe(_decimals(5, 1)), "e": maybe(st.dates(dt.date(1, 1, 1)))})
    return [
        st.booleans(),
        st.integers(-(2**7), 2**7 - 1),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        _SINGLE,
        st.floats(),
        _decimals(12, 3),
        _WORDS,
        st.binary(max_size=9),
        st.dates(dt.date(1, 1, 1)),
        utc,
        _TIMES,
        st.lists(maybe(st.integers(-(2**31), 2**31 - 1)), max_size=3),
        st.lists(maybe(utc), max_size=3),
        st.dictionaries(_WORDS, maybe(st.floats()), max_size=3).map(lambda d: list(d.items())),
        st.dictionaries(st.integers(-(2**31), 2**31 - 1), maybe(_TIMES), max_size=3).map(lambda d: list(d.items())),
        st.fixed_dictionaries({"a": maybe(st.integers(0, 9)), "b": maybe(_WORDS), "c": maybe(inner)}),
    ]


def everything(size: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Rows of EVERYTHING with ids from 0."""
    row = st.tuples(*map(maybe, values()))
    return st.lists(row, min_size=size, max_size=size).map(lambda rows: [(i, *row) for i, row in enumerate(rows)])
