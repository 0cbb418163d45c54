"""Running captures: rows of other servers enter the insert log together with their source position, exactly once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate import errors
from tidegate.catalog.bus import BUS, TIME
from tidegate.catalog.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, RejectedRow, Rows
from tidegate.core.retry import Backoff
from tidegate.runtime.contents import Contents
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.readiness import TABLES
from tidegate.runtime.sources import capture_sessions, source_of
from tidegate.storage.folder import Folder
from tidegate.storage.insert_log import EntryHeader, InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_header import RejectedRow as StoredRejection
from tidegate.storage.step_log import StepLog

_log = logging.getLogger(__name__)

BACKOFF = Backoff(first=0.5, longest=15.0)


class LogIntake:
    """The intake of one capture: appends to the insert log, with the source position under the session's name."""

    def __init__(
        self, session: str, inserts: InsertLog, ledger: Ledger, catalog: CurrentCatalog, contents: Contents
    ) -> None:
        self._session, self._inserts, self._ledger = session, inserts, ledger
        self._catalog, self._contents = catalog, contents
        self.stopped = threading.Event()

    @property
    def position(self) -> Any:
        """The position of the last rows, without that of tables which were dropped or replaced since."""
        position = self._inserts.marks().get(self._session)
        if not isinstance(position, dict) or not isinstance(position.get(TABLES), dict):
            return position
        entries, first = self._inserts.marks().get(TABLES, {}), self._ledger.first_entries()
        filled = {
            name: value
            for name, value in position[TABLES].items()
            if name not in entries or entries[name] >= first.get(name, 0)
        }
        return {**position, TABLES: filled}

    def append(self, rows: Sequence[Rows], position: Any, rejected: Sequence[RejectedRow] = ()) -> None:
        log = self._inserts
        with log.lock:
            parts = self._parts(rows)
            header = EntryHeader(errors=tuple(StoredRejection(*each) for each in rejected))
            log.append(parts, header, {self._session: position, TABLES: self._filled(rows)})

    def _parts(self, rows: Sequence[Rows]) -> list[Rows]:
        """The parts of an entry: events get their time from the log, and a weight of 0 deletes all rows of a table."""
        parts: list[Rows] = []
        for relation, table, weight in rows:
            if relation == BUS:
                table = _untimed(table)
            elif weight == 0:
                keys = self._contents.keys_with_pending(self._catalog.value.get(relation), parts)
                table, weight = keys, -1
            if table.num_rows:
                parts.append((relation, table, weight))
        return parts

    def _filled(self, rows: Sequence[Rows]) -> dict[str, int]:
        """For each captured table the entry with its first content, which for new tables is this one."""
        entries: dict[str, int] = dict(self._inserts.marks().get(TABLES, {}))
        first, head = self._ledger.first_entries(), self._inserts.head()
        for relation in {name for name, _, _ in rows if name != BUS}:
            if entries.get(relation, -1) < first.get(relation, 0):
                entries[relation] = head
        return entries


def _untimed(events: pa.Table) -> pa.Table:
    index = events.schema.get_field_index(TIME)
    return events.set_column(
        index, events.schema.field(TIME), pa.nulls(events.num_rows, events.schema.field(TIME).type)
    )


