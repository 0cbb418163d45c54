"""Rows as text in aligned columns, numbers to the right; the same on a terminal, in a file and in Python."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.core.render import text_cells


def text_table(table: pa.Table) -> str:
    """
    item | total
    -----+------
    pen  |    30
    (1 row)
    """
    columns = [[_one_line(cell) for cell in text_cells(column)] for column in table.columns]
    widths = [max(map(len, [name, *cells])) for name, cells in zip(table.column_names, columns, strict=True)]
    right = [_is_number(field.type) for field in table.schema]
    lines = [_line(table.column_names, widths, [False] * len(widths)), "-+-".join("-" * width for width in widths)]
    lines += [_line(cells, widths, right) for cells in zip(*columns, strict=True)]
    return "\n".join([*lines, f"({counted(table.num_rows, 'row')})"])


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return " | ".join(padded).rstrip()


def _is_number(type_: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in tests)


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in text else text
