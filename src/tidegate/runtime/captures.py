"""Captures at work: what happens elsewhere comes into the insert log, with how far it was read, exactly once."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa

from tidegate import errors
from tidegate.catalog.bus import BUS, TIME
from tidegate.catalog.catalog import Catalog
from tidegate.connectors.base import AnySource, Capture, CaptureContext, Captured, Refused, Rows
from tidegate.runtime.present import present_keys
from tidegate.runtime.readiness import TABLES

if TYPE_CHECKING:
    from tidegate.database import Database

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0


class Taken:
    """The intake of one capture: the insert log, and the mark that belongs to it."""

    def __init__(self, db: Database, mark: str) -> None:
        self._db, self._mark = db, mark
        self.stopped = threading.Event()

    @property
    def position(self) -> Any:
        """What is known of tables that were dropped or replaced since does not count."""
        found = self._db.inserts.marks().get(self._mark)
        if not isinstance(found, dict) or not isinstance(found.get(TABLES), dict):
            return found
        known, first = self._db.inserts.marks().get(TABLES, {}), self._db.ledger.first_entries()
        kept = {
            name: value
            for name, value in found[TABLES].items()
            if name not in known or known[name] >= first.get(name, 0)
        }
        return {**found, TABLES: kept}

    def append(self, rows: Sequence[Rows], position: Any, refused: Sequence[Refused] = ()) -> None:
        log = self._db.inserts
        with log.lock:
            parts = self._parts(rows)
            header = {"errors": [list(each) for each in refused]} if refused else None
            log.append(parts, header, {self._mark: position, TABLES: self._filled(rows)})

    def _parts(self, rows: Sequence[Rows]) -> list[Rows]:
        """Events get their time from the log. A weight of 0 takes all rows of a table away."""
        found: list[Rows] = []
        for relation, table, weight in rows:
            if relation == BUS:
                table = _untimed(table)
            elif weight == 0:
                keys = present_keys(self._db, self._db.catalog.get(relation), found)
                table, weight = keys, -1
            if table.num_rows:
                found.append((relation, table, weight))
        return found

    def _filled(self, rows: Sequence[Rows]) -> dict[str, int]:
        """The tables that have their content with this entry, or had it before."""
        known: dict[str, int] = dict(self._db.inserts.marks().get(TABLES, {}))
        first, head = self._db.ledger.first_entries(), self._db.inserts.head()
        for relation in {name for name, _, _ in rows if name != BUS}:
            if known.get(relation, -1) < first.get(relation, 0):
                known[relation] = head
        return known


def _untimed(events: pa.Table) -> pa.Table:
    place = events.schema.get_field_index(TIME)
    return events.set_column(
        place, events.schema.field(TIME), pa.nulls(events.num_rows, events.schema.field(TIME).type)
    )


class Captures:
    """All captures of a database. One whose other end is away is tried again; one that fails for good says why."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._running: dict[str, tuple[Taken, Capture, threading.Thread, tuple[str, ...]]] = {}
        self._idle: dict[str, tuple[Taken, Capture, tuple[str, ...]]] = {}
        self.failures: dict[str, errors.Error] = {}

    def catch_up(self) -> None:
        """Takes in what there is now. Those that run do so by themselves."""
        for mark, sources in sessions(self._db.catalog).items():
            if mark not in self._running:
                taken, capture = self._kept(mark, sources)
                capture.catch_up(taken)

    def start(self) -> None:
        """Follows everything that the catalog has, each from a thread of its own."""
        wanted = sessions(self._db.catalog)
        for mark in list(self._running):
            if mark not in wanted or self._running[mark][3] != _names(wanted[mark]):
                self._stop(mark)
        for mark, sources in wanted.items():
            if mark not in self._running:
                taken, capture = self._kept(mark, sources)
                self._idle.pop(mark)
                thread = threading.Thread(target=self._run, args=(mark, taken, capture), daemon=True, name="capture")
                self._running[mark] = (taken, capture, thread, _names(sources))
                thread.start()

    def stop(self) -> None:
        for mark in list(self._running):
            self._stop(mark)
        for taken, capture, _ in self._idle.values():
            taken.stopped.set()
            _closed(capture)
        self._idle.clear()

    def check(self) -> None:
        """Raises what ended a capture for good, if something did."""
        for failure in self.failures.values():
            raise failure

    def metrics(self) -> dict[str, Mapping[str, float]]:
        """Figures of each capture, by the relations that it feeds."""
        return {", ".join(names): capture.metrics() for _, capture, _, names in list(self._running.values())}

    def forget(self, before: Catalog, after: Catalog) -> None:
        """Removes at the other end what belonged to captures that no longer are."""
        left = sessions(after)
        for mark, sources in sessions(before).items():
            if mark not in left:
                if mark in self._running:
                    self._stop(mark)
                try:
                    self._kept(mark, sources)[1].forget()
                except (OSError, errors.Error) as problem:
                    print(
                        f"what {', '.join(_names(sources))} left at its origin stays there: {problem}", file=sys.stderr
                    )
                self._idle.pop(mark)

    def _kept(self, mark: str, sources: Sequence[Captured]) -> tuple[Taken, Capture]:
        """The capture of a session. One that catches up from time to time stays what it is meanwhile."""
        names = _names(sources)
        if mark in self._idle and self._idle[mark][2] != names:
            _closed(self._idle.pop(mark)[1])
        if mark not in self._idle:
            folder = self._db.folder.root / "captures" / mark.rpartition(":")[2]
            folder.mkdir(parents=True, exist_ok=True)
            context = CaptureContext(self._db.folder.id, folder, self._db.now_us)
            self._idle[mark] = (Taken(self._db, mark), sources[0].capture(sources[1:], context), names)
        taken, capture, _ = self._idle[mark]
        return taken, capture

    def _stop(self, mark: str) -> None:
        taken, capture, thread, _ = self._running.pop(mark)
        taken.stopped.set()
        thread.join()
        _closed(capture)
        self.failures.pop(mark, None)

    def _run(self, mark: str, taken: Taken, capture: Capture) -> None:
        pause, told = FIRST_PAUSE, False
        while not taken.stopped.is_set():
            before = taken.position
            try:
                capture.follow(taken)
            except OSError as problem:
                if taken.position != before:
                    pause, told = FIRST_PAUSE, False
                if not told:
                    print(f"{problem}: it is tried again", file=sys.stderr)
                    told = True
                taken.stopped.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except Exception as problem:
                self._failed(mark, problem)
                return

    def _failed(self, mark: str, problem: Exception) -> None:
        """Whatever it was: a pipeline whose input has stopped must not go on as if nothing more came."""
        if not isinstance(problem, errors.Error):
            names = errors.enumerated(self._running[mark][3], "and") if mark in self._running else mark
            problem = errors.make(
                "PIPELINE_FAILED",
                message=f"the capture of {names} failed: {type(problem).__name__}: {problem}",
                hint="nothing is lost: start again, and report it if it comes again",
            )
        self.failures[mark] = problem
        with self._db.log.arrived:
            self._db.log.arrived.notify_all()


def sessions(catalog: Catalog) -> dict[str, list[Captured]]:
    """The captured relations of a catalog, those of one session together, by the name of its mark."""
    found: dict[str, list[Captured]] = {}
    for relation in catalog.of_kind("source", "table"):
        if relation.connector is None:
            continue
        from tidegate.spark.engine import source_of

        source = source_of(relation)
        if is_captured(source):
            digest = hashlib.sha256(source.session.encode()).hexdigest()[:16]
            found.setdefault(f"capture:{digest}", []).append(source)
    return found


def is_captured(source: AnySource) -> TypeGuard[Captured]:
    """Whether the driver follows a source by itself."""
    return isinstance(source, Captured) and source.captured


def _names(sources: Sequence[Captured]) -> tuple[str, ...]:
    return tuple(source.spec.relation for source in sources)


def _closed(capture: Capture) -> None:
    close = getattr(capture, "close", None)
    if close is not None:
        close()
