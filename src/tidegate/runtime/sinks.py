"""Running sinks: after every step each sink receives the changes that it has not applied yet, exactly once."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from tidegate import errors
from tidegate.catalog import Catalog
from tidegate.catalog.maintained import own_rows
from tidegate.catalog.relation import Relation
from tidegate.connectors.contract import Interrupted, OutputClosed, RetryAfter, Sink, SinkContext
from tidegate.core.failpoints import failpoint
from tidegate.core.retry import Backoff
from tidegate.core.secrets import hide_known
from tidegate.core.types import arrow_schema
from tidegate.formats.events import matching
from tidegate.runtime.sink_definitions import build, patterns_of
from tidegate.runtime.subscription import inserted, visible
from tidegate.storage.folder import Folder
from tidegate.storage.step_log import StepLog

_log = logging.getLogger(__name__)

BACKOFF = Backoff(first=1.0, longest=30.0)
GRACE_SECONDS = 3.0
"""How long a pipeline that stops waits for sinks that are behind."""


@dataclass
class Running:
    """One sink and its progress. `applied_step`: the last step that it applied. `before`: the schema of what it reads,
    until the content from before the sink was created is written. After a failure the sink is not tried until `due`:
    the pause doubles with each attempt, unless the sink sets it and gives up by itself (`gives_up`)."""

    sink: Sink
    context: SinkContext
    relation: str
    applied_step: int
    before: pa.Schema | None = None
    upsert: bool = False
    patterns: tuple[str, ...] = ()
    is_open: bool = False
    attempts: int = 0
    due: float = 0.0
    gives_up: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None


class Sinks:
    """All sinks of a pipeline. A sink that fails is retried and holds up neither views nor other sinks. While the sinks
    follow the log, each runs in its own thread, so a slow one delays no other; otherwise `apply` runs them all."""

    def __init__(self, folder: Folder, log: StepLog, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._log, self._now = folder, log, now
        self._running: dict[str, Running] = {}
        self._lock = threading.RLock()
        self._alarm: threading.Timer | None = None
        self._following = False
        self._news = threading.Condition()
        self.failures: dict[str, str] = {}
        self.crash: Exception | None = None

    def open(self, catalog: Catalog, start_steps: Mapping[str, int], follow: bool = False) -> None:
        """Open the sinks of the catalog that are not open, close those that were dropped or replaced, and apply the
        changes that they have not applied. `follow`: from now on each sink does so in its own thread."""
        defined = {relation.name: relation for relation in catalog.of_kind("sink")}
        with self._lock:
            for name, running in list(self._running.items()):
                if name not in defined or running.context.owner != self._owner(name, start_steps.get(name, 0)):
                    self._end(name)
            for name, relation in defined.items():
                if name not in self._running:
                    self._start(relation, catalog, start_steps.get(name, 0))
            for running in self._running.values():
                running.context.ending.clear()
            if follow or self._following:
                self._follow()
            self.apply()

    def _follow(self) -> None:
        self._following = True
        self._set_alarm()
        for name, running in self._running.items():
            if running.thread is None:
                running.thread = threading.Thread(target=self._work, args=(name, running), daemon=True, name=name)
                running.thread.start()

    def settle(self) -> None:
        """Stop following the log: apply what is left, as far as there is time for it."""
        if not self._following:
            return
        with self._lock:
            self._following = False
            threads = [running.thread for running in self._running.values() if running.thread is not None]
        with self._news:
            self._news.notify_all()
        with self.time_limit():
            for thread in threads:
                thread.join()
            for running in self._running.values():
                running.thread = None
            self.apply()

    @contextmanager
    def time_limit(self) -> Iterator[None]:
        """Interrupt sinks that are still writing after a while. They know their progress, and continue there next
        time."""
        alarm = threading.Timer(GRACE_SECONDS, self._interrupt)
        alarm.daemon = True
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def _interrupt(self) -> None:
        for running in list(self._running.values()):
            running.context.ending.set()
            running.sink.interrupt()

    def check(self) -> None:
        """Raise an error that is not a failure of delivery."""
        if self.crash is not None:
            raise self.crash

    def _work(self, name: str, running: Running) -> None:
        while self._following and self._running.get(name) is running:
            with self._news:
                pause = running.due - self._now()
                if pause > 0 or (running.is_open and running.applied_step >= self._log.last()):
                    self._news.wait(pause if pause > 0 else None)
                    continue
            try:
                with running.lock:
                    self._attempt(name, running)
            except Exception as problem:
                self.crash = problem
                return

    def apply(self) -> None:
        """Apply to every sink the changes that it has not applied, except while it pauses after a failure."""
        if self._following:
            with self._news:
                self._news.notify_all()
            return
        with self._lock:
            for name, running in self._running.items():
                if running.due <= self._now():
                    self._attempt(name, running)
            self._set_alarm()

    def oldest(self) -> int | None:
        """The step up to which every sink has applied everything, None if there is no sink."""
        with self._lock:
            return min((running.applied_step for running in self._running.values()), default=None)

    def dead_letters(self) -> dict[str, int]:
        """The number of dead letters since the start, per sink that keeps them."""
        with self._lock:
            sinks = {name: running.sink for name, running in self._running.items()}
        return {name: sink.dead_letter_count() for name, sink in sinks.items() if sink.abilities.dead_letters}

    def retrying(self) -> bool:
        """True if a sink failed that gives up by itself in the end."""
        with self._lock:
            return any(running.gives_up for name, running in self._running.items() if name in self.failures)

    def behind(self) -> dict[str, int]:
        """The number of steps that each sink has not applied yet."""
        with self._lock:
            return {name: self._log.last() - running.applied_step for name, running in self._running.items()}

    def close(self) -> None:
        self.settle()
        with self._lock:
            for name in list(self._running):
                self._end(name)
            self._set_alarm()

    def _end(self, name: str) -> None:
        running = self._running.pop(name)
        with self._news:
            self._news.notify_all()
        with running.lock:
            running.sink.close()
        self.failures.pop(name, None)

    def _start(self, relation: Relation, catalog: Catalog, start_step: int) -> None:
        """Open a sink. A destination that cannot be reached is tried again later; one that is wrong is an error now."""
        source = relation if own_rows(relation) else catalog.get(relation.dependencies[0])
        folder = self._folder.sinks / quote(relation.name, safe="")
        folder.mkdir(parents=True, exist_ok=True)
        running = Running(build(relation), self._context(relation, source, folder, start_step), source.name, start_step)
        running.upsert, running.patterns = source.changes == "upsert", patterns_of(relation)
        if source.stored and source is not relation and start_step > self._log.since(source.name):
            running.before = arrow_schema(source.columns)
        try:
            self._open(running)
        except OSError as error:
            self._postpone(relation.name, running, str(error), error)
        except errors.Error as error:
            error.message = f"sink {relation.name}: {error.message}"
            raise
        self._running[relation.name] = running

    def _context(self, relation: Relation, source: Relation, folder: Path, start_step: int) -> SinkContext:
        upsert, patterns = source.changes == "upsert", patterns_of(relation)

        def replay(after: int) -> Iterator[tuple[int, pa.Table]]:
            for step, table in self._log.changes(source.name, max(after, start_step), self._log.last()):
                yield step, _matching_rows(visible(table, step, upsert), patterns)

        return SinkContext(relation.name, folder, self._owner(relation.name, start_step), replay)

    def _owner(self, name: str, start_step: int) -> str:
        """The identity of a sink, which differs from that of an earlier sink of the same name."""
        return f"{self._folder.id}#{name}#{start_step}"

    def _open(self, running: Running) -> None:
        running.sink.open(running.context)
        last = running.sink.last_step()
        if last is not None:
            running.applied_step, running.before = max(running.applied_step, last), None
        running.is_open = True

    def _attempt(self, name: str, running: Running) -> None:
        try:
            if not running.is_open:
                self._open(running)
            self._catch_up(running)
        except Interrupted:
            pass
        except OutputClosed:
            running.due = math.inf
            raise
        except OSError as error:
            self._postpone(name, running, str(error), error)
        except errors.Error as error:
            reason = error.message if error.hint is None else f"{error.message} ({error.hint})"
            self._postpone(name, running, reason, error)
        else:
            if self.failures.pop(name, None) is not None:
                running.attempts, running.due = 0, 0.0
                _log.warning("sink %s goes on after step %d", name, running.applied_step)

    def _postpone(self, name: str, running: Running, reason: str, error: Exception) -> None:
        """Schedule the next attempt: after the pause that the sink asks for, or with exponential backoff."""
        reason = hide_known(reason)
        pause = error.pause if isinstance(error, RetryAfter) else None
        running.gives_up = pause is not None
        running.attempts += 1
        running.due = self._now() + (BACKOFF.pause(running.attempts) if pause is None else pause)
        if name not in self.failures:
            _log.warning("sink %s stopped, and will be tried again: %s", name, reason)
        self.failures[name] = reason

    def _set_alarm(self) -> None:
        """Schedule the retry of a sink that failed, which happens even if no step follows."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._following:
            return
        due = [self._running[name].due for name in self.failures if name in self._running]
        if due:
            self._alarm = threading.Timer(max(min(due) - self._now(), 0.0), self._retry)
            self._alarm.daemon = True
            self._alarm.start()

    def _retry(self) -> None:
        try:
            self.apply()
        except Exception as problem:
            self.crash = problem

    def _catch_up(self, running: Running) -> None:
        last = self._log.last()
        if running.before is not None:
            self._begin(running, running.before)
        for step, table in self._log.changes(running.relation, running.applied_step, last):
            changes = _matching_rows(visible(table, step, running.upsert), running.patterns)
            if changes.num_rows:
                running.sink.write(step, changes)
                failpoint("sink.applied")
            running.applied_step = step
        running.applied_step = last

    def _begin(self, running: Running, schema: pa.Schema) -> None:
        """Write the content from before the sink was created, as rows of the last step before it."""
        rows = self._log.content(running.relation, schema, running.applied_step)
        if rows.num_rows:
            running.sink.write(running.applied_step, inserted(rows, running.applied_step))
        running.before = None


def _matching_rows(changes: pa.Table, patterns: tuple[str, ...]) -> pa.Table:
    return matching(changes, patterns) if patterns else changes
