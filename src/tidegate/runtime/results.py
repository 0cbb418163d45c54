"""What users receive: results of statements, changes of views, reports of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.core.render import text_cells
from tidegate.core.tables import text_table
from tidegate.core.zset import frame_of
from tidegate.errors import Warning_

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame  # type: ignore[import-untyped]
    from polars import DataFrame as PolarsFrame


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

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that no `fetchone` or `fetchall` has returned yet."""
        return list(self._unread)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last one."""
        return next(self._unread, None)

    @cached_property
    def _unread(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def polars(self) -> PolarsFrame:
        """The rows as a Polars frame."""
        return frame_of(self.table)

    def pl(self) -> PolarsFrame:
        """The rows as a Polars frame, as `polars`."""
        return self.polars()

    def pandas(self) -> PandasFrame:
        """The rows as a pandas frame."""
        return self.table.to_pandas()

    def df(self) -> PandasFrame:
        """The rows as a pandas frame, as `pandas`."""
        return self.pandas()

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
