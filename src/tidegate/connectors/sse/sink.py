"""`INTO SSE`: an HTTP server that streams every event, or every change of a view, to its clients."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.http import cors_headers
from tidegate.connectors.rows import messages
from tidegate.connectors.sse.hub import EventId, Hub, Item
from tidegate.connectors.sse.options import StreamOptions
from tidegate.connectors.sse.stream import ClientStream
from tidegate.core.durable import LastStep
from tidegate.core.globs import LONGEST, Globs, split_patterns
from tidegate.core.http_messages import PLAIN, HttpRequest, json_response
from tidegate.core.http_pages import reject_pages, require_own_name
from tidegate.core.http_server import HttpServer
from tidegate.core.options import Bag

SPARE = 64
"""Connections beside those of clients: for requests that are rejected, and for /health."""

_STREAM = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "Connection": "close",
}
_PREFLIGHT = {
    "Content-Type": PLAIN,
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Authorization, Last-Event-ID, Cache-Control",
    "Access-Control-Max-Age": "86400",
}


@dataclass
class SseSink(Sink):
    """A step is applied when clients can read it. No client delays the sink: each reads new events from memory and
    older ones from the step log, at its own pace."""

    options: StreamOptions
    _opened: _Opened | None = field(default=None, init=False)

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> SseSink:
        return cls(spec, StreamOptions.take(bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("changelog")

    @property
    def port(self) -> int | None:
        """The port it listens on, None while it is closed."""
        return None if self._opened is None else self._opened.server.port

    def open(self, context: SinkContext) -> None:
        self.close()
        self._opened = _Opened(self.spec, self.options, context)

    def write(self, step: int, changes: pa.Table) -> None:
        assert self._opened is not None
        last = self._opened.last
        if last.step is not None and step <= last.step:
            return
        new = items(self.spec, step, changes)
        last.keep(step)
        self._opened.hub.publish(new)

    def last_step(self) -> int | None:
        return None if self._opened is None else self._opened.last.step

    def close(self) -> None:
        if self._opened is not None:
            self._opened.hub.close()
            self._opened.server.close()
            self._opened = None


class _Opened:
    """The state of an open sink."""

    def __init__(self, spec: SinkSpec, options: StreamOptions, context: SinkContext) -> None:
        self._spec, self._options, self._context = spec, options, context
        self.last = LastStep(context.folder, context.owner)
        self.hub = Hub(options.keep, EventId.end_of(self.last.step or 0))
        self._clients = 0
        self.server = HttpServer(options.host, options.port, self._respond, options.max_clients + SPARE)

    async def _respond(self, request: HttpRequest) -> Response:
        if request.route == "/health":
            request.require_method("GET", "HEAD")
            return json_response(200, {"status": "ok", "step": self.last.step})
        if request.route != self._options.path:
            raise HTTPException(404, f"events are at {self._options.path}")
        request.require_method("GET", "OPTIONS")
        if request.method == "OPTIONS":
            return Response("", 200, self._cors(_PREFLIGHT))
        self._check_reader(request)
        if self._clients >= self._options.max_clients:
            raise HTTPException(503, "too many clients", self._cors({"Retry-After": "5"}))
        return self._stream(request)

    def _check_reader(self, request: HttpRequest) -> None:
        """Without a token, whoever can connect may read, except pages in browsers that `cors` does not name."""
        if self._options.token is not None:
            self._authorize(request)
            return
        reject_pages(request, self._options.cors, "read")
        if self._options.cors is None:
            require_own_name(request, self._options.host)

    def _authorize(self, request: HttpRequest) -> None:
        token = self._options.token
        authorization = request.headers.get("Authorization", "")
        if token is not None and not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            raise HTTPException(401, "a bearer token is needed", self._cors({"WWW-Authenticate": "Bearer"}))

    def _stream(self, request: HttpRequest) -> Response:
        position, selected = self._position(request), self._selected(request)
        client = ClientStream(self.hub, self._replay, self._options.heartbeat, selected, position)
        return _EventStream(self, client, self._cors(_STREAM))

    def _position(self, request: HttpRequest) -> EventId:
        """Return the id of the last event that the client has, or that `after` in the query names; else the newest."""
        text = request.headers.get("Last-Event-ID") or request.parameter("after")
        if not text:
            return self.hub.last
        id = EventId.parse(text)
        if id is None:
            raise HTTPException(400, f"an event id is like 12-0, not {text[:80]}", self._cors({}))
        return id

    def _selected(self, request: HttpRequest) -> Globs | None:
        channels = request.parameter("channels")
        if channels is not None and not self._spec.events:
            raise HTTPException(400, "only events of the bus have channels", self._cors({}))
        if channels is None:
            return None
        try:
            return Globs(split_patterns(channels))
        except ValueError:
            raise HTTPException(400, f"channels has at most {LONGEST} characters", self._cors({})) from None

    def _replay(self, after: int) -> Iterator[tuple[int, Sequence[Item]]]:
        for step, changes in self._context.replay(after):
            yield step, items(self._spec, step, changes)

    def _cors(self, headers: dict[str, str]) -> dict[str, str]:
        return {**headers, **cors_headers(self._options.cors)}

    def count_client(self, change: int) -> None:
        self._clients += change


class _EventStream(StreamingResponse):
    """An endless response that counts as a client while it lasts."""

    def __init__(self, opened: _Opened, client: ClientStream, headers: dict[str, str]) -> None:
        super().__init__(client.pieces(), 200, headers)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._opened.count_client(+1)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.count_client(-1)


def items(spec: SinkSpec, step: int, changes: pa.Table) -> list[Item]:
    """Return the events of a step, each with its id."""
    return [Item(EventId(step, number), name, text) for number, (name, text) in enumerate(messages(spec, changes))]
