"""Columns as the text that COPY reads, made a column at a time."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.postgres.sink_types import Field
from tidegate.core.render import json_cells

BATCH = 20_000
NULL = "\\N"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def copied(rows: pa.Table, fields: Sequence[Field]) -> Iterator[bytes]:
    """The rows as lines, in pieces."""
    for start in range(0, rows.num_rows, BATCH):
        piece = rows.slice(start, BATCH).combine_chunks()
        cells = [_cells(column, field) for column, field in zip(piece.columns, fields, strict=True)]
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*cells, "\t"), "", "\n")
        yield "".join(lines.to_pylist()).encode()


def _cells(column: pa.ChunkedArray[Any], field: Field) -> Any:
    texts = written(column, field.declared)
    if not _plain(column.type):
        for sign, escaped in _ESCAPES:
            texts = pc.replace_substring(texts, sign, escaped)
    return pc.fill_null(texts, NULL)


def _plain(type_: pa.DataType) -> bool:
    """Whether no value has a sign that COPY takes for something else."""
    types = pa.types
    return not (types.is_string(type_) or types.is_binary(type_) or types.is_nested(type_))


def written(column: Any, declared: str) -> Any:
    """A column's values as PostgreSQL reads them, NULL where there is none."""
    types, type_ = pa.types, column.type
    if declared == "jsonb":
        return _where_there(column, _json(column))
    if types.is_timestamp(type_):
        clock = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.binary_join_element_wise(clock, "+00" if type_.tz else "", "")
    if types.is_binary(type_):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    if types.is_duration(type_):
        return pa.array([None if value is None else _interval(value) for value in column.to_pylist()], pa.string())
    if isinstance(type_, pa.ListType):
        return pa.array(_arrays(column, declared.removesuffix("[]")), pa.string())
    return column.cast(pa.string())


def _where_there(column: Any, texts: list[str]) -> Any:
    return pc.if_else(column.is_valid(), pa.array(texts, pa.string()), pa.scalar(None, pa.string()))


def _json(column: Any) -> list[str]:
    """Text that is JSON as it is, other text as a text in JSON."""
    if pa.types.is_string(column.type):
        return [_said(text) for text in column.to_pylist()]
    return json_cells(column)


def _said(text: str | None) -> str:
    try:
        json.loads(text or "")
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text or ""


def _interval(value: dt.timedelta) -> str:
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


def _arrays(column: Any, element: str) -> Iterator[str | None]:
    """`{1,NULL,"a b"}`: the elements of all arrays are written as one column."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = iter(written(array.flatten(), element).to_pylist())
    for length in pc.list_value_length(array).to_pylist():
        yield None if length is None else "{" + ",".join(_quoted(next(texts)) for _ in range(length)) + "}"


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
