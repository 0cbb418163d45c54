"""Runs packs of random pipelines: many of them in one database, under other names, so that a step of all is one step of
Spark. Reports what differs from the simulator."""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tidegate
from tests.differential.compare import Changelog, canonical, differing, mark_of, rounded, rows_of
from tests.differential.generate import make
from tests.differential.groups import Grouped
from tests.differential.history import make_beats
from tests.differential.inputs import Row
from tests.differential.marks import IDLE, START
from tests.differential.pipeline import Beat, Change, Join, Pipeline, Select, Step
from tests.differential.script import spec_of
from tests.differential.shrink import shrink
from tests.differential.simulator import Outcome, Simulator
from tidegate.database import runtime_of
from tidegate.testing.spec.engine import INTERPRETED

RELATION = re.compile(r"\b([svm]\d+)\b")


@dataclass(frozen=True)
class Pack:
    beats: tuple[Beat, ...]
    pipelines: tuple[Pipeline, ...]


@dataclass(frozen=True)
class Difference:
    """What is wrong with one pipeline of a pack, in which step; `refused`: a statement was rejected."""

    pipeline: int
    step: int
    texts: tuple[str, ...]
    refused: bool = False

    @property
    def text(self) -> str:
        return f"step {self.step + 1}: " + "\n".join(self.texts)


def make_pack(seed: int, pipelines: int, steps: int) -> Pack:
    beats = make_beats(random.Random(seed), steps)
    return Pack(beats, tuple(make(seed * 1000 + number, beats) for number in range(pipelines)))


def run(spark: Any, pack: Pack) -> list[Difference]:
    """The first difference of every pipeline that has one. A pack that stops is run again in halves."""
    with tempfile.TemporaryDirectory(prefix="tidegate-differential-") as folder:
        running = _Running(spark, Path(folder) / "data", pack)
        try:
            for number in range(len(pack.beats)):
                running.step(number)
            return sorted(running.differences.values(), key=lambda one: one.pipeline)
        except tidegate.PipelineError as error:
            if len(pack.pipelines) == 1:
                return [Difference(0, len(pack.beats) - 1, (str(error),))]
        finally:
            running.close()
    half = len(pack.pipelines) // 2
    first, second = (replace(pack, pipelines=part) for part in (pack.pipelines[:half], pack.pipelines[half:]))
    return run(spark, first) + [replace(one, pipeline=one.pipeline + half) for one in run(spark, second)]


def report(spark: Any, pack: Pack, found: Difference, rounds: int = 4) -> str:
    """The smallest pipeline found that differs in the same way, as a spec file, and its difference."""

    def fails(pipelines: Sequence[Pipeline], beats: tuple[Beat, ...]) -> list[bool]:
        alike = {one.pipeline for one in run(spark, Pack(beats, tuple(pipelines))) if one.refused == found.refused}
        return [number in alike for number in range(len(pipelines))]

    ends = max(found.step, 0) + 1
    whole = pack.pipelines[found.pipeline]
    short = replace(whole, steps=whole.steps[:ends])
    pipeline, beats = shrink(short, pack.beats[:ends], fails, rounds)
    again = run(spark, Pack(beats, (pipeline,)))
    return f"{spec_of(pipeline, beats)}\n{(again[0] if again else found).text}\n"


