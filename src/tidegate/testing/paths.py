"""Finds spec files and runs them, several at a time if asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.testing.session import own_session
from tidegate.testing.spec import parser
from tidegate.testing.spec.files import FileResult, run_file
from tidegate.testing.spec.model import SpecSyntaxError


@dataclass(frozen=True)
class Summary:
    """All files that were run."""

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
    """Runs the spec files at `paths` (files, or folders of `*.spec`) and tells `on_result` of each as it ends.

    `keyword` keeps the files whose path or title contains it. Files share one Spark session; `jobs` of them run at a
    time."""
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
    """The spec files at these paths; a path that does not exist is an error."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        found += sorted(path.rglob("*.spec")) if path.is_dir() else [path]
    return list(dict.fromkeys(found))


def matches(path: Path, keyword: str) -> bool:
    """Whether a file's path or title contains the word."""
    try:
        title = parser.read(path).title
    except SpecSyntaxError:
        title = ""
    return keyword.lower() in f"{path} {title}".lower()
