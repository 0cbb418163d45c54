"""A server that receives events by HTTP POST and answers when they are in the insert log."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, Intake
from tidegate.connectors.http import cors_headers
from tidegate.connectors.webhook.requests import check_origin, ids, payloads, preflight
from tidegate.core.http_messages import HttpRequest, json_response
from tidegate.core.http_server import HttpServer
from tidegate.errors import make
from tidegate.formats.events import Event, rows_of

if TYPE_CHECKING:
    from tidegate.connectors.webhook.source import WebhookSource

CHECK_SECONDS = 1.0
SHORT_BODY = 1 << 16
"""Shorter bodies are parsed in the event loop: handing them to a thread would cost more."""

RECENT = 1000
"""The number of ids remembered per source, as short digests: they are part of the source's position."""


@dataclass
class _Posted:
    """Events of one request on their way to the insert log."""

    relation: str
    events: list[Event]
    keyed: bool
    done: bool = False
    new_count: int = 0
    recorded: bool = False


class WebhookCapture(Capture):
    """Serves from the first `catch_up` or `follow` until the intake is stopped. Requests that arrive while others are
    being written are written together, so that many at once cost little more than one."""

    def __init__(self, sources: Sequence[WebhookSource], context: CaptureContext) -> None:
        self._context = context
        self._sources = {source.options.path: source for source in sources}
        if len(self._sources) < len(sources):
            raise _same_path(sources)
        self._server: HttpServer | None = None
        self._intake: Intake | None = None
        self._recent: dict[str, dict[str, None]] = {}
        self._waiting: list[_Posted] = []
        self._failure: Exception | None = None
        self._guard, self._turn = threading.Lock(), threading.Lock()
        self._writing = asyncio.Lock()
        self._counts = {"requests": 0, "events": 0, "duplicates": 0, "refused": 0}

    @property
    def port(self) -> int | None:
        """The port it listens on, None while it is closed."""
        return None if self._server is None else self._server.port

    def catch_up(self, intake: Intake) -> None:
        """Start to serve. There is no backlog: senders repeat requests that were not accepted."""
        with self._turn:
            self._check()
            if intake is not self._intake:
                self._intake = intake
                self._recent = {name: dict.fromkeys(digests) for name, digests in _recent(intake.position).items()}
            if self._server is None:
                options = next(iter(self._sources.values())).options
                self._writing = asyncio.Lock()
                self._server = HttpServer(options.host, options.port, self._respond)

    def follow(self, intake: Intake) -> None:
        self.catch_up(intake)
        while not intake.stopped.wait(CHECK_SECONDS):
            with self._turn:
                self._check()
        self.close()

    def drop_remote_state(self) -> None:
        """Stop serving."""
        self.close()

    def close(self) -> None:
        with self._turn:
            server, self._server, self._intake = self._server, None, None
        if server is not None:
            server.close()

    def metrics(self) -> Mapping[str, float]:
        with self._guard:
            return {f"webhook_{name}_total": float(count) for name, count in self._counts.items()}

    def _check(self) -> None:
        """Raise the failure of a write: the senders were answered with it, the user should see it as well."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _respond(self, request: HttpRequest) -> Response:
        if request.route == "/health":
            request.require_method("GET", "HEAD")
            return json_response(200, {"status": "ok"})
        source = self._sources.get(request.route)
        if source is None:
            raise HTTPException(404, f"nothing is taken at {request.route}")
        if request.method == "OPTIONS" and source.options.cors is not None:
            return preflight(source.options)
        cors = cors_headers(source.options.cors)
        try:
            posted = await self._posted(source, request)
            await self._record(posted)
        except HTTPException as refusal:
            self._count(requests=1, refused=1)
            refusal.headers = {**(refusal.headers or {}), **cors}
            raise
        again = len(posted.events) - posted.new_count
        self._count(requests=1, events=posted.new_count, duplicates=again)
        return json_response(200, {"taken": posted.new_count, "duplicates": again}, cors)

    async def _posted(self, source: WebhookSource, request: HttpRequest) -> _Posted:
        request.require_method("POST")
        check_origin(request, source.options)
        body = await request.read_body(source.options.max_body)
        if len(body) < SHORT_BODY:
            objects = payloads(request, body, source.options)
        else:
            objects = await asyncio.to_thread(payloads, request, body, source.options)
        event_ids, keyed = ids(request, len(objects))
        now, relation = self._context.now(), source.spec.relation
        events = [
            Event(id, source.channel, "INSERT", payload, relation, now)
            for id, payload in zip(event_ids, objects, strict=True)
        ]
        return _Posted(relation, events, keyed)

    async def _record(self, posted: _Posted) -> None:
        """Return when the events of a request are in the insert log, written alone or with others that wait."""
        self._waiting.append(posted)
        async with self._writing:
            if not posted.done:
                together, self._waiting = self._waiting, []
                await asyncio.to_thread(self._append, together)
        if not posted.recorded:
            raise HTTPException(503, "the events are not on record: send them again", {"Retry-After": "1"})

    def _append(self, together: Sequence[_Posted]) -> None:
        with self._turn:
            recorded = self._write(together)
        for posted in together:
            posted.done, posted.recorded = True, recorded

    def _write(self, together: Sequence[_Posted]) -> bool:
        recent = {name: dict(digests) for name, digests in self._recent.items()}
        new = [event for posted in together for event in _new_events(posted, recent)]
        if self._intake is None or self._intake.stopped.is_set():
            return False
        try:
            if new:
                position = {"recent": {name: list(digests) for name, digests in recent.items()}}
                self._intake.append([(BUS, rows_of(new), 1)], position)
        except Exception as failure:
            self._failure = failure
            return False
        self._recent = recent
        return True

    def _count(self, **more: int) -> None:
        with self._guard:
            for name, count in more.items():
                self._counts[name] += count


def _new_events(posted: _Posted, recent: dict[str, dict[str, None]]) -> list[Event]:
    """Return the events of a request without those received before, and remember their ids."""
    ids = recent.setdefault(posted.relation, {})
    new = [event for event in posted.events if not (posted.keyed and digest(event.id) in ids)]
    posted.new_count = len(new)
    if posted.keyed:
        ids.update(dict.fromkeys(digest(event.id) for event in new))
        for old in list(ids)[:-RECENT]:
            del ids[old]
    return new


def digest(id: str) -> str:
    return hashlib.blake2b(id.encode(), digest_size=8).hexdigest()


def _recent(position: Any) -> Mapping[str, list[str]]:
    recent: Mapping[str, list[str]] = (position or {}).get("recent", {})
    return recent


def _same_path(sources: Sequence[WebhookSource]) -> Exception:
    paths = [source.options.path for source in sources]
    path = next(path for path in paths if paths.count(path) > 1)
    both = " and ".join(source.spec.relation for source in sources if source.options.path == path)
    return make(
        "INVALID_OPTION",
        message=f"{both} both wait for events at {path}",
        hint="give each a path, or a port, of its own",
    )
