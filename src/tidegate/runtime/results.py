"""What the engine hands to users: results of statements, changes of views, reports of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from tidegate.core.render import text_cells
from tidegate.core.tables import text_table
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
        return text_table(self.table)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*map(text_cells, self.table.columns), strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
