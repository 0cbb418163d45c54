"""Finds spec files and runs them: as written, and again with a restart between all steps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.spark.session import connect
from tidegate.testing.spec import model, parser
from tidegate.testing.spec.compare import Comparable, diff
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.renaming import with_prefix
from tidegate.testing.spec.report import Failure, Outcome, side_by_side
from tidegate.testing.spec.runner import drive


@dataclass(frozen=True)
class FileResult:
    """The result of one file."""

    path: Path
    title: str
    failures: tuple[Failure, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.failures


@dataclass(frozen=True)
class Summary:
    """The results of several files."""

    results: tuple[FileResult, ...]

    @property
    def passed(self) -> int:
        return sum(result.ok for result in self.results)

    @property
    def failed(self) -> int:
        return len(self.results) - self.passed

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"


def run_paths(
    paths: Iterable[str | Path],
    restarts: bool = False,
    keyword: str | None = None,
    jobs: int = 1,
    spark: Any = None,
    on_result: Callable[[FileResult], None] | None = None,
) -> Summary:
    """Run the spec files at `paths` (files, or folders of `*.spec`) and call `on_result` after each.

    `keyword` selects files by path or title. Files share one Spark session; `jobs` of them run at a time."""
    chosen = [path for path in find(paths) if keyword is None or matches(path, keyword)]
    if spark is None:
        with own_session() as session:
            return _run(chosen, session, restarts, jobs, on_result)
    return _run(chosen, spark, restarts, jobs, on_result)


def _run(
    chosen: Sequence[Path], spark: Any, restarts: bool, jobs: int, on_result: Callable[[FileResult], None] | None
) -> Summary:
    def run(path: Path) -> FileResult:
        result = run_file(path, spark, restarts)
        if on_result is not None:
            on_result(result)
        return result

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        return Summary(tuple(pool.map(run, chosen)))


def find(paths: Iterable[str | Path]) -> Sequence[Path]:
    """The spec files at these paths.

    Raises FileNotFoundError for a path that does not exist."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        files += sorted(path.rglob("*.spec")) if path.is_dir() else [path]
    return list(dict.fromkeys(files))


def matches(path: Path, keyword: str) -> bool:
    """True if the path or title of a file contains the keyword."""
    try:
        title = parser.read(path).title
    except model.SpecSyntaxError:
        title = ""
    return keyword.lower() in f"{path} {title}".lower()


@contextmanager
def own_session(master: str = "local[2]") -> Iterator[Any]:
    """A Spark session that is stopped at the end of the block."""
    session: Any = connect(master, {}, None)
    try:
        yield session
    finally:
        session.stop()


def run_file(path: Path, spark: Any, restarts: bool) -> FileResult:
    """Run a file as written and, with `restarts`, again; both runs must emit the same."""
    began = time.monotonic()
    try:
        spec = parser.read(path)
    except model.SpecSyntaxError as problem:
        failure = Failure(path, 1, "", "", "", problem.message, (problem.hint,) if problem.hint else ())
        return FileResult(path, "", (failure,), time.monotonic() - began)
    [failures] = run_specs([spec], spark, restarts)
    return FileResult(path, spec.title, tuple(failures), time.monotonic() - began)


def run_together(paths: Iterable[Path], spark: Any, restarts: bool) -> list[Failure]:
    """Run files on one shared database, where the n-th steps of all files are one step: many files cost as much as one,
    and pipelines are tested not to disturb each other. A file that fails is run again alone, for a report with the
    names that are written in it."""
    specs = [parser.read(path) for path in paths]
    prefixed = [with_prefix(spec, f"spec{number}_") for number, spec in enumerate(specs)]
    failures: list[Failure] = []
    for spec, failed in zip(specs, run_specs(prefixed, spark, restarts), strict=True):
        if failed:
            failures += run_file(spec.path, spark, restarts).failures or failed
    return failures


def run_specs(specs: Sequence[model.Spec], spark: Any, restarts: bool) -> list[list[Failure]]:
    """Run specs side by side; the failures of each."""
    first = run_once(specs, spark, restarts=False)
    failures = [outcome.failures for outcome in first]
    if restarts and not any(failures) and any(spec.runs > 1 for spec in specs):
        again = run_once(specs, spark, restarts=True)
        failures = [two.failures or differences(one, two) for one, two in zip(first, again, strict=True)]
    return failures


def run_once(specs: Sequence[model.Spec], spark: Any, restarts: bool, partitions: int = 1) -> list[Outcome]:
    """Run specs once in a new folder, with state in `partitions` partitions."""
    with tempfile.TemporaryDirectory(prefix="tidegate-spec-", ignore_cleanup_errors=True) as folder:
        engine = Engine(Path(folder) / "data", spark, partitions)
        try:
            return drive(specs, engine, spark, restarts)
        finally:
            engine.close()


def differences(first: Outcome, again: Outcome) -> list[Failure]:
    """The steps in which a restarted engine emitted other changes."""
    spec, failures = first.spec, []
    for (item, one), (_, other) in zip(first.emissions, again.emissions, strict=True):
        for view in sorted(one.keys() | other.keys()):
            left = [Comparable(change.values, change.op) for change in one.get(view, ())]
            right = [Comparable(change.values, change.op) for change in other.get(view, ())]
            problem = diff(left, right)
            if problem:
                lines = side_by_side(problem, _lines(left), _lines(right), ("as written", "restarted"))
                message = f"{view} emits something else when the engine is restarted between steps"
                failures.append(Failure(spec.path, item.line, spec.title, item.title, "", message, lines))
    return failures


def _lines(rows: list[Comparable]) -> list[str]:
    return [f"{row.op} {' | '.join(map(str, row.values))}" for row in rows]
