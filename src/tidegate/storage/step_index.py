"""The index of the step log: where each relation begins, which snapshots there are, what was compacted away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.storage.documents import Document
from tidegate.storage.objects import Storage


@dataclass(frozen=True)
class StepIndex:
    """`compacted`: the last step that was folded into snapshots and removed. `since`: the step after which the content
    of a relation begins, 0 if it is not named. `snapshots`: the steps after which the content of a relation is stored,
    in order."""

    compacted: int
    since: Mapping[str, int]
    snapshots: Mapping[str, tuple[int, ...]]

    def start_of(self, relation: str) -> int:
        return self.since.get(relation, 0)

    def with_begin(self, relation: str, after: int) -> StepIndex:
        return replace(self, since={**self.since, relation: after})

    def with_snapshot(self, relation: str, step: int) -> StepIndex:
        steps = tuple(sorted({*self.snapshots.get(relation, ()), step}))
        return replace(self, snapshots={**self.snapshots, relation: steps})

    def with_compacted(self, step: int) -> StepIndex:
        """The index without obsolete snapshots: of those up to `step` only the newest is needed."""
        snapshots = {
            relation: tuple(
                each for each in steps if each >= max((other for other in steps if other <= step), default=0)
            )
            for relation, steps in self.snapshots.items()
        }
        return replace(self, compacted=step, snapshots=snapshots)


EMPTY = StepIndex(0, {}, {})


def document(storage: Storage) -> Document[StepIndex]:
    return Document(storage, "views/relations.json", "index", StepIndex)
