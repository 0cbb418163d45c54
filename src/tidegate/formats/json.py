"""JSON: read by Spark's `from_json`, written as `core/render.py` renders values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.core.render import json_objects
from tidegate.formats import fields
from tidegate.formats.contract import AFTER, BEFORE, FAULT, OP, ROW, VALUE, Change, Layout
from tidegate.formats.fields import Times
from tidegate.formats.keys import TextKeys
from tidegate.formats.malformed import (
    CORRUPT,
    TEXTS,
    UNREADABLE,
    Diagnosis,
    Parser,
    Suspect,
    faults_of,
    row_of,
    suspects_of,
    text_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TEXT = f"CAST({VALUE} AS STRING)"
SHOWN = f"make_valid_utf8({TEXT})"
_PARSED = "__parsed"
_BLANKS = r"' \n\r\t'"
_TORN = f"(NOT endswith({TEXT}, '}}') AND NOT endswith(rtrim({_BLANKS}, {TEXT}), '}}'))"
_MANY = rf"(contains({TEXT}, '\n') AND (contains({TEXT}, '}}\n{{') OR contains({TEXT}, '}}\r\n{{')))"
_UNREAD = f"{_PARSED} IS NULL OR {_PARSED}.{CORRUPT} IS NOT NULL OR {_TORN} OR {_MANY}"
_WHOLE_CHANGE = "not a Debezium envelope of {}"


@dataclass(frozen=True)
class JsonReader:
    """Reads JSON objects. Text after an object is an error; Spark's parser alone would ignore it."""

    layout: Layout
    times: Times
    record_key: TextKeys

    @property
    def raw(self) -> str:
        return SHOWN

    @property
    def parser(self) -> Parser:
        """Spark's parser, which converts dates in text itself."""
        pattern = self.times.date_format
        return Parser("from_json", {"dateFormat": pattern} if pattern else {})

    def keys(self) -> dict[str, str]:
        return self.record_key.values()

    def rows(self, frame: DataFrame) -> DataFrame:
        columns, times = self.layout.columns, self.times
        parsed = self.parser.parse(TEXT, fields.wire_fields(columns, times))
        texts = self.parser.parse(TEXT, text_fields(columns))
        frame = frame.selectExpr("*", f"{parsed} AS {_PARSED}")
        frame = frame.selectExpr("*", f"{fields.struct(_PARSED, columns, times)} AS {ROW}")
        faults = faults_of(_PARSED, ROW, columns, times)
        suspects = suspects_of(_PARSED, ROW, TEXTS, columns, times)
        return _diagnosis(texts, faults, suspects, row_of(columns)).add(frame, FAULT)

    def changes(self, frame: DataFrame) -> DataFrame:
        columns, times = self.layout.columns, self.times
        parsed = self.parser.parse(TEXT, _envelope(fields.wire_fields(columns, times)))
        texts = self.parser.parse(TEXT, _envelope(text_fields(columns)))
        frame = frame.selectExpr("*", f"{parsed} AS {_PARSED}")
        read = {name: _unwrapped(_PARSED, name) for name in ("before", "after", "op")}
        frame = frame.selectExpr("*", *(f"{value} AS __read_{name}" for name, value in read.items()))
        sides = {
            column: f"IF(__read_{name} IS NULL, NULL, {fields.struct(f'__read_{name}', columns, times)})"
            for name, column in (("before", BEFORE), ("after", AFTER))
        }
        frame = frame.selectExpr("*", f"__read_op AS {OP}", *(f"{side} AS {column}" for column, side in sides.items()))
        suspects, faults = [], []
        for name, column, label in (("after", AFTER, ""), ("before", BEFORE, "before.")):
            source = f"__read_{name}"
            faults += faults_of(source, column, columns, times)
            suspects += suspects_of(source, column, _text_of_side(name), columns, times, label)
        whole = _WHOLE_CHANGE.format(row_of(columns).removeprefix("not a row of "))
        return _diagnosis(texts, faults, suspects, whole).add(frame, FAULT)


def _diagnosis(texts: str, faults: list[str], suspects: list[Suspect], whole: str) -> Diagnosis:
    bad = f"{VALUE} IS NOT NULL AND ({' OR '.join([_UNREAD, *faults])})"
    shapes = [(f"{UNREADABLE} OR {_TORN}", "not a JSON object"), (_MANY, "more than one JSON object")]
    return Diagnosis(bad, texts, shapes, suspects, whole)


def _envelope(row: str) -> str:
    """Fields of an envelope, and of one that Connect's converter wrapped in `payload`."""
    envelope = f"before STRUCT<{row}>, after STRUCT<{row}>, op STRING"
    return f"{envelope}, payload STRUCT<{envelope}>"


def _unwrapped(parsed: str, name: str) -> str:
    """As `debezium.unwrapped` does it: a payload is read instead of the record around it."""
    return f"IF({parsed}.payload IS NULL, {parsed}.{name}, {parsed}.payload.{name})"


def _text_of_side(name: str) -> str:
    """The same for the diagnosis, which parses the text wherever this mentions it, so as few times as possible."""
    return f"coalesce({TEXTS}.payload.{name}, {TEXTS}.{name})"


@dataclass(frozen=True)
class JsonWriter:
    """Rows as JSON objects."""

    def rows(self, rows: pa.Table) -> list[bytes]:
        return [text.encode() for text in json_objects(rows)]

    def changes(self, rows: pa.Table, changes: Sequence[Change]) -> list[bytes]:
        texts = [*json_objects(rows), "null"]
        return [
            (
                f'{{"before":{texts[_index(change.before)]},"after":{texts[_index(change.after)]},'
                f'"source":{{"step":{change.step}}},"op":"{change.op}"}}'
            ).encode()
            for change in changes
        ]

    def tagged(self, rows: pa.Table, ops: Sequence[str], weights: Sequence[int], steps: Sequence[int]) -> list[bytes]:
        changes = zip(ops, weights, steps, json_objects(rows), strict=True)
        return [f'{{"op":"{op}","weight":{n},"step":{step},"row":{row}}}'.encode() for op, n, step, row in changes]


def _index(row: int | None) -> int:
    """The index of a row's text; the last text is `null`."""
    return -1 if row is None else row
