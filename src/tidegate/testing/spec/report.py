"""What a failed check looks like: title, place, step, expected and actual side by side, and the view's plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.testing.spec.compare import Diff


@dataclass(frozen=True)
class Failure:
    """A check that does not hold. `refused`: a statement or input was refused that should not have been."""

    path: Path
    line: int
    title: str
    step: str
    mode: str
    message: str
    detail: tuple[str, ...] = ()
    plan: str | None = None
    refused: bool = False

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
    lines += [f"{mark} {one:<{left}}    {other:<{right}}  {word}".rstrip() for mark, one, other, word in rows]
    return tuple(lines)
