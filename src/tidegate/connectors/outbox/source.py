"""`FROM OUTBOX`: rows that an application puts into a table for others, as events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, SourceSpec
from tidegate.connectors.outbox.capture import OutboxCapture
from tidegate.connectors.outbox.options import OutboxOptions, outbox_options
from tidegate.connectors.postgres.events_only import refuse_columns
from tidegate.core.options import Bag


@dataclass(frozen=True)
class OutboxSource(CapturedSource):
    """Each row of the table is one event, exactly once; then the row is deleted, or marked."""

    options: OutboxOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> OutboxSource:
        refuse_columns(spec, bag)
        return cls(spec, outbox_options(bag))

    @property
    def session(self) -> str:
        return f"OUTBOX {self.options.server.place} {self.spec.relation}"

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return OutboxCapture(self.spec.relation, self.options, context)
