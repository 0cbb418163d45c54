"""Runs one spec file in every way it has to hold: as written, and again with a restart between all steps."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.testing.oracle import Oracle
from tidegate.testing.spec import model, parser
from tidegate.testing.spec.compare import Comparable, diff
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.report import Failure, side_by_side
from tidegate.testing.spec.runner import Outcome, Runner


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
    first = run_spec(spec, spark, restarts=False)
    failures = list(first.failures)
    if restarts and not failures:
        again = run_spec(spec, spark, restarts=True)
        failures = again.failures or unequal(spec, first, again)
    return FileResult(path, spec.title, tuple(failures), time.monotonic() - began)


def run_spec(spec: model.Spec, spark: Any, restarts: bool) -> Outcome:
    """One run in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tidegate-spec-") as folder:
        engine = Engine(Path(folder) / "data", spark)
        try:
            return Runner(spec, engine, Oracle(spark), restarts).run()
        finally:
            engine.close()


def unequal(spec: model.Spec, first: Outcome, again: Outcome) -> list[Failure]:
    """Steps in which a restarted engine emitted something else."""
    failures = []
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
