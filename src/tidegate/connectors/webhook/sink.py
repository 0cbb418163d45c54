"""`INTO WEBHOOK`: every event, or every change of a view, is posted to a URL."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa

from tidegate.connectors.contract import Interrupted, RetryAfter, Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.webhook.dead_letters import DeadLetters, Progress
from tidegate.connectors.webhook.messages import arrays, messages
from tidegate.connectors.webhook.options import PostOptions, post_options
from tidegate.connectors.webhook.posting import Outcome, Poster, pause_after
from tidegate.connectors.webhook.signing import SIGNATURE, TIMESTAMP, signature
from tidegate.core.durable import LastStep
from tidegate.core.options import Bag


class DeliveryError(RetryAfter):
    """The endpoint does not take a request now: it is tried again after `pause` seconds."""


@dataclass
class _Trouble:
    """A request that failed so far: how often, when it is due again, and why."""

    id: str
    failures: int = 0
    due: float = 0.0
    reason: str = ""


@dataclass
class WebhookSink(Sink):
    """Posts one request after the other, in order. A request that fails is repeated after a pause, under the same id;
    one that is refused, or fails too often, becomes a dead letter, and the next one follows.

    `dead_letters` counts those since the sink was made. The sink does not wait itself: `write` fails with the pause
    that is due, so that nobody else is held up by it.
    """

    options: PostOptions
    now: Callable[[], float] = time.monotonic
    dead_letters: int = field(default=0, init=False)
    _opened: _Opened | None = field(default=None, init=False)
    _trouble: _Trouble | None = field(default=None, init=False)

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> WebhookSink:
        return cls(spec, post_options(bag))

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
        done = opened.progress.of(step)
        for number, body in enumerate(self._bodies(changes)):
            if number >= done:
                self._deliver(opened, step, number, body)
                opened.progress.keep(step, number + 1)
        opened.last.keep(step)

    def last_step(self) -> int | None:
        return None if self._opened is None else self._opened.last.step

    def dead_letter_count(self) -> int:
        return self.dead_letters

    def interrupt(self) -> None:
        """The pipeline ends: a request that is under way is given up, and sent again next time."""
        if self._opened is not None:
            self._opened.poster.interrupt()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.poster.close()
            self._opened.progress.close()
            self._opened = None

    def _bodies(self, changes: pa.Table) -> Iterator[str]:
        objects = (said for _, said in messages(self.spec, changes))
        return objects if self.options.batch is None else arrays(objects, self.options.batch)

    def _deliver(self, opened: _Opened, step: int, number: int, body: str) -> None:
        """Returns when the request is done with, one way or the other."""
        opened.go_on()
        id = request_id(opened.context.owner, step, number)
        trouble = self._trouble if self._trouble is not None and self._trouble.id == id else _Trouble(id)
        if trouble.due > self.now():
            raise DeliveryError(trouble.reason, trouble.due - self.now())
        outcome = opened.poster.post(body.encode(), self._headers(body.encode(), step, id))
        if outcome.taken:
            self._trouble = None
            return
        opened.go_on()
        trouble.failures, trouble.reason = trouble.failures + 1, outcome.error
        if not outcome.again or trouble.failures > self.options.retries:
            opened.bury(self.spec.name, step, id, outcome, body)
            self.dead_letters += 1
            self._trouble = None
            return
        pause = max(pause_after(trouble.failures, self.options), outcome.wait)
        trouble.due = self.now() + pause
        self._trouble = trouble
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
    """What a sink has while it is open."""

    context: SinkContext
    last: LastStep
    progress: Progress
    letters: DeadLetters
    poster: Poster
    told: bool = False

    def go_on(self) -> None:
        if self.context.ending.is_set():
            raise Interrupted

    def bury(self, sink: str, step: int, id: str, outcome: Outcome, body: str) -> None:
        self.letters.put(sink, step, id, outcome.status, outcome.error, body)
        if not self.told:
            print(f"sink {sink}: {outcome.error}; what it refuses is in system.dead_letters", file=sys.stderr)
            self.told = True


def request_id(owner: str, step: int, number: int) -> str:
    """The same for a request however often it is sent, and for no other one."""
    return f"{quote(owner, safe='#')}#{step}#{number}"
