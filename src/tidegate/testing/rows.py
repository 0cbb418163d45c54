"""Rows of Python values as Arrow tables, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.testing.spec.values import pairs


def to_arrow(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table with these columns."""
    arrays = [
        pa.array([_arrow_value(row[place], field.type) for row in rows], type=field.type)
        for place, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def of_arrow(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    return pairs(value) if value is not None and pa.types.is_map(kind) else value
