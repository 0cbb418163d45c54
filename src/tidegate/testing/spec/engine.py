"""The engine under test: a database in a temporary folder, in virtual time, that can be restarted at will."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import tidegate
from tidegate.core.types import Type, from_arrow, parse_type
from tidegate.database import runtime_of
from tidegate.errors import Error
from tidegate.testing.inputs import DELETE, INSERT, TOMBSTONE, Given

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Compiling expressions takes longer than a handful of rows."""


class Engine:
    """A database and what a spec does with it."""

    def __init__(self, folder: Path, spark: Any, partitions: int = 1) -> None:
        self._folder = folder
        self._spark = spark
        self._config = {"spark.sql.shuffle.partitions": str(partitions), **INTERPRETED}
        self.db = self._connect()

    def _connect(self) -> tidegate.Database:
        return tidegate.connect(str(self._folder), spark=self._spark, config=self._config, clock="virtual")

    def restart(self) -> None:
        """Ends the engine and begins a fresh one on the same folder."""
        self.db.close()
        self.db = self._connect()

    def close(self) -> None:
        self.db.close()

    def feed(self, rows: list[tuple[str, Given]], advances: list[tuple[str, Any]]) -> None:
        """Everything is one atomic input; rows keep their order."""
        if not rows and not advances:
            return
        with self.db.batch() as batch:
            for (relation, action), group in groupby(rows, key=lambda one: (one[0], one[1].action)):
                give = {INSERT: batch.insert, DELETE: batch.delete, TOMBSTONE: batch.tombstone}[action]
                give(relation, [given.row for _, given in group])
            for place, value in advances:
                batch.advance(place, value)

    def step(self) -> range:
        """Runs until idle; the micro-batches that ran."""
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
        """What left the view in these micro-batches."""
        return list(self.db.changes(view, from_step=steps.start, to_step=steps.stop - 1)) if steps else []

    def ask(self, query: str) -> tuple[tuple[Type, ...], list[tuple[Any, ...]]]:
        """The types and rows of an ad-hoc query, or of a statement that answers with rows."""
        table = self.db.sql(query).arrow()
        columns = [column.to_pylist() for column in table.columns]
        return tuple(from_arrow(one.type) for one in table.schema), list(zip(*columns, strict=True))

    def plan(self, view: str) -> str | None:
        """EXPLAIN of a view; a relation that has none has no plan."""
        try:
            return str(self.db.explain(view, stage="circuit"))
        except Error:
            return None


def _bounds(steps: Any) -> tuple[int, int]:
    numbers = list(steps)
    return (min(numbers), max(numbers) + 1) if numbers else (0, 0)
