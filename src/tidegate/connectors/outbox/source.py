"""`FROM OUTBOX`: rows that an application puts into a table for others, as events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.connectors.base import Capture, CaptureContext, Captured, Position, SourceContext, SourceSpec
from tidegate.connectors.outbox.capture import OutboxCapture
from tidegate.connectors.outbox.options import OutboxOptions, outbox_options
from tidegate.connectors.postgres.events_only import refuse_columns
from tidegate.core.options import Bag
from tidegate.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class OutboxSource:
    """Each row of the table is one event, exactly once; then the row is deleted, or marked."""

    spec: SourceSpec
    options: OutboxOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> OutboxSource:
        refuse_columns(spec, bag)
        return cls(spec, outbox_options(bag))

    @property
    def bounded(self) -> bool:
        return True

    @property
    def captured(self) -> bool:
        return True

    @property
    def session(self) -> str:
        return f"OUTBOX {self.options.server.place} {self.spec.relation}"

    def capture(self, others: Sequence[Captured], context: CaptureContext) -> Capture:
        return OutboxCapture(self.spec.relation, self.options, context)

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        raise AssertionError("an outbox is followed by the driver")

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        return {}

    def failure(self, text: str) -> Error | None:
        return None