class Captures:
    """All captures of a database. One whose server cannot be reached is retried; a permanent failure is raised."""

    def __init__(
        self,
        folder: Folder,
        catalog: CurrentCatalog,
        inserts: InsertLog,
        ledger: Ledger,
        log: StepLog,
        contents: Contents,
        now_us: Callable[[], int],
    ) -> None:
        self._folder, self._catalog, self._inserts, self._ledger = folder, catalog, inserts, ledger
        self._log, self._contents, self._now_us = log, contents, now_us
        self._running: dict[str, tuple[LogIntake, Capture, threading.Thread, tuple[str, ...]]] = {}
        self._idle: dict[str, tuple[LogIntake, Capture, tuple[str, ...]]] = {}
        self.failures: dict[str, errors.Error] = {}

    def tables(self) -> set[str]:
        """The captured relations that are tables with a key."""
        sessions = capture_sessions(self._catalog.value)
        return {one.spec.relation for sources in sessions.values() for one in sources if one.spec.key}

    def catch_up(self, *, tables: bool = False) -> None:
        """Append what the sources have now; `tables`: only those of sessions with tables that have a key. Captures that
        run in a thread do so by themselves."""
        unreachable: list[OSError] = []
        for session, sources in capture_sessions(self._catalog.value).items():
            if session not in self._running and (not tables or any(one.spec.key for one in sources)):
                intake, capture = self._idle_capture(session, sources)
                try:
                    capture.catch_up(intake)
                except OSError as problem:
                    unreachable.append(problem)
        if unreachable:
            raise unreachable[0]

    def start(self) -> None:
        """Follow all captured sources of the catalog, each session in its own thread."""
        defined = capture_sessions(self._catalog.value)
        for session in list(self._running):
            if session not in defined or self._running[session][3] != _names(defined[session]):
                self._stop(session)
        for session, sources in defined.items():
            if session not in self._running:
                intake, capture = self._idle_capture(session, sources)
                self._idle.pop(session)
                work = (session, intake, capture)
                thread = threading.Thread(target=self._run, args=work, daemon=True, name="capture")
                self._running[session] = (intake, capture, thread, _names(sources))
                thread.start()

    def stop(self) -> None:
        for session in list(self._running):
            self._stop(session)
        for intake, capture, _ in self._idle.values():
            intake.stopped.set()
            capture.close()
        self._idle.clear()

    def check(self) -> None:
        """Raise the error that ended a capture, if there is one."""
        for failure in self.failures.values():
            raise failure

    def metrics(self) -> dict[str, Mapping[str, float]]:
        """The metrics of each capture, by the relations that it feeds."""
        return {", ".join(names): capture.metrics() for _, capture, _, names in list(self._running.values())}

    def forget(self, before: Catalog, after: Catalog) -> None:
        """Remove the remote state (such as replication slots) of captures that were dropped."""
        gone = [each for each in before.of_kind("source", "table") if each.connector and each not in after.relations]
        if not gone:
            return
        remaining = capture_sessions(after)
        for session, sources in capture_sessions(Catalog(tuple(filter(_can_start, gone)))).items():
            if session not in remaining:
                if session in self._running:
                    self._stop(session)
                try:
                    self._idle_capture(session, sources)[1].drop_remote_state()
                except (OSError, errors.Error) as problem:
                    _log.warning("what %s left at its origin stays there: %s", ", ".join(_names(sources)), problem)
                self._idle.pop(session)

    def _idle_capture(self, session: str, sources: Sequence[CapturedSource]) -> tuple[LogIntake, Capture]:
        """The capture of a session that has no thread. It is reused until the relations of the session change."""
        names = _names(sources)
        if session in self._idle and self._idle[session][2] != names:
            self._idle.pop(session)[1].close()
        if session not in self._idle:
            folder = self._folder.root / "captures" / session.rpartition(":")[2]
            folder.mkdir(parents=True, exist_ok=True)
            context = CaptureContext(self._folder.id, folder, self._now_us)
            self._idle[session] = (self._intake(session), sources[0].capture(sources[1:], context), names)
        intake, capture, _ = self._idle[session]
        return intake, capture

    def _intake(self, session: str) -> LogIntake:
        return LogIntake(session, self._inserts, self._ledger, self._catalog, self._contents)

    def _stop(self, session: str) -> None:
        intake, capture, thread, _ = self._running.pop(session)
        intake.stopped.set()
        thread.join()
        capture.close()
        self.failures.pop(session, None)

    def _run(self, session: str, intake: LogIntake, capture: Capture) -> None:
        failures = 0
        while not intake.stopped.is_set():
            before = intake.position
            try:
                capture.follow(intake)
            except OSError as problem:
                if intake.position != before:
                    failures = 0
                if not failures:
                    stored = errors.storage_error(problem)
                    _log.warning("%s: retrying", problem if stored is None else stored.message)
                failures += 1
                intake.stopped.wait(BACKOFF.pause(failures))
            except Exception as problem:
                self._failed(session, problem)
                return

    def _failed(self, session: str, problem: Exception) -> None:
        """Record any error: a pipeline whose input has stopped must not continue as if its input had ended."""
        if not isinstance(problem, errors.Error):
            names = errors.enumerated(self._running[session][3], "and") if session in self._running else session
            problem = errors.make(
                "PIPELINE_FAILED",
                message=f"the capture of {names} failed: {type(problem).__name__}: {problem}",
                hint="nothing is lost: start again, and report it if it comes again",
            )
        self.failures[session] = problem
        with self._log.arrived:
            self._log.arrived.notify_all()


def _can_start(relation: Relation) -> bool:
    """False for a relation whose options cannot be resolved any more, such as one with an unset variable: it can be
    dropped or replaced all the same."""
    try:
        source_of(relation)
    except errors.Error as problem:
        _log.warning("what %s left at its origin stays there: %s", relation.name, problem.message)
        return False
    return True


def _names(sources: Sequence[CapturedSource]) -> tuple[str, ...]:
    return tuple(source.spec.relation for source in sources)
