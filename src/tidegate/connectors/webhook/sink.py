"""`INTO WEBHOOK`: every event, or every change of a view, is posted to a URL."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa

from tidegate.connectors.contract import Interrupted, RetryAfter, Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.rows import arrays, messages
from tidegate.connectors.webhook.dead_letters import DeadLetters, Progress
from tidegate.connectors.webhook.options import PostOptions
from tidegate.connectors.webhook.posting import Outcome, Poster, pause_after
from tidegate.connectors.webhook.signing import SIGNATURE, TIMESTAMP, signature
from tidegate.core.durable import LastStep
from tidegate.core.options import Bag

_log = logging.getLogger(__name__)


class DeliveryError(RetryAfter):
    """The endpoint does not accept a request now: it is retried after `pause` seconds."""


@dataclass
class _Retry:
    """A request that is to be repeated: how often it failed, when it is due, and why it failed last."""

    id: str
    failures: int = 0
    due: float = 0.0
    reason: str = ""


@dataclass
class WebhookSink(Sink):
    """Posts one request after the other, in order. A request that fails is repeated after a pause, under the same id;
    one that is rejected, or fails too often, becomes a dead letter, and the next one follows.

    `dead_letters` counts those since the sink was made. The sink does not wait itself: `write` raises the pause that is
    due, so that it delays nobody else.
    """

    options: PostOptions
    now: Callable[[], float] = time.monotonic
    dead_letters: int = field(default=0, init=False)
    _opened: _Opened | None = field(default=None, init=False)
    _retry: _Retry | None = field(default=None, init=False)

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> WebhookSink:
        return cls(spec, PostOptions.take(bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("changelog", dead_letters=True)

    def open(self, context: SinkContext) -> None:
        self.close()
        self._opened = _Opened(
            context,
            LastStep(context.folder, context.owner),
            Progress(context.folder, context.owner),
            DeadLetters(context.folder),
            Poster(self.options),
        )

    def write(self, step: int, changes: pa.Table) -> None:
        opened = self._opened
        assert opened is not None
        if opened.last.step is not None and step <= opened.last.step:
            return
        delivered = opened.progress.of(step)
        for number, body in enumerate(self._bodies(changes)):
            if number >= delivered:
                self._deliver(opened, step, number, body)
                opened.progress.keep(step, number + 1)
        opened.last.keep(step)

    def last_step(self) -> int | None:
        return None if self._opened is None else self._opened.last.step

    def dead_letter_count(self) -> int:
        return self.dead_letters

    def interrupt(self) -> None:
        """Give up the request under way, because the pipeline ends; the next run sends it again."""
        if self._opened is not None:
            self._opened.poster.interrupt()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.poster.close()
            self._opened.progress.close()
            self._opened = None

    def _bodies(self, changes: pa.Table) -> Iterator[str]:
        objects = (text for _, text in messages(self.spec, changes))
        return arrays(objects, self.options.batch_rows) if self.options.batch else objects

    def _deliver(self, opened: _Opened, step: int, number: int, body: str) -> None:
        """Return when the request is accepted or a dead letter."""
        opened.check_interrupted()
        id = request_id(opened.context.owner, step, number)
        retry = self._retry if self._retry is not None and self._retry.id == id else _Retry(id)
        if retry.due > self.now():
            raise DeliveryError(retry.reason, retry.due - self.now())
        outcome = opened.poster.post(body.encode(), self._headers(body.encode(), step, id))
        if outcome.accepted:
            self._retry = None
            return
        opened.check_interrupted()
        retry.failures, retry.reason = retry.failures + 1, outcome.error
        if not outcome.retryable or retry.failures > self.options.max_retries:
            opened.put_aside(self.spec.name, step, id, outcome, body)
            self.dead_letters += 1
            self._retry = None
            return
        pause = max(pause_after(retry.failures, self.options), outcome.wait)
        retry.due = self.now() + pause
        self._retry = retry
        raise DeliveryError(outcome.error, pause)

    def _headers(self, body: bytes, step: int, id: str) -> dict[str, str]:
        headers = {"X-Tidegate-Step": str(step), "X-Tidegate-Id": id}
        timestamp = str(int(time.time())) if self.options.timestamp else None
        if timestamp is not None:
            headers[TIMESTAMP] = timestamp
        if self.options.secret is not None:
            headers[SIGNATURE] = signature(self.options.secret, body, timestamp)
        return headers


@dataclass
class _Opened:
    """The state of an open sink."""

    context: SinkContext
    last: LastStep
    progress: Progress
    dead_letters: DeadLetters
    poster: Poster
    warned: bool = False

    def check_interrupted(self) -> None:
        if self.context.ending.is_set():
            raise Interrupted

    def put_aside(self, sink: str, step: int, id: str, outcome: Outcome, body: str) -> None:
        self.dead_letters.put(sink, step, id, outcome.status, outcome.error, body)
        if not self.warned:
            _log.warning("sink %s: %s; rejected requests are in system.dead_letters", sink, outcome.error)
            self.warned = True


def request_id(owner: str, step: int, number: int) -> str:
    """Return an id that stays the same when the request is repeated, and that no other request has."""
    return f"{quote(owner, safe='#')}#{step}#{number}"
