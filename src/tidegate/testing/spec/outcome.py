"""What came of running a spec file: failed checks, and what every view emitted in every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.testing.spec import model
from tidegate.testing.spec.consolidate import Emitted
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.report import Failure

Emissions = dict[str, tuple[Emitted, ...]]


class Stop(Exception):
    """The run cannot go on: what follows would only fail because of this."""


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
        """What views emitted in the last step."""
        return self.emissions[-1][1] if self.emissions else {}

    def fail(
        self, line: int, message: str, detail: Sequence[str] = (), view: str | None = None, refused: bool = False
    ) -> None:
        """Records a failure in the step that ran last."""
        plan = self.engine.plan(view) if view is not None else None
        step = self.emissions[-1][0].title if self.emissions else ""
        self.failures.append(
            Failure(self.spec.path, line, self.spec.title, step, self.mode, message, tuple(detail), plan, refused)
        )
