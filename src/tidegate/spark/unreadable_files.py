"""Files that cannot be read: a step goes on without them, and they are tried again when they change.

The failed step has changed nothing, so it runs again with the file left out, and records it. Spark regards the file as
read; the source position that the next generation begins with does not, so it reads the file once more.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from tidegate.connectors.contract import FileStream, StreamSource
from tidegate.core.failpoints import failpoint
from tidegate.spark.generation import Generation
from tidegate.storage.checkpoint import Checkpoint
from tidegate.storage.objects import Storage
from tidegate.storage.step_header import RejectedRow
from tidegate.storage.unreadable import NONE, Stamp, UnreadableFile, document
from tidegate.storage.unreadable import UnreadableFiles as Record

ATTEMPTS = 2
"""How often a file is read before it is given up: a file system can fail once."""
SETTLED_SECONDS = 2.0
"""A file that has not changed for this long is no longer being written."""
PATIENCE_SECONDS = 60.0
"""How long a single step waits for files that are being written."""
POLL_SECONDS = 1.0

GONE = "it was removed before it was read"
CHANGED = "it was written after it was listed"


class UnreadableFiles:
    """The files that are left out, by relation; durable."""

    def __init__(self, storage: Storage) -> None:
        self._document = document(storage)
        self._failures: Counter[tuple[str, Stamp | None]] = Counter()
        self._seen: dict[str, tuple[Stamp | None, float]] = {}
        self._next_look = 0.0
        self._lock = threading.RLock()

    def of(self, relation: str) -> tuple[str, ...]:
        """The paths of a relation's files that are left out."""
        return tuple(file.path for file in self._read().files.get(relation, ()))

    def set_aside(self, text: str, sources: Mapping[str, StreamSource], logs: Callable[[int], Path], step: int) -> bool:
        """Leave out the file that a step failed at, as its error says; False if it failed for another reason. A file
        that fails for the first time is only tried again."""
        for relation, source, number in _streams(sources):
            fault = source.unreadable(text)
            path = None if fault is None else source.logged_path(logs(number), fault.path)
            if fault is not None and path is not None:
                self._set_aside(relation, path, fault.reason, step)
                return True
        return False

    def in_steps(self, generation: Generation, checkpoint: Checkpoint) -> Callable[[int], list[RejectedRow]]:
        """A function of the batches of a generation: the files that each goes on without."""
        sources, start = generation.definition.sources, generation.positions

        def in_step(batch: int) -> list[RejectedRow]:
            step = generation.base_step + batch + 1
            for relation, source, number in _streams(sources):
                offsets = (checkpoint.offset(batch - 1, number) if batch else None, checkpoint.offset(batch, number))
                listed = source.listed(checkpoint.source_log(number), *offsets, start.get(relation))
                self._look_at(relation, listed, step)
            return self._errors_of(step)

        return in_step

    def _look_at(self, relation: str, listed: Sequence[tuple[str, int]], step: int) -> None:
        """Record the files of a step that Spark passes over without a word: those that were removed after they were
        listed, and empty ones, which may get their rows later. Raises an error like Spark's for a file that was
        written after it was listed: the step would have a part of it."""
        out = self.of(relation)
        for path, listed_ms in listed:
            if path in out or not is_local(path):
                continue
            stamp = stamp_of(path)
            if stamp is None:
                self._add(relation, UnreadableFile(path, step, GONE, None))
            elif stamp.modified_ns // 1_000_000 != listed_ms:
                raise RuntimeError(failure_text(path, CHANGED))
            elif stamp.size == 0:
                self._add(relation, UnreadableFile(path, step, None, stamp))

    def _errors_of(self, step: int) -> list[RejectedRow]:
        """The files that a step goes on without, as rows of `system.errors`."""
        return [
            RejectedRow(relation, "UNREADABLE_FILE", f"the file cannot be read: {file.reason}", local_path(file.path))
            for relation, file in self._all()
            if file.step == step and file.reason is not None
        ]

    def retry(self, relation: str) -> int:
        """Let the files of a relation be tried again, whether they have changed or not; returns how many there are."""
        files = self._read().files.get(relation, ())
        if files:
            self._replace(relation, [file._replace(again=True) for file in files])
        return len(files)

    def forget(self, files: Mapping[str, Sequence[str]]) -> None:
        """Read these files again, which a new generation begins with."""
        for relation, paths in files.items():
            rest = [file for file in self._read().files.get(relation, ()) if file.path not in paths]
            self._replace(relation, rest)

    def keep_only(self, relations: Mapping[str, object]) -> None:
        """Forget relations that are gone."""
        for relation in self._read().files:
            if relation not in relations:
                self._replace(relation, [])

    def due(self, wait: bool) -> dict[str, list[str]]:
        """The files to read again: those that have changed and are complete. `wait`: until no file is being written, or
        patience ends; otherwise the files are looked at once a second."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            if not wait and time.monotonic() < self._next_look:
                return {}
            self._next_look = time.monotonic() + POLL_SECONDS
            found: dict[str, list[str]] = {}
            writing = False
            for relation, file in self._all():
                stamp = stamp_of(file.path)
                incomplete = file.reason is None and (stamp is None or stamp.size > 0)
                changed = file.again or incomplete or stamp != file.stamp
                if not changed or (stamp is None and not file.again):
                    continue
                if file.again or self._is_settled(file.path, stamp):
                    found.setdefault(relation, []).append(file.path)
                else:
                    writing = True
            if found or not wait or not writing or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def _set_aside(self, relation: str, path: str, reason: str, step: int) -> None:
        stamp = stamp_of(path)
        if stamp is None and is_local(path):
            self._add(relation, UnreadableFile(path, step, GONE, None))
        elif stamp is not None and (reason == CHANGED or not self._is_settled(path, stamp)):
            self._add(relation, UnreadableFile(path, step, None, stamp))
        else:
            self._failures[path, stamp] += 1
            if self._failures[path, stamp] >= ATTEMPTS:
                self._add(relation, UnreadableFile(path, step, _known_reason(path) or reason, stamp))

    def _is_settled(self, path: str, stamp: Stamp | None) -> bool:
        """True if a file has not changed for a while: by its time, or as we saw it, should clocks differ."""
        if stamp is None or time.time() - stamp.modified_ns / 1e9 >= SETTLED_SECONDS:
            return True
        seen, since = self._seen.setdefault(path, (stamp, time.monotonic()))
        if seen != stamp:
            self._seen[path] = (stamp, time.monotonic())
        return seen == stamp and time.monotonic() - since >= SETTLED_SECONDS

    def _add(self, relation: str, file: UnreadableFile) -> None:
        others = [each for each in self._read().files.get(relation, ()) if each.path != file.path]
        self._replace(relation, [*others, file])

    def _replace(self, relation: str, files: Sequence[UnreadableFile]) -> None:
        with self._lock:
            rest = {name: each for name, each in self._read().files.items() if name != relation}
            self._document.write(Record({**rest, relation: tuple(files)} if files else rest))
        failpoint("unreadable.written")

    def _all(self) -> Iterator[tuple[str, UnreadableFile]]:
        for relation, files in self._read().files.items():
            yield from ((relation, file) for file in files)

    def _read(self) -> Record:
        return self._document.read() if self._document.exists() else NONE


def failure_text(path: str, reason: str) -> str:
    """The text by which a source recognises that a file cannot be read: Spark's own."""
    return f"Encountered error while reading file {path}. {reason} SQLSTATE: KD001"


def is_local(path: str) -> bool:
    return path.startswith("file:/")


def local_path(path: str) -> str:
    """A path of the column `_metadata.file_path` as the operating system writes it; that of another file system as it
    is."""
    return unquote(path.removeprefix("file:")) if is_local(path) else path


def stamp_of(path: str) -> Stamp | None:
    """The present stamp of a local file; None if it is gone, or on another file system."""
    try:
        found = os.stat(local_path(path)) if is_local(path) else None
    except OSError:
        return None
    return None if found is None else Stamp(found.st_size, found.st_mtime_ns)


def _streams(sources: Mapping[str, StreamSource]) -> Iterator[tuple[str, FileStream, int]]:
    """The sources that read files, with their numbers in Spark's checkpoint."""
    for number, (relation, source) in enumerate(sources.items(), start=1):
        if isinstance(source, FileStream):
            yield relation, source, number


def _known_reason(path: str) -> str | None:
    """Why the operating system would not let the file be read."""
    if is_local(path) and not os.access(local_path(path), os.R_OK):
        return "permission denied"
    return None
