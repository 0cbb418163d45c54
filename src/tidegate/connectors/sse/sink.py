"""`INTO SSE`: an HTTP server that streams every event, or every change of a view, to whoever connects."""

from __future__ import annotations

import hmac
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.http import Exchange, HttpServer, Refusal
from tidegate.connectors.sse.hub import Hub, Item, Place
from tidegate.connectors.sse.options import StreamOptions, stream_options
from tidegate.connectors.sse.stream import ClientStream, pattern
from tidegate.connectors.webhook.messages import messages
from tidegate.core.durable import LastStep
from tidegate.core.options import Bag

_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Authorization, Last-Event-ID, Cache-Control",
    "Access-Control-Max-Age": "86400",
}


@dataclass
class SseSink(Sink):
    """A step is applied when clients can see it. None of them holds up the sink: each reads for itself, what is new
    from memory, what is older from the step log."""

    options: StreamOptions
    _opened: _Opened | None = field(default=None, init=False)

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> SseSink:
        return cls(spec, stream_options(bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("changelog")

    @property
    def port(self) -> int | None:
        """The port it listens on, None while it does not."""
        return None if self._opened is None else self._opened.server.port

    def open(self, context: SinkContext) -> None:
        self.close()
        self._opened = _Opened(self.spec, self.options, context)

    def write(self, step: int, changes: pa.Table) -> None:
        assert self._opened is not None
        last = self._opened.last
        if last.step is not None and step <= last.step:
            return
        found = items(self.spec, step, changes)
        last.keep(step)
        self._opened.hub.publish(found)

    def last_step(self) -> int | None:
        return None if self._opened is None else self._opened.last.step

    def close(self) -> None:
        if self._opened is not None:
            self._opened.hub.close()
            self._opened.server.close()
            self._opened = None


class _Opened:
    """What a sink has while it is open."""

    def __init__(self, spec: SinkSpec, options: StreamOptions, context: SinkContext) -> None:
        self._spec, self._options, self._context = spec, options, context
        self.last = LastStep(context.folder, context.owner)
        self.hub = Hub(options.keep, Place.behind(self.last.step or 0))
        self._places = threading.BoundedSemaphore(options.max_clients)
        self.server = HttpServer(options.host, options.port, self._respond)

    def _respond(self, exchange: Exchange) -> None:
        if exchange.route == "/health":
            exchange.only("GET", "HEAD")
            exchange.answer_json(200, {"status": "ok", "step": self.last.step})
            return
        if exchange.route != self._options.path:
            raise Refusal(404, f"events are at {self._options.path}")
        exchange.only("GET", "OPTIONS")
        if exchange.command == "OPTIONS":
            exchange.answer(200, "", headers=self._cors(_PREFLIGHT))
            return
        self._authorize(exchange)
        if not self._places.acquire(blocking=False):
            raise Refusal(503, "too many clients", self._cors({"Retry-After": "5"}))
        try:
            self._stream(exchange)
        finally:
            self._places.release()

    def _authorize(self, exchange: Exchange) -> None:
        token = self._options.token
        said = exchange.headers.get("Authorization", "")
        if token is not None and not hmac.compare_digest(said.encode(), f"Bearer {token}".encode()):
            raise Refusal(401, "a bearer token is needed", self._cors({"WWW-Authenticate": "Bearer"}))

    def _stream(self, exchange: Exchange) -> None:
        place, wanted = self._place(exchange), self._wanted(exchange)
        client = ClientStream(self.hub, self._replay, self._options.heartbeat, wanted, place)
        exchange.close_connection = True
        exchange.begin(200, self._cors(_STREAM))
        for piece in client.pieces():
            exchange.wfile.write(piece.encode())

    def _place(self, exchange: Exchange) -> Place:
        """Behind the last event that the client has, or that `after` in the query names; else behind all."""
        said = exchange.headers.get("Last-Event-ID") or exchange.parameter("after")
        if not said:
            return self.hub.last
        place = Place.parse(said)
        if place is None:
            raise Refusal(400, f"an event id is like 12-0, not {said[:80]}", self._cors({}))
        return place

    def _wanted(self, exchange: Exchange) -> re.Pattern[str] | None:
        channels = exchange.parameter("channels")
        if channels is not None and not self._spec.events:
            raise Refusal(400, "only events of the bus have channels", self._cors({}))
        return None if channels is None else pattern(channels)

    def _replay(self, after: int) -> Iterator[tuple[int, Sequence[Item]]]:
        for step, changes in self._context.replay(after):
            yield step, items(self._spec, step, changes)

    def _cors(self, headers: dict[str, str]) -> dict[str, str]:
        if self._options.cors is None:
            return headers
        return {**headers, "Access-Control-Allow-Origin": self._options.cors, "Vary": "Origin"}


def items(spec: SinkSpec, step: int, changes: pa.Table) -> list[Item]:
    """The events of a step, each with its place."""
    return [Item(Place(step, number), name, text) for number, (name, text) in enumerate(messages(spec, changes))]
