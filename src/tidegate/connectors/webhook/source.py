"""`FROM WEBHOOK`: requests that others post become events of the bus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, SourceSpec
from tidegate.connectors.webhook.capture import WebhookCapture
from tidegate.connectors.webhook.options import ReceiveOptions
from tidegate.core.options import Bag
from tidegate.errors import make


@dataclass(frozen=True)
class WebhookSource(CapturedSource):
    """Sources on the same port share a server; each has its own path."""

    options: ReceiveOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> WebhookSource:
        if spec.columns:
            raise make(
                "NOT_SUPPORTED",
                message="FROM WEBHOOK feeds the bus pgcdc_events, so it has no columns of its own",
                hint=f"write CREATE SOURCE {spec.relation} FROM WEBHOOK (...), and SELECT payload.field from the bus",
                span=bag.span,
            )
        return cls(spec, ReceiveOptions.take(bag))

    @property
    def channel(self) -> str:
        return self.options.channel or f"webhook:{self.spec.relation}"

    @property
    def session(self) -> str:
        """Port 0 is a different free port for each source."""
        own = f" {self.spec.relation}" if self.options.port == 0 else ""
        return f"webhook {self.options.host}:{self.options.port}{own}"

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return WebhookCapture([self, *(one for one in others if isinstance(one, WebhookSource))], context)
