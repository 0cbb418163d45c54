"""Sinks at work: after every step each sink gets the changes it has not applied yet, exactly once."""

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
from tidegate.core.types import arrow_schema
from tidegate.formats.events import matching
from tidegate.runtime.sink_definitions import build, patterns_of
from tidegate.runtime.subscription import inserted, visible
from tidegate.storage.folder import Folder
from tidegate.storage.step_log import StepLog

_log = logging.getLogger(__name__)

BACKOFF = Backoff(first=1.0, longest=30.0)
GRACE_SECONDS = 3.0
"""A pipeline that ends waits so long for sinks that have much to do yet."""


@dataclass
class Running:
    """One sink and how far it is. `before`: the columns of what it reads, if that had content before there was the
    sink, which it has not been given yet. After a failure it rests until `due`, each time twice as long as before,
    unless it knows better by itself when to try again and when to give up (`gives_up`)."""

    sink: Sink
    context: SinkContext
    relation: str
    done: int
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
    """All sinks of a pipeline. One that fails stops alone, until it can go on: the others and the views do. While they
    `follow`, each works in a thread of its own, so that a slow one holds up nobody; otherwise `apply` does it all."""

    def __init__(self, folder: Folder, log: StepLog, now: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._log, self._now = folder, log, now
        self._running: dict[str, Running] = {}
        self._lock = threading.RLock()
        self._alarm: threading.Timer | None = None
        self._following = False
        self._news = threading.Condition()
        self.failures: dict[str, str] = {}
        self.crash: Exception | None = None

    def open(self, catalog: Catalog, begun: Mapping[str, int], follow: bool = False) -> None:
        """Opens the sinks of the catalog that are not open, closes those that are gone or were created anew, and gives
        them what they have not seen. `follow`: from now on each takes that by itself."""
        wanted = {relation.name: relation for relation in catalog.of_kind("sink")}
        with self._lock:
            for name, running in list(self._running.items()):
                if name not in wanted or running.context.owner != self._owner(name, begun.get(name, 0)):
                    self._end(name)
            for name, relation in wanted.items():
                if name not in self._running:
                    self._start(relation, catalog, begun.get(name, 0))
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
        """Follows no longer: what they have not taken yet they are given now, as far as there is time for it."""
        if not self._following:
            return
        with self._lock:
            self._following = False
            threads = [running.thread for running in self._running.values() if running.thread is not None]
        with self._news:
            self._news.notify_all()
        with self.hurried():
            for thread in threads:
                thread.join()
            for running in self._running.values():
                running.thread = None
            self.apply()

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """What goes on in here ends soon: a sink that sends one request after the other breaks off after a while. It
        knows how far it is, and goes on there next time."""
        alarm = threading.Timer(GRACE_SECONDS, self._break_off)
        alarm.daemon = True
        alarm.start()
        try:
            yield
        finally:
            alarm.cancel()

    def _break_off(self) -> None:
        for running in list(self._running.values()):
            running.context.ending.set()
            running.sink.interrupt()

    def check(self) -> None:
        """Raises what no sink should ever raise."""
        if self.crash is not None:
            raise self.crash

    def _work(self, name: str, running: Running) -> None:
        while self._following and self._running.get(name) is running:
            with self._news:
                rest = running.due - self._now()
                if rest > 0 or (running.is_open and running.done >= self._log.last()):
                    self._news.wait(rest if rest > 0 else None)
                    continue
            try:
                with running.lock:
                    self._attempt(name, running)
            except Exception as problem:
                self.crash = problem
                return

    def apply(self) -> None:
        """Gives every sink what it has not seen, but for those that rest after a failure."""
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
            return min((running.done for running in self._running.values()), default=None)

    def dead_letters(self) -> dict[str, int]:
        """What sinks that put aside what they cannot deliver have put aside since the start."""
        with self._lock:
            sinks = {name: running.sink for name, running in self._running.items()}
        return {name: sink.dead_letter_count() for name, sink in sinks.items() if sink.abilities.dead_letters}

    def retrying(self) -> bool:
        """Whether there is a sink that failed and will be through with it sooner or later."""
        with self._lock:
            return any(running.gives_up for name, running in self._running.items() if name in self.failures)

    def behind(self) -> dict[str, int]:
        """How many steps each sink has yet to apply."""
        with self._lock:
            return {name: self._log.last() - running.done for name, running in self._running.items()}

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

    def _start(self, relation: Relation, catalog: Catalog, begun: int) -> None:
        """A place that is wrong is the user's to know now; one that cannot be reached may be there later."""
        source = relation if own_rows(relation) else catalog.get(relation.dependencies[0])
        folder = self._folder.sinks / quote(relation.name, safe="")
        folder.mkdir(parents=True, exist_ok=True)
        running = Running(build(relation), self._context(relation, source, folder, begun), source.name, begun)
        running.upsert, running.patterns = source.changes == "upsert", patterns_of(relation)
        if source.kept and source is not relation and begun > self._log.since(source.name):
            running.before = arrow_schema(source.columns)
        try:
            self._open(running)
        except OSError as error:
            self._put_off(relation.name, running, str(error), error)
        except errors.Error as error:
            error.message = f"sink {relation.name}: {error.message}"
            raise
        self._running[relation.name] = running

    def _context(self, relation: Relation, source: Relation, folder: Path, begun: int) -> SinkContext:
        upsert, patterns = source.changes == "upsert", patterns_of(relation)

        def replay(after: int) -> Iterator[tuple[int, pa.Table]]:
            for step, table in self._log.changes(source.name, max(after, begun), self._log.last()):
                yield step, _wanted(visible(table, step, upsert), patterns)

        return SinkContext(relation.name, folder, self._owner(relation.name, begun), replay)

    def _owner(self, name: str, begun: int) -> str:
        """Tells a sink from all others, also from one of the same name before it."""
        return f"{self._folder.id}#{name}#{begun}"

    def _open(self, running: Running) -> None:
        running.sink.open(running.context)
        last = running.sink.last_step()
        if last is not None:
            running.done, running.before = max(running.done, last), None
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
            self._put_off(name, running, str(error), error)
        except errors.Error as error:
            told = error.message if error.hint is None else f"{error.message} ({error.hint})"
            self._put_off(name, running, told, error)
        else:
            if self.failures.pop(name, None) is not None:
                running.attempts, running.due = 0, 0.0
                _log.warning("sink %s goes on after step %d", name, running.done)

    def _put_off(self, name: str, running: Running, reason: str, error: Exception) -> None:
        """Schedules the next attempt: after the pause that the sink asks for, or with exponential backoff."""
        known = error.pause if isinstance(error, RetryAfter) else None
        running.gives_up = known is not None
        running.attempts += 1
        running.due = self._now() + (BACKOFF.pause(running.attempts) if known is None else known)
        if name not in self.failures:
            _log.warning("sink %s stopped, and will be tried again: %s", name, reason)
        self.failures[name] = reason

    def _set_alarm(self) -> None:
        """A sink that rests is tried again even if no step comes."""
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
        for step, table in self._log.changes(running.relation, running.done, last):
            changes = _wanted(visible(table, step, running.upsert), running.patterns)
            if changes.num_rows:
                running.sink.write(step, changes)
                failpoint("sink.applied")
            running.done = step
        running.done = last

    def _begin(self, running: Running, schema: pa.Schema) -> None:
        """What was there before the sink comes first, as rows of the last step before it."""
        rows = self._log.content(running.relation, schema, running.done)
        if rows.num_rows:
            running.sink.write(running.done, inserted(rows, running.done))
        running.before = None


def _wanted(changes: pa.Table, patterns: tuple[str, ...]) -> pa.Table:
    return matching(changes, patterns) if patterns else changes
