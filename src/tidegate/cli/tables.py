"""Rows as text in aligned columns, numbers to the right; the same on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from tidegate.cli.values import shown


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """
    item | total
    -----+------
    pen  |    30
    (1 row)
    """
    values = [list(row) for row in rows]
    cells = [[_one_line(shown(value)) for value in row] for row in values]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    right = [any(_is_number(row[i]) for row in values) for i in range(len(columns))]
    lines = [_line(columns, widths, [False] * len(columns)), "-+-".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    return "\n".join([*lines, f"({counted(len(cells), 'row')})"])


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return " | ".join(padded).rstrip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in text else text
