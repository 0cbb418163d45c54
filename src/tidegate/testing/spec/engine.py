"""The engine under test: a database in a temporary folder, in virtual time, that can be restarted."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import tidegate
from tidegate.core.types import Type, from_arrow, parse_type
from tidegate.database import runtime_of
from tidegate.errors import Error
from tidegate.testing.oracle.inputs import DELETE, INSERT, TOMBSTONE, InputRow

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling expressions takes longer than a handful of rows."""


class Engine:
    """A database, and the operations that a spec needs."""

    def __init__(self, folder: Path, spark: Any, partitions: int = 1) -> None:
        self._folder = folder
        self._spark = spark
        self._config = {"spark.sql.shuffle.partitions": str(partitions), **INTERPRETED}
        self.db = self._connect()

    def _connect(self) -> tidegate.Database:
        return tidegate.connect(str(self._folder), spark=self._spark, config=self._config, clock="virtual")

    def restart(self) -> None:
        """Close the database and open it again."""
        self.db.close()
        self.db = self._connect()

    def close(self) -> None:
        self.db.close()

    def feed(self, rows: list[tuple[str, InputRow]], advances: list[tuple[str, Any]]) -> None:
        """Write rows, in order, and advance watermarks, all as one atomic input."""
        if not rows and not advances:
            return
        with self.db.batch() as batch:
            for (relation, action), group in groupby(rows, key=lambda item: (item[0], item[1].action)):
                write = {INSERT: batch.insert, DELETE: batch.delete, TOMBSTONE: batch.tombstone}[action]
                write(relation, [written.row for _, written in group])
            for column, value in advances:
                batch.advance(column, value)

    def step(self) -> range:
        """Run until idle; returns the micro-batches that ran."""
        return range(*_bounds(self.db.step().steps))

    def clock(self, micros: int) -> range:
        self.db.advance_clock(timedelta(microseconds=micros))
        return self.step()

    def end(self) -> range:
        self.db.end_inputs()
        return self.step()

    def columns(self, relation: str) -> tuple[tuple[str, Type], ...]:
        return tuple((column.name, parse_type(column.type)) for column in self.db.schema(relation))

    def key(self, view: str) -> tuple[str, ...] | None:
        """The columns that identify a row of the view, None if nothing does."""
        return runtime_of(self.db).catalog.value.get(view).key

    def changes(self, view: str, steps: range) -> list[Any]:
        """What the view emitted in these micro-batches."""
        return list(self.db.changes(view, from_step=steps.start, to_step=steps.stop - 1)) if steps else []

    def late(self, steps: range) -> list[tuple[str, str | None]]:
        """The relation of each row that was late in these micro-batches, and the view that dropped it."""
        log = runtime_of(self.db).log
        return [(row.relation or row.view or "", row.view) for step in steps for row in log.late(log.header(step))]

    def ask(self, query: str) -> tuple[tuple[Type, ...], list[tuple[Any, ...]]]:
        """The types and rows of an ad-hoc query, or of a statement that answers with rows."""
        table = self.db.sql(query).arrow()
        columns = [column.to_pylist() for column in table.columns]
        return tuple(from_arrow(field.type) for field in table.schema), list(zip(*columns, strict=True))

    def plan(self, view: str) -> str | None:
        """EXPLAIN of a view; None for other relations."""
        try:
            return str(self.db.explain(view, stage="circuit"))
        except Error:
            return None


def _bounds(steps: Any) -> tuple[int, int]:
    numbers = list(steps)
    return (min(numbers), max(numbers) + 1) if numbers else (0, 0)
