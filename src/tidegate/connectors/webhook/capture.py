"""A server that takes events by HTTP POST: answered when they are on record."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, Intake
from tidegate.connectors.http import Exchange, HttpServer, Refusal
from tidegate.connectors.webhook.requests import ids, payloads
from tidegate.errors import make
from tidegate.formats.events import Event, rows_of

if TYPE_CHECKING:
    from tidegate.connectors.webhook.source import WebhookSource

CHECK_SECONDS = 1.0
RECENT = 1000
"""So many ids of each source are remembered, as short digests: they are on record with all events that follow."""


@dataclass
class _Posted:
    """Events of one request on their way to the record."""

    relation: str
    events: list[Event]
    keyed: bool
    done: bool = False
    taken: int = 0
    recorded: bool = False


class WebhookCapture(Capture):
    """Serves from the first `catch_up` or `follow` until the intake is stopped. Requests that come while others are
    being put on record go together, so that many at once cost little more than one."""

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
        self._counts = {"requests": 0, "events": 0, "duplicates": 0, "refused": 0}

    @property
    def port(self) -> int | None:
        """The port it listens on, None while it does not."""
        return None if self._server is None else self._server.port

    def catch_up(self, intake: Intake) -> None:
        """Nothing waits elsewhere: senders send again what was not taken. From now on it is."""
        with self._turn:
            self._check()
            if intake is not self._intake:
                self._intake = intake
                self._recent = {name: dict.fromkeys(found) for name, found in _recent(intake.position).items()}
            if self._server is None:
                options = next(iter(self._sources.values())).options
                self._server = HttpServer(options.host, options.port, self._respond)

    def follow(self, intake: Intake) -> None:
        self.catch_up(intake)
        while not intake.stopped.wait(CHECK_SECONDS):
            with self._turn:
                self._check()
        self.close()

    def drop_remote_state(self) -> None:
        """Stop serving; senders hold no state of ours."""
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
        """Raises what kept events off the record: their senders know of it, the user should as well."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _respond(self, exchange: Exchange) -> None:
        if exchange.route == "/health":
            exchange.only("GET", "HEAD")
            exchange.answer_json(200, {"status": "ok"})
            return
        source = self._sources.get(exchange.route)
        if source is None:
            raise Refusal(404, f"nothing is taken at {exchange.route}")
        try:
            posted = self._posted(source, exchange)
            self._record(posted)
        except Refusal:
            self._count(requests=1, refused=1)
            raise
        again = len(posted.events) - posted.taken
        self._count(requests=1, events=posted.taken, duplicates=again)
        exchange.answer_json(200, {"taken": posted.taken, "duplicates": again})

    def _posted(self, source: WebhookSource, exchange: Exchange) -> _Posted:
        found = payloads(exchange, source.options)
        named, keyed = ids(exchange, len(found))
        now, relation = self._context.now(), source.spec.relation
        events = [
            Event(id, source.options.channel, "INSERT", payload, relation, now)
            for id, payload in zip(named, found, strict=True)
        ]
        return _Posted(relation, events, keyed)

    def _record(self, posted: _Posted) -> None:
        """Returns when the events of a request are on record, with those of others that wait or alone."""
        with self._guard:
            self._waiting.append(posted)
        with self._turn:
            if not posted.done:
                with self._guard:
                    together, self._waiting = self._waiting, []
                self._append(together)
        if not posted.recorded:
            raise Refusal(503, "the events are not on record: send them again", {"Retry-After": "1"})

    def _append(self, together: Sequence[_Posted]) -> None:
        recent = {name: dict(found) for name, found in self._recent.items()}
        new = [event for posted in together for event in _unseen(posted, recent)]
        try:
            is_open = self._intake is not None and not self._intake.stopped.is_set()
            if self._intake is not None and is_open and new:
                position = {"recent": {name: list(found) for name, found in recent.items()}}
                self._intake.append([(BUS, rows_of(new), 1)], position)
            if is_open:
                self._recent = recent
        except Exception as failure:
            is_open, self._failure = False, failure
        for posted in together:
            posted.done, posted.recorded = True, is_open

    def _count(self, **more: int) -> None:
        with self._guard:
            for name, count in more.items():
                self._counts[name] += count


def _unseen(posted: _Posted, recent: dict[str, dict[str, None]]) -> list[Event]:
    """The events of a request that were not taken yet; their ids are recent from now on."""
    seen = recent.setdefault(posted.relation, {})
    new = [event for event in posted.events if not (posted.keyed and digest(event.id) in seen)]
    posted.taken = len(new)
    if posted.keyed:
        seen.update(dict.fromkeys(digest(event.id) for event in new))
        for old in list(seen)[:-RECENT]:
            del seen[old]
    return new


def digest(id: str) -> str:
    return hashlib.blake2b(id.encode(), digest_size=8).hexdigest()


def _recent(position: Any) -> Mapping[str, list[str]]:
    found: Mapping[str, list[str]] = (position or {}).get("recent", {})
    return found


def _same_path(sources: Sequence[WebhookSource]) -> Exception:
    paths = [source.options.path for source in sources]
    path = next(path for path in paths if paths.count(path) > 1)
    both = " and ".join(source.spec.relation for source in sources if source.options.path == path)
    return make(
        "INVALID_OPTION",
        message=f"{both} both wait for events at {path}",
        hint="give each a path, or a port, of its own",
    )
