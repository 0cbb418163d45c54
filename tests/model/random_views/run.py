"""Runs a random case as a spec file and, if it fails, reports the smallest case that still does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.model.random_views.case import Case
from tests.model.random_views.generate import make
from tests.model.random_views.joins import make_joined
from tests.model.random_views.shrink import shrink
from tests.model.random_views.timed import make_timed
from tidegate.testing.spec import parser
from tidegate.testing.spec.files import run_once
from tidegate.testing.spec.report import Failure

MAKERS = {"plain": make, "time": make_timed, "joins": make_joined}


def try_seed(
    spark: Any, seed: int, views: int, steps: int = 4, shrink_seconds: float = 120, what: str = "plain"
) -> str | None:
    """None if all views of the case hold after every step, else a report with a small case that fails alike. `what`:
    plain views, with windows, lateness and EMIT ("time"), or with "joins"."""
    case = MAKERS[what](seed, views, steps)
    failures = run(spark, case)
    if not failures:
        return None
    suspects = [view.name for view in case.views if any(one.message.startswith(f"{view.name} ") for one in failures)]
    smallest = shrink(case, lambda smaller: _alike(failures, run(spark, smaller)), shrink_seconds, suspects)
    return report(smallest, run(spark, smallest) or failures)


def run(spark: Any, case: Case) -> list[Failure]:
    """What does not hold. Some cases run with their state in two partitions, which costs more."""
    partitions = 2 if case.seed % 8 == 4 else 1
    [outcome] = run_once([parser.parse(case.spec(), Path(f"seed-{case.seed}.spec"))], spark, False, partitions)
    return outcome.failures


def report(case: Case, failures: list[Failure]) -> str:
    """The case as a spec file, and what failed."""
    reports = "\n".join(failure.render() for failure in failures[:3])
    return f"seed {case.seed} fails; the smallest case found:\n\n{case.spec()}\n{reports}"


def _alike(failures: list[Failure], others: list[Failure]) -> bool:
    """True if a smaller case fails in the same way: a rejected statement is not a wrong answer."""
    kinds = {failure.rejected for failure in failures}
    return any(other.rejected in kinds for other in others)