class _Running:
    def __init__(self, spark: Any, folder: Path, pack: Pack) -> None:
        self._spark, self._folder, self._pack = spark, folder, pack
        self._db = self._connect()
        self.differences: dict[int, Difference] = {}
        self._models = [Simulator(pipeline) for pipeline in pack.pipelines]
        for number, pipeline in enumerate(pack.pipelines):
            try:
                self._db.sql(renamed(pipeline.sql, number))
            except tidegate.Error as error:
                self.differences[number] = Difference(number, -1, (str(error),), refused=True)
        self._logs = {number: self._changelogs(number) for number in self._alive()}

    def _connect(self) -> tidegate.Database:
        config = {"spark.sql.shuffle.partitions": "1", **INTERPRETED}
        return tidegate.connect(str(self._folder), spark=self._spark, config=config, clock="virtual")

    def close(self) -> None:
        self._db.close()

    def _alive(self) -> list[int]:
        return [number for number in range(len(self._pack.pipelines)) if number not in self.differences]

    def _changelogs(self, number: int) -> dict[str, Changelog]:
        logs = {}
        for name, state in self._models[number].views.items():
            key = state.query.key
            unknown = self._hides_key(number, name)
            if self._joined(number, name):
                key, hidden = self._key_of_join(renamed(name, number))
                unknown = hidden or self._fires_early(number, name)
            logs[name] = Changelog(name, key, self._db.kind(renamed(name, number)), unknown)
        return logs

    def _joined(self, number: int, name: str) -> Join | None:
        """The join whose rows a view has, as they are or as a projection selects them."""
        view = self._models[number].views.get(name)
        if view is None or isinstance(view.view.query, Join):
            return None if view is None else view.view.query
        return self._joined(number, view.view.query.source) if isinstance(view.view.query, Select) else None

    def _hides_key(self, number: int, name: str) -> bool:
        """True if a view, or one that it is a projection of, does not select all that identifies its groups."""
        view = self._models[number].views.get(name)
        if view is None or isinstance(view.query, Grouped):
            return view is not None and view.query.key is None
        return isinstance(view.view.query, Select) and self._hides_key(number, view.view.query.source)

    def _fires_early(self, number: int, name: str) -> bool:
        join = self._joined(number, name)
        return join is not None and join.early is not None

    def _key_of_join(self, view: str) -> tuple[tuple[int, ...] | None, bool]:
        """What the engine calls the key of a join of keyed relations, others have none; True if not all of it is
        selected."""
        key = runtime_of(self._db).catalog.value.get(view).key
        names = [column.name for column in self._db.schema(view)]
        if key is None or any(column not in names for column in key):
            return None, key is not None
        return tuple(names.index(column) for column in key), False

    def step(self, number: int) -> None:
        beat = self._pack.beats[number]
        if beat.restart:
            self._db.close()
            self._db = self._connect()
        self._feed([(at, self._pack.pipelines[at].steps[number]) for at in self._alive()])
        if beat.clock:
            self._db.advance_clock(timedelta(seconds=beat.clock))
        if beat.end:
            self._db.end_inputs()
        ran = list(self._db.step().steps)
        late, marks = self._late(), self._marks()
        for at in self._alive():
            outcome = self._models[at].step(self._pack.pipelines[at].steps[number], beat)
            texts = self._differences(at, outcome, late, marks, ran)
            if texts:
                self.differences[at] = Difference(at, number, tuple(texts))

    def _feed(self, steps: Sequence[tuple[int, Step]]) -> None:
        if not any(step.changes or step.advances for _, step in steps):
            return
        with self._db.batch() as batch:
            for at, step in steps:
                for change in step.changes:
                    relation = renamed(change.relation, at)
                    if change.action == "INSERT":
                        batch.insert(relation, [self._values(at, change)])
                    else:
                        batch.delete(relation, [self._deleted(at, change)])
                for relation, column, value in step.advances:
                    batch.advance(f"{renamed(relation, at)}.{column}", _time(value))

    def _values(self, at: int, change: Change) -> dict[str, Any]:
        relation = self._models[at].relations[change.relation]
        times = {"ts"}
        return {name: _time(value) if name in times else value for name, value in relation.record(change.row).items()}

    def _deleted(self, at: int, change: Change) -> dict[str, Any]:
        values = self._values(at, change)
        return {"id": values["id"]} if "id" in values else values

    def _late(self) -> Counter[tuple[str, str | None, str]]:
        return Counter(self._db.query("SELECT relation, view, op FROM system.late_rows").rows())

    def _marks(self) -> Counter[tuple[str, str, Any]]:
        found = self._db.query("SELECT relation, `column`, value FROM system.watermarks").rows()
        return Counter((relation, column, mark_of(value)) for relation, column, value in found)

    def _differences(
        self, at: int, outcome: Outcome, late: Counter[Any], marks: Counter[Any], ran: list[int]
    ) -> list[str]:
        model = self._models[at]
        found = []
        for name in model.views:
            actual = rows_of(self._db.query(f"SELECT * FROM {renamed(name, at)}").rows())
            found.append(differing(name, rounded(outcome.contents[name]), actual))
            if self._logs[at][name].adds_up:
                found += self._follow(at, name, ran)
                found.append(differing(f"the changes of {name}", actual, self._logs[at][name].content))
        mine = f"p{at}_"
        found.append(differing("late rows", self._of_used(at, +outcome.late), self._of_used(at, _own(late, mine))))
        found.append(self._wrong_marks(at, outcome, _own(marks, mine)))
        return [text for text in found if text is not None]

    def _used(self, at: int) -> set[str]:
        """The views and what they read: nothing is known of an input that no view reads."""
        return {name for view in self._pack.pipelines[at].views for name in (view.name, *view.query.sources)}

    def _of_used(self, at: int, records: Counter[Any]) -> Counter[Any]:
        return Counter({record: count for record, count in records.items() if record[0] in self._used(at)})

    def _wrong_marks(self, at: int, outcome: Outcome, actual: Counter[Any]) -> str | None:
        """Watermarks that differ, of views and of the inputs that they read. What has no value yet may be absent."""
        own = {name: marks for name, marks in outcome.marks.items() if name in self._used(at)}
        expected = {(name, column, canonical(mark)) for name, marks in own.items() for column, mark in marks.items()}
        if any(mark == IDLE for _, _, mark in expected):
            return None
        known = Counter({record: 1 for record in expected if record[2] != START})
        return differing("watermarks", known, Counter({one: 1 for one in actual if one[2] != START and one[0] in own}))

    def _follow(self, at: int, view: str, ran: list[int]) -> list[str | None]:
        if not ran:
            return []
        changes = self._db.changes(renamed(view, at), from_step=min(ran), to_step=max(ran))
        batches: dict[int, list[tuple[str, int, Row]]] = {}
        for change in changes:
            [row] = rows_of([list(change.row.values())])
            batches.setdefault(change.step, []).append((change.op, change.weight, row))
        return [self._logs[at][view].apply(batches[step]) for step in sorted(batches)]


def renamed(text: str, number: int) -> str:
    return RELATION.sub(rf"p{number}_\1", text)


def _own(found: Counter[Any], prefix: str) -> Counter[Any]:
    """The records of one pipeline, under the names that the simulator has for its relations."""
    own: Counter[Any] = Counter()
    for record, count in found.items():
        if record[0].startswith(prefix):
            own[tuple(part.removeprefix(prefix) if isinstance(part, str) else part for part in record)] += count
    return own


def _time(value: Any) -> Any:
    if value is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(seconds=value)
