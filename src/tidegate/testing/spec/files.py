"""Runs spec files in every way they have to hold: as written, and again with a restart between all steps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.testing.spec import model, parser
from tidegate.testing.spec.compare import Comparable, diff
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.outcome import Outcome
from tidegate.testing.spec.renaming import with_prefix
from tidegate.testing.spec.report import Failure, side_by_side
from tidegate.testing.spec.runner import drive


@dataclass(frozen=True)
class FileResult:
    """What came of one file."""

    path: Path
    title: str
    failures: tuple[Failure, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.failures


def run_file(path: Path, spark: Any, restarts: bool) -> FileResult:
    """Runs a file as written and, if asked, with restarts; the emissions of both runs must be the same."""
    began = time.monotonic()
    try:
        spec = parser.read(path)
    except model.SpecSyntaxError as problem:
        failure = Failure(path, 1, "", "", "", problem.message, (problem.hint,) if problem.hint else ())
        return FileResult(path, "", (failure,), time.monotonic() - began)
    [failures] = run_specs([spec], spark, restarts)
    return FileResult(path, spec.title, tuple(failures), time.monotonic() - began)


def run_together(paths: Iterable[Path], spark: Any, restarts: bool) -> list[Failure]:
    """Runs files as written and, if asked, with restarts on one shared database, where one step is a step of all: many
    files for the price of one, and a test that pipelines do not disturb each other. What fails in company is run again
    alone, for a report that speaks of the file as it is written."""
    specs = [parser.read(path) for path in paths]
    prefixed = [with_prefix(spec, f"spec{number}_") for number, spec in enumerate(specs)]
    failures: list[Failure] = []
    for spec, found in zip(specs, run_specs(prefixed, spark, restarts), strict=True):
        if found:
            failures += run_file(spec.path, spark, restarts).failures or found
    return failures


def run_specs(specs: Sequence[model.Spec], spark: Any, restarts: bool) -> list[list[Failure]]:
    """Runs specs side by side; what failed, for each of them."""
    first = run_once(specs, spark, restarts=False)
    failures = [outcome.failures for outcome in first]
    if restarts and not any(failures) and any(spec.runs > 1 for spec in specs):
        again = run_once(specs, spark, restarts=True)
        failures = [two.failures or unequal(one, two) for one, two in zip(first, again, strict=True)]
    return failures


def run_once(specs: Sequence[model.Spec], spark: Any, restarts: bool, partitions: int = 1) -> list[Outcome]:
    """One run in a folder of its own, with state in so many partitions."""
    with tempfile.TemporaryDirectory(prefix="tidegate-spec-", ignore_cleanup_errors=True) as folder:
        engine = Engine(Path(folder) / "data", spark, partitions)
        try:
            return drive(specs, engine, spark, restarts)
        finally:
            engine.close()


def unequal(first: Outcome, again: Outcome) -> list[Failure]:
    """Steps in which a restarted engine emitted something else."""
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
