"""LATENESS on the columns of a keyed table: what comes too late to change it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import TableSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import State, Table
from tidegate.kernels.frames import aligned, nonempty
from tidegate.kernels.lines import Lines, all_pass, filed_below, filed_by, passes
from tidegate.kernels.state.search import Mask
from tidegate.kernels.weights import there


class Lateness:
    """A change is late if its row is below a line, or the row that it would replace or delete is. Where a line is on a
    column of the key, no change can reach the rows below it any more: they are filed by it, and forgotten."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec, self._columns = spec, list(spec.columns)
        self._by_key = [test for test in spec.lateness if test.column in spec.key]

    def filed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the number they are filed under."""
        return rows.with_columns(filed_by(rows[self._by_key[0].column], rows[HASH])) if self._by_key else rows

    def below(self, rows: pl.DataFrame, lines: Lines, tests: Sequence[WatermarkTest] | None = None) -> Mask:
        """Which rows are below any line."""
        found = np.zeros(rows.height, dtype=np.bool_)
        for test in self._spec.lateness if tests is None else tests:
            found |= passes(test, rows, lines).to_numpy()
        return found

    def parted(self, rows: pl.DataFrame, table: Table, lines: Lines) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Changes that are in time, and those that are late. A row that is kept in this step is above all lines, so the
        one that was there before the step decides for all changes of its key."""
        places, found = table.match(rows)
        frozen = there(rows.height, places[self.below(found, lines)])
        inserts, dated = (rows[WEIGHT] > 0).to_numpy(), self.below(rows, lines, self._by_key)
        late = frozen | dated | (inserts & self.below(rows, lines))
        if not late.any():
            return rows, None
        old = aligned(rows.height, places, found.select(self._columns))
        as_stored = frozen & ~inserts & ~dated
        parts = [old.with_columns(rows[WEIGHT]).filter(pl.Series(as_stored))]
        parts.append(rows.select(*self._columns, WEIGHT).filter(pl.Series(late & ~as_stored)))
        return rows.filter(pl.Series(~late)), nonempty(pl.concat(parts))

    def forget(self, lines: Lines, state: State) -> int:
        """Drops the rows that are below a line of the key."""
        table = state.stored("rows", self._spec.key) if self._by_key else None
        limit = filed_below(lines.get(self._by_key[0].watermark)) if self._by_key else None
        if table is None or limit is None:
            return 0
        near = table.between(None, limit)
        over = near.filter(all_pass(self._by_key[:1], near, lines))
        if over.height:
            table.write(None, over, -over.height)
        return over.height
