"""Whether a data folder is whole: a quick check when it is opened, a full one for `tidegate doctor`, and the removal of
what killed processes left behind."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidegate import errors
from tidegate.core.files import is_temporary
from tidegate.storage import blobs, container, secrets_file, unreadable
from tidegate.storage.folder import Folder
from tidegate.storage.generations import GenerationFiles
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.objects import LocalStorage
from tidegate.storage.state import BucketState, Place, check_bucket
from tidegate.storage.step_log import StepLog

RESTORE = "restore the data folder from a backup, or begin a new one"
LOOKS = 3
LEFTOVER = "the next process that opens the folder for writing removes it"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a file. `damage`: data is lost, or may be read wrongly."""

    file: str
    problem: str
    advice: str
    damage: bool = True


def check_complete(folder: Folder, log: StepLog, inserts: InsertLog) -> None:
    """Loads the headers of the log; raises FOLDER_DAMAGED if a file is missing, or one that is read here is damaged. A
    folder that another process writes may change while it is looked at, so it is looked at again."""
    for attempt in range(LOOKS):
        try:
            for document, _ in folder.initial_documents():
                document.read()
            log.refresh()
            _check_logs(folder, log, inserts)
            return
        except errors.Error:
            if attempt == LOOKS - 1:
                raise


def _check_logs(folder: Folder, log: StepLog, inserts: InsertLog) -> None:
    generations = GenerationFiles(folder.generations)
    log.check(generations.committed_step())
    generations.check_planned(log.last())
    inserts.check(generations.consumed_entry(), log.header(log.last()).entry)


def remove_leftovers(folder: Folder, log: StepLog) -> None:
    """Removes temporary files, blobs and snapshots that no step refers to, blocks on their way between workers, and
    generations that were never begun.
    Only the process that has the folder's lock may do so."""
    for path in leftovers(folder, log):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder.exchange, ignore_errors=True)
    generations = GenerationFiles(folder.generations)
    for number in generations.numbers():
        if not generations.record(number).exists():
            shutil.rmtree(generations.home(number), ignore_errors=True)


def leftovers(folder: Folder, log: StepLog) -> Iterator[Path]:
    """The files that nothing refers to."""
    referenced = {folder.root / name for name in log.referenced()} | {folder.views / "relations.json"}
    for home in (folder.root, folder.inserts, folder.steps, folder.generations):
        yield from (path for path in _files(home) if is_temporary(path.name))
    for home in (folder.blobs, folder.views, folder.state):
        yield from (path for path in _files(home) if path not in referenced)
    compacted = log.oldest()
    yield from (path for path in _files(folder.steps) if path.name.isdigit() and int(path.name) <= compacted)


class FolderCheck:
    """Reads every file of a data folder, and collects what is wrong."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)
        self.files = 0
        self.findings: list[Finding] = []
        self._leftovers: set[Path] = set()

    def run(self) -> FolderCheck:
        self.files += 1
        try:
            self._folder.check_format()
        except errors.Error as problem:
            self._add_problem(problem)
            if problem.code == "FOLDER_VERSION":
                return self
        for document, _ in self._folder.initial_documents():
            self._try(document.read)
        optional = (unreadable.document(self._folder.storage), secrets_file.document(self._folder))
        for document in optional:
            if document.exists():
                self._try(document.read)
        self._check_references()
        self._check_parts(self._folder.inserts, container.parse)
        self._check_parts(self._folder.steps, container.parse)
        self._check_parts(self._folder.blobs, blobs.decode_rows)
        self._check_parts(self._folder.views, blobs.decode_rows, skip="relations.json")
        self._check_generations()
        self._check_permissions()
        return self

    @property
    def intact(self) -> bool:
        return not any(finding.damage for finding in self.findings)

    def _check_parts(self, home: Path, parse: Callable[[bytes], object], skip: str = "HEAD") -> None:
        for path in _files(home):
            if path.name == skip or path in self._leftovers:
                continue
            self.files += 1
            try:
                parse(path.read_bytes())
            except FileNotFoundError:
                continue  # The process that writes the folder has removed it.
            except (ValueError, pa.ArrowException) as problem:
                self._add(str(path), str(problem))

    def _check_generations(self) -> None:
        generations = GenerationFiles(self._folder.generations)
        for number in generations.numbers():
            record = generations.record(number)
            if record.exists():
                self._try(record.read)
            checkpoint = generations.checkpoint(number)
            for path, problem in checkpoint.problems():
                self._add(str(path), problem)
            for path, reason in checkpoint.checksums():
                self.files += 1
                if reason is not None:
                    self._add(str(path), reason)

    def _check_references(self) -> None:
        """Gaps in the logs and missing blobs; it needs headers that can be read."""
        log, inserts = StepLog(self._folder.storage), InsertLog(LocalStorage(self._folder.inserts))
        try:
            check_complete(self._folder, log, inserts)
            self._leftovers = set(leftovers(self._folder, log))
            for path in sorted(self._leftovers):
                self.findings.append(Finding(str(path), "nothing refers to it", LEFTOVER, damage=False))
        except errors.Error as problem:
            self._add_problem(problem)
        self._check_state(log)

    def _check_state(self, log: StepLog) -> None:
        """Every segment of the state after the last two steps, as far as the log is whole. The
        process that writes the folder may have gone on and removed some of it meanwhile."""
        buckets = self._buckets(log)
        self.files += len({use.object for state in buckets.values() for use in state.uses})
        for index, state in buckets.items():
            try:
                check_bucket(self._folder.storage, state)
            except errors.Error as problem:
                if index in self._buckets(log):
                    self._add_problem(problem)

    def _buckets(self, log: StepLog) -> dict[Place, BucketState]:
        """The buckets of the steps whose state is kept, by the places of their indexes."""
        buckets: dict[Place, BucketState] = {}
        for step in log.steps_with_state():
            try:
                buckets.update({state.index: state for state in log.state(step).buckets.values()})
            except errors.Error as problem:
                self._add_problem(problem)
        return buckets

    def _check_permissions(self) -> None:
        """Everything is below the root, so nobody else can read it if the root is closed to them."""
        if self._folder.root.is_dir() and stat.S_IMODE(self._folder.root.stat().st_mode) & 0o077:
            path = str(self._folder.root)
            self.findings.append(Finding(path, "others can read it", f"chmod 700 {path}", damage=False))

    def _try(self, read: Callable[[], object]) -> None:
        self.files += 1
        try:
            read()
        except errors.Error as problem:
            self._add_problem(problem)

    def _add_problem(self, problem: errors.Error) -> None:
        file, separator, reason = problem.message.partition(" is damaged: ")
        self._add(file if separator else str(self._folder.root), reason if separator else problem.message, problem.hint)

    def _add(self, file: str, problem: str, advice: str | None = None) -> None:
        if all((each.file, each.problem) != (file, problem) for each in self.findings):
            self.findings.append(Finding(file, problem, advice or RESTORE))


def _files(home: Path) -> list[Path]:
    return sorted(path for path in home.iterdir() if path.is_file()) if home.exists() else []
