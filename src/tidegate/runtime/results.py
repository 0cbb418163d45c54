"""What the engine hands to users: results of statements, changes of views, reports of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from tidegate.errors import Warning_

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Result:
    """The rows a statement gave: none for most, those of a query for SELECT, SHOW, DESCRIBE, EXPLAIN."""

    table: pa.Table = field(default_factory=lambda: pa.table({}))
    warnings: tuple[Warning_, ...] = ()
    message: str = ""

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        columns = [column.to_pylist() for column in self.table.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def arrow(self) -> pa.Table:
        return self.table

    def polars(self) -> pl.DataFrame:
        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def pandas(self) -> pandas.DataFrame:
        return self.table.to_pandas()

    def show(self) -> None:
        """Prints the rows as a table."""
        print(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        if not self.columns:
            return self.message
        return text_table(self.columns, [[shown(value) for value in row] for row in self.rows()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(shown(value))}</td>" for value in row) + "</tr>" for row in self.rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "isoformat"):
        return str(value).removesuffix("+00:00")
    return str(value)


def text_table(columns: list[str], rows: list[list[str]]) -> str:
    """Rows in aligned columns under a rule."""
    widths = [max([len(name), *(len(row[index]) for row in rows)]) for index, name in enumerate(columns)]
    lines = [" | ".join(name.ljust(width) for name, width in zip(columns, widths, strict=True)).rstrip()]
    lines.append("-+-".join("-" * width for width in widths))
    lines += [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


@dataclass(frozen=True)
class Change:
    """One change of a view: `op` is +I, -U, +U or -D; `weight` how many such rows came (+) or went (-)."""

    op: str
    weight: int
    step: int
    row: dict[str, Any]


@dataclass(frozen=True)
class StepReport:
    """What a call of `step` did: the micro-batches it ran, and what went in and came out of them."""

    steps: range
    rows_in: dict[str, int]
    rows_out: dict[str, int]
    late: int
    errors: int
