"""The outcome of running a spec: what every view emitted, and failed checks with expected and actual side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.testing.spec import model
from tidegate.testing.spec.compare import Diff
from tidegate.testing.spec.consolidate import Emitted
from tidegate.testing.spec.engine import Engine

Emissions = dict[str, tuple[Emitted, ...]]


@dataclass(frozen=True)
class Failure:
    """A failed check. `rejected`: the engine rejected a statement or input that it should accept."""

    path: Path
    line: int
    title: str
    step: str
    mode: str
    message: str
    detail: tuple[str, ...] = ()
    plan: str | None = None
    rejected: bool = False

    def render(self) -> str:
        lines = [f"{self.path}:{self.line}  {self.message}", f"  {self.title}"]
        if self.step:
            lines.append(f"  step: {self.step}")
        if self.mode:
            lines.append(f"  run: {self.mode}")
        lines += [f"    {line}" for line in self.detail]
        if self.plan:
            lines += ["  EXPLAIN", *(f"    {line}" for line in self.plan.splitlines())]
        return "\n".join(lines)


def side_by_side(
    diff: Diff, expected: Sequence[str], actual: Sequence[str], heads: tuple[str, str] = ("expected", "actual")
) -> tuple[str, ...]:
    """
      expected       actual
      +I a | 15      +I a | 15
    - -U b | 1                     missing
    +                +I c | 1      unexpected
    """
    rows = [(" ", expected[one], actual[other], "") for one, other in diff.agreed]
    rows += [("-", expected[one], "", "missing") for one in diff.missing]
    rows += [("+", "", actual[other], "unexpected") for other in diff.unexpected]
    left = max([len(heads[0]), *(len(row[1]) for row in rows)])
    right = max([len(heads[1]), *(len(row[2]) for row in rows)])
    lines = [f"  {heads[0]:<{left}}    {heads[1]}"]
    lines += [f"{sign} {one:<{left}}    {other:<{right}}  {word}".rstrip() for sign, one, other, word in rows]
    return tuple(lines)


class Stop(Exception):
    """Ends the run of a spec, because later checks would fail for the same reason."""


@dataclass
class Outcome:
    """One run of one spec, so far."""

    spec: model.Spec
    engine: Engine
    mode: str
    failures: list[Failure] = field(default_factory=list)
    emissions: list[tuple[model.Run, Emissions]] = field(default_factory=list)

    @property
    def emitted(self) -> Emissions:
        """What every view emitted in the last step."""
        return self.emissions[-1][1] if self.emissions else {}

    def fail(
        self, line: int, message: str, detail: Sequence[str] = (), view: str | None = None, rejected: bool = False
    ) -> None:
        """Record a failure of the last step."""
        plan = self.engine.plan(view) if view is not None else None
        step = self.emissions[-1][0].title if self.emissions else ""
        self.failures.append(
            Failure(self.spec.path, line, self.spec.title, step, self.mode, message, tuple(detail), plan, rejected)
        )
