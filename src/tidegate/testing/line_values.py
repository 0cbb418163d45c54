"""What monotone expressions make of waterlines: Spark says it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidegate.core.types import Type, arrow_type
from tidegate.core.types import from_arrow as type_of
from tidegate.testing.batch import Batch, Job
from tidegate.testing.rows import of_arrow, to_arrow
from tidegate.testing.time.amounts import Number, Unknown, number, value


class LineValues:
    """Evaluates an expression over columns that stand at their waterlines; each answer is asked for once."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._known: dict[tuple[object, ...], Number | None] = {}

    def __call__(self, sql: str, given: Mapping[str, tuple[Number, Type]]) -> Number | None:
        key = (sql, tuple(given.items()))
        if key not in self._known:
            self._known[key] = self._asked(sql, given)
        return self._known[key]

    def _asked(self, sql: str, given: Mapping[str, tuple[Number, Type]]) -> Number | None:
        schema = pa.schema([pa.field(name, arrow_type(str(kind))) for name, (_, kind) in given.items()])
        try:
            row = [value(found, kind) for found, kind in given.values()]
        except OverflowError:
            raise Unknown("a waterline is out of the range of its type") from None
        [table] = self.batch.run([Job(f"SELECT {sql} AS line FROM __lines", {"__lines": to_arrow([row], schema)})])
        return number(of_arrow(table)[0][0], type_of(table.schema.field(0).type))
