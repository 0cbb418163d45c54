"""Runs a kernel and its naive model side by side, in blocks, on stored state, with restarts."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.model.reference import Change, Row, model, picked, plain
from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.ir.specs import KernelSpec
from tidegate.kernels import make
from tidegate.kernels.api import Clock, Delta
from tidegate.kernels.state import CACHE, MemorySegments, Store

WARM, COLD, AFTER_A_FAILURE = range(3)
"""How a step starts: with the chunk cache of the last step, with an empty cache, or after a lost attempt."""

BlockChanges = Sequence[tuple[Change, int]]
"""Changes, each with the number of its block."""


@dataclass
class DrawnChange:
    """One change as Hypothesis draws it: a row to insert, or (`delete`) which of the current rows to delete."""

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

    def step(self, inputs: Sequence[BlockChanges], begin: int = WARM) -> Delta:
        """One step of kernel and model: the changes that the kernel emits must add up to the content of the model."""
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

    def _run(self, segments: MemorySegments, inputs: Sequence[BlockChanges]) -> Delta:
        state = Store(segments)
        frames = [self.input_frame(port, side) for port, side in enumerate(inputs)]
        delta = self.kernel.step(frames, Clock(self.steps, 0), state, first=self.steps == 1)
        state.commit()
        return delta

    def input_frame(self, port: int, changes: BlockChanges) -> pl.DataFrame | None:
        return self.combine(port, self.blocks(changes))

    def combine(self, port: int, blocks: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
        """Combines each block; the first two are combined once more, as a sender with many rows does."""
        combined = [self.kernel.combine(port, block) for block in blocks]
        if len(combined) > 2:
            combined = [self.kernel.combine(port, pl.concat(combined[:2])), *combined[2:]]
        return pl.concat(combined) if combined else None

    def blocks(self, changes: BlockChanges) -> Iterator[pl.DataFrame]:
        """One frame per block. All of them are slices of one frame, which is much faster to build than many."""
        by_block = sorted(changes, key=lambda change: change[1])
        if by_block:
            rows, start = self.frame([change for change, _ in by_block]), 0
            for _, block in groupby(by_block, key=lambda change: change[1]):
                length = len(list(block))
                yield rows.slice(start, length)
                start += length

    def frame(self, changes: Sequence[Change]) -> pl.DataFrame:
        data: dict[str, list[Any]] = {name: [change.row[name] for change in changes] for name in self.schema}
        for name, columns in [(HASH, self.key), *self.hashes]:
            data[name] = [self._hash(change.row, columns) for change in changes]
        data[WEIGHT] = [change.weight for change in changes]
        data[SEQ] = [change.position for change in changes]
        internal = {name: pl.Int64() for name in data if name not in self.schema}
        return pl.DataFrame(data, schema={**self.schema, **internal}, strict=False)

    def _hash(self, row: Mapping[str, Any], columns: Sequence[str]) -> int:
        text = repr(picked(row, columns)).encode()
        spread = zlib.crc32(text) << 32 | zlib.crc32(text[::-1])
        return (spread % self.modulus if self.modulus else spread) - (self.modulus // 2 or 1 << 63)

    def _integrate(self, delta: Delta) -> None:
        if delta.rows is None:
            return
        assert delta.rows.height > 0
        net: Counter[Row] = Counter()
        weights = delta.rows[WEIGHT].to_list()
        assert weights == sorted(weights, key=lambda weight: weight > 0), "retractions come first"
        for row, weight in zip(_rows(delta.rows), weights, strict=True):
            assert weight != 0 and (net[row] == 0 or net[row] * weight > 0), "a row with both signs"
            net[row] += weight
        for row, weight in net.items():
            self.output[row] += weight
            assert self.output[row] >= 0
            if self.output[row] == 0:
                del self.output[row]

    def _content(self) -> Counter[Row]:
        content = self.kernel.content(Store(self.segments))
        result: Counter[Row] = Counter()
        if content is not None:
            for row, weight in zip(_rows(content), content[WEIGHT].to_list(), strict=True):
                result[row] += weight
        return result


def _rows(frame: pl.DataFrame) -> list[Row]:
    return [tuple(plain(value) for value in row) for row in frame.drop(WEIGHT).iter_rows()]


def steps(row: st.SearchStrategy[Mapping[str, Any]], deletes: bool, ports: int = 1, most: int = 6) -> Any:
    """Random steps: a list of changes per port, and how the step starts."""
    side = st.lists(drawn_change(row, deletes), max_size=8)
    one = st.tuples(st.lists(side, min_size=ports, max_size=ports), st.integers(0, 2))
    return st.lists(one, min_size=1, max_size=most)


def drawn_change(row: st.SearchStrategy[Mapping[str, Any]], deletes: bool) -> st.SearchStrategy[DrawnChange]:
    delete = st.booleans() if deletes else st.just(False)
    return st.builds(DrawnChange, row, delete, st.integers(0, 50), st.integers(0, 3))


def play(bench: Bench, drawn: Sequence[tuple[Sequence[Sequence[DrawnChange]], int]], positions: bool = False) -> None:
    """Runs random steps; a delete removes one of the current rows of its port."""
    present: list[list[Mapping[str, Any]]] = [[] for _ in range(bench.ports)]
    for sides, begin in drawn:
        inputs = []
        for port, side in enumerate(sides):
            changes = []
            for position, each in enumerate(side):
                if each.delete and present[port]:
                    row, weight = present[port].pop(each.choice % len(present[port])), -1
                else:
                    row, weight = each.row, 1
                    present[port].append(row)
                changes.append((Change(row, weight, position if positions else 0), each.block))
            inputs.append(changes)
        bench.step(inputs, begin)
