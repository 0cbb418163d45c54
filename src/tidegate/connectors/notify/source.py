"""`FROM NOTIFY`: what a PostgreSQL database says with NOTIFY, as events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, SourceSpec
from tidegate.connectors.notify.capture import NotifyCapture
from tidegate.connectors.notify.options import ListenOptions, listen_options
from tidegate.connectors.postgres.events_only import refuse_columns
from tidegate.core.options import Bag


@dataclass(frozen=True)
class NotifySource(CapturedSource):
    """Notifications from the moment on that it listens. PostgreSQL does not keep them: what is said while nobody
    listens is not heard."""

    options: ListenOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> NotifySource:
        refuse_columns(spec, bag)
        return cls(spec, listen_options(bag))

    @property
    def session(self) -> str:
        return f"NOTIFY {self.options.server.place} {self.spec.relation}"

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return NotifyCapture(self.spec.relation, self.options, context)
