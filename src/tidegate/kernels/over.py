"""Rows that no change can reach any more: filed so that those below a line lie together, and forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import State
from tidegate.kernels.lines import Lines, all_pass, filed_below, filed_by


def filed(rows: pl.DataFrame, tests: Sequence[WatermarkTest]) -> pl.DataFrame:
    """Rows with the number they are filed under: by the column of the first test, if there is one."""
    return rows.with_columns(filed_by(rows[tests[0].column], rows[HASH])) if tests else rows


def forget(
    name: str, ident: Sequence[str], tests: Sequence[WatermarkTest], lines: Lines, state: State
) -> pl.DataFrame | None:
    """Takes the rows that pass all tests out of a table; what they were, if there were any."""
    limit = filed_below(lines.get(tests[0].watermark)) if tests else None
    table = state.stored(name, ident) if limit is not None else None
    if table is None or limit is None:
        return None
    near = table.between(None, limit)
    ended = near.filter(all_pass(tests, near, lines))
    if ended.is_empty():
        return None
    table.write(None, ended, -ended.height)
    return ended
