"""LATE DATA TO: late rows of a view are inserted into a table."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.circuit.model import Circuit
from tidegate.core.columns import WEIGHT
from tidegate.core.types import nullable_schema
from tidegate.spark.processing_clock import ProcessingClock
from tidegate.spark.recorder import Late
from tidegate.storage.insert_log import EntryHeader, InsertLog
from tidegate.storage.step_log import StepLog


class LateTables:
    """Inserts late rows through the insert log."""

    def __init__(self, log: StepLog, inserts: InsertLog, clock: ProcessingClock) -> None:
        self._log, self._inserts, self._clock = log, inserts, clock

    def insert(self, circuit: Circuit, step: int, late: Late) -> None:
        """Append the late rows of a step to the insert log, for the tables that its views name; once per step."""
        tables = dict(circuit.late_to)
        parts = [
            (tables[view], _each(rows.filter(pl.col(WEIGHT) > 0)).to_arrow(), 1)
            for record, rows in late
            for view in record["views"]
            if view in tables
        ]
        columns = {item.relation: nullable_schema(item.columns) for item in circuit.inputs}
        inserted = [
            (table, rows.rename_columns(columns[table].names).cast(columns[table]), 1) for table, rows, _ in parts
        ]
        inserted = [part for part in inserted if part[1].num_rows]
        if inserted and not self._inserted_before(step):
            self._inserts.append(inserted, EntryHeader(late_of=step))
            self._clock.release_own()

    def _inserted_before(self, step: int) -> bool:
        """True if an earlier run of this step has appended them."""
        first = max(self._log.header(step).entry, self._inserts.first())
        return any(self._inserts.header(number).late_of == step for number in range(first, self._inserts.head()))


def _each(rows: pl.DataFrame) -> pl.DataFrame:
    """Every row as often as its weight says."""
    return rows[np.repeat(np.arange(rows.height), rows[WEIGHT].to_numpy())].drop(WEIGHT)
