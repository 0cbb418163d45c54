"""Runs a kernel beside its naive model, as the engine would: in blocks, over stored state, with restarts in between."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.model.reference import Change, Row, model, picked, plain
from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.ir.specs import KernelSpec
from tidegate.kernels import make
from tidegate.kernels.api import Clock, Delta
from tidegate.kernels.state import CACHE, MemorySegments, Store

AS_IT_IS, COLD, AFTER_A_FAILURE = range(3)
"""How a step begins: with the cache of the last one, with none, or after an attempt that was lost."""


@dataclass
class Given:
    """One change as it is drawn: a row that comes, or (delete) one of those present; and the block it travels in."""

    row: Mapping[str, Any]
    delete: bool
    choice: int
    block: int


@dataclass
class Bench:
    spec: KernelSpec
    schema: Mapping[str, pl.DataType]
    key: Sequence[str]
    hashes: Sequence[tuple[str, Sequence[str]]] = ()
    ports: int = 1
    modulus: int = 0
    segments: MemorySegments = field(default_factory=MemorySegments)
    output: Counter[Row] = field(default_factory=Counter)
    steps: int = 0

    def __post_init__(self) -> None:
        self.kernel, self.model = make(self.spec), model(self.spec)

    def step(self, inputs: Sequence[Sequence[tuple[Change, int]]], begin: int = AS_IT_IS) -> Delta:
        """One step of both; what the kernel emits must lead to what the model says."""
        self.steps += 1
        if begin == COLD:
            CACHE.clear()
        if begin == AFTER_A_FAILURE:
            self._run(self.segments.copy(), [side[:1] for side in inputs])
        delta = self._run(self.segments, inputs)
        self._integrate(delta)
        self.model.step(self.steps, [[change for change, _ in side] for side in inputs])
        assert self.output == self.model.content()
        assert self._content() == self.output
        return delta

    def _run(self, segments: MemorySegments, inputs: Sequence[Sequence[tuple[Change, int]]]) -> Delta:
        state = Store(segments)
        frames = [self._combined(port, side) for port, side in enumerate(inputs)]
        delta = self.kernel.step(frames, Clock(self.steps, 0), state, first=self.steps == 1)
        state.commit()
        return delta

    def _combined(self, port: int, side: Sequence[tuple[Change, int]]) -> pl.DataFrame | None:
        """Blocks combined each by itself; the first two are combined once more, as a busy sender does."""
        numbers = sorted({block for _, block in side})
        blocks = [self.frame([change for change, block in side if block == number]) for number in numbers]
        done = [self.kernel.combine(port, block) for block in blocks]
        if len(done) > 2:
            done = [self.kernel.combine(port, pl.concat(done[:2])), *done[2:]]
        return pl.concat(done) if done else None

    def frame(self, changes: Sequence[Change]) -> pl.DataFrame:
        data: dict[str, list[Any]] = {name: [change.row[name] for change in changes] for name in self.schema}
        rows = pl.DataFrame(data, schema=self.schema, strict=False)
        filed = [(HASH, self.key), *self.hashes]
        extra = {name: [self._hash(change.row, columns) for change in changes] for name, columns in filed}
        extra |= {WEIGHT: [change.weight for change in changes], SEQ: [change.place for change in changes]}
        return rows.with_columns(pl.Series(name, values, dtype=pl.Int64) for name, values in extra.items())

    def _hash(self, row: Mapping[str, Any], columns: Sequence[str]) -> int:
        text = repr(picked(row, columns)).encode()
        spread = zlib.crc32(text) << 32 | zlib.crc32(text[::-1])
        return (spread % self.modulus if self.modulus else spread) - (self.modulus // 2 or 1 << 63)

    def _integrate(self, delta: Delta) -> None:
        if delta.rows is None:
            return
        assert delta.rows.height > 0
        changed: Counter[Row] = Counter()
        weights = delta.rows[WEIGHT].to_list()
        assert weights == sorted(weights, key=lambda weight: weight > 0), "retractions come first"
        for row, weight in zip(_rows(delta.rows), weights, strict=True):
            assert weight != 0 and (changed[row] == 0 or changed[row] * weight > 0), "a row with both signs"
            changed[row] += weight
        for row, weight in changed.items():
            self.output[row] += weight
            assert self.output[row] >= 0
            if self.output[row] == 0:
                del self.output[row]

    def _content(self) -> Counter[Row]:
        found = self.kernel.content(Store(self.segments))
        result: Counter[Row] = Counter()
        if found is not None:
            for row, weight in zip(_rows(found), found[WEIGHT].to_list(), strict=True):
                result[row] += weight
        return result


def _rows(frame: pl.DataFrame) -> list[Row]:
    return [tuple(plain(value) for value in row) for row in frame.drop(WEIGHT).iter_rows()]


def steps(row: st.SearchStrategy[Mapping[str, Any]], deletes: bool, ports: int = 1, most: int = 6) -> Any:
    """Random steps: per port a list of what is given, and how the step begins."""
    change = st.builds(Given, row, st.booleans() if deletes else st.just(False), st.integers(0, 50), st.integers(0, 3))
    side = st.lists(change, max_size=8)
    one = st.tuples(st.lists(side, min_size=ports, max_size=ports), st.integers(0, 2))
    return st.lists(one, min_size=1, max_size=most)


def play(bench: Bench, drawn: Sequence[tuple[Sequence[Sequence[Given]], int]], places: bool = False) -> None:
    """Plays random steps: a delete takes one of the rows that are present on its side."""
    present: list[list[Mapping[str, Any]]] = [[] for _ in range(bench.ports)]
    for sides, begin in drawn:
        inputs = []
        for port, side in enumerate(sides):
            changes = []
            for place, given in enumerate(side):
                if given.delete and present[port]:
                    row, weight = present[port].pop(given.choice % len(present[port])), -1
                else:
                    row, weight = given.row, 1
                    present[port].append(row)
                changes.append((Change(row, weight, place if places else 0), given.block))
            inputs.append(changes)
        bench.step(inputs, begin)
