"""Random histories: rows out of order, late, equal, NULL, on boundaries and exactly a gap apart; updates and deletes;
watermarks that are moved by hand; clocks that move; inputs that end; databases that are opened again."""

from __future__ import annotations

import random

from tests.differential.pipeline import Beat, Change, Group, Input, Join, Pipeline, Select, Step


def make_beats(random_: random.Random, count: int) -> tuple[Beat, ...]:
    """What happens to a pack of pipelines in each of its steps."""
    beats = []
    for number in range(count):
        clock = random_.choice((1, 4, 5, 10, 16, 30)) if number and random_.random() < 0.35 else 0
        beats.append(Beat(clock, restart=bool(number) and random_.random() < 0.15))
    if random_.random() < 0.5:
        beats[-1] = Beat(end=True)
    return tuple(beats)


def make_steps(pipeline: Pipeline, beats: tuple[Beat, ...], base: int, random_: random.Random) -> tuple[Step, ...]:
    return tuple(_Feeder(pipeline, base, random_).steps(beats))


class _Feeder:
    def __init__(self, pipeline: Pipeline, base: int, random_: random.Random) -> None:
        tables = {view.late_to for view in pipeline.views}
        self._inputs = [one for one in pipeline.inputs if one.name not in tables]
        self._joins = any(isinstance(view.query, Join) for view in pipeline.views)
        self._random = random_
        self._cursor = base + random_.choice((-25, -10, 0, 0, 3))
        self._used = [self._cursor]
        self._rows: dict[str, list[tuple[object, ...]]] = {one.name: [] for one in self._inputs}
        self._distances = sorted({5, 10, *_distances(pipeline)})

    def steps(self, beats: tuple[Beat, ...]) -> list[Step]:
        made = []
        idle = any(one.idle_timeout is not None for one in self._inputs)
        for number, beat in enumerate(beats):
            quiet = beat.end or (beat.clock and (idle or self._random.random() < 0.5))
            made.append(Step() if quiet else self._step(number == 0))
        return made

    def _step(self, first: bool) -> Step:
        self._cursor += self._random.choice((0, 3, 5, 10, 10, 20, 37))
        changes: list[Change] = []
        advances = []
        for one in self._inputs:
            begins = first and one.idle_timeout is not None and (self._joins or self._random.random() < 0.7)
            if begins:
                changes.append(Change(one.name, "INSERT", self._row(one, certain=True)))
            changes += [self._change(one) for _ in range(self._random.choice((0, 1, 1, 2, 3, 4)))]
            if (one.watermark or one.lateness or one.hold_back) and self._random.random() < 0.08:
                advances.append((one.name, "ts", self._cursor + self._random.choice((-10, 0, 5, 20))))
        return Step(tuple(changes), tuple(advances))

    def _change(self, one: Input) -> Change:
        known = self._rows[one.name]
        if one.kind == "keyed" and self._random.random() < 0.2:
            return Change(one.name, "DELETE", (self._random.randint(1, 4), None, None, None))
        if one.kind == "bag" and known and self._random.random() < 0.25:
            return Change(one.name, "DELETE", known.pop(self._random.randrange(len(known))))
        row = self._random.choice(known) if known and self._random.random() < 0.08 else self._row(one)
        known.append(row)
        return Change(one.name, "INSERT", row)

    def _row(self, one: Input, certain: bool = False) -> tuple[object, ...]:
        text = None if self._random.random() < 0.05 else self._random.choice("aaab")
        number = None if self._random.random() < 0.05 else self._random.randint(-3, 9)
        time = None if not certain and self._random.random() < 0.03 else self._time()
        row = (text, number, time)
        return (self._random.randint(1, 4), *row) if one.kind == "keyed" else row

    def _time(self) -> int:
        match self._random.choice(("near", "near", "grid", "used", "apart", "apart", "behind", "far")):
            case "near":
                time = self._cursor + self._random.randint(-3, 6)
            case "grid":
                time = self._cursor // 5 * 5 + self._random.choice((-5, 0, 0, 5, 10))
            case "used":
                time = self._random.choice(self._used[-6:])
            case "apart":
                time = self._random.choice(self._used[-6:]) + self._random.choice((-1, 1, 1)) * self._random.choice(
                    self._distances
                )
            case "behind":
                time = self._cursor - self._random.randint(5, 25)
            case _:
                time = self._cursor + self._random.choice((-60, -40, 15, 30))
        self._used.append(time)
        return time


def _distances(pipeline: Pipeline) -> list[int]:
    """Sizes, gaps and bounds: rows exactly so far apart are the interesting ones."""
    found: list[int] = []
    for view in pipeline.views:
        found += [view.allowed] if view.allowed else []
        if isinstance(view.query, Group | Select) and view.query.window is not None:
            found += view.query.window.sizes
        if isinstance(view.query, Join):
            found += [view.query.low, view.query.high]
    return found
