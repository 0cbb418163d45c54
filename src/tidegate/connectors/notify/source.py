"""`FROM NOTIFY`: what a PostgreSQL database says with NOTIFY, as events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.connectors.base import Capture, CaptureContext, Captured, Position, SourceContext, SourceSpec
from tidegate.connectors.notify.capture import NotifyCapture
from tidegate.connectors.notify.options import ListenOptions, listen_options
from tidegate.connectors.postgres.events_only import refuse_columns
from tidegate.core.options import Bag
from tidegate.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class NotifySource:
    """Notifications from the moment on that it listens. PostgreSQL does not keep them: what is said while nobody
    listens is not heard."""

    spec: SourceSpec
    options: ListenOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> NotifySource:
        refuse_columns(spec, bag)
        return cls(spec, listen_options(bag))

    @property
    def bounded(self) -> bool:
        return True

    @property
    def captured(self) -> bool:
        return True

    @property
    def session(self) -> str:
        return f"NOTIFY {self.options.server.place} {self.spec.relation}"

    def capture(self, others: Sequence[Captured], context: CaptureContext) -> Capture:
        return NotifyCapture(self.spec.relation, self.options, context)

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        raise AssertionError("notifications are followed by the driver")

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        return {}

    def failure(self, text: str) -> Error | None:
        return None
