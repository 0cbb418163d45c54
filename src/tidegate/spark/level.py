"""What a level does with a step's blocks: each op's kernel over its state, bucket by bucket, inside `mapInArrow`.

All blocks of a bucket are in one partition. Its state is read from the objects that the manifest of the step before
names; what changes is written as new objects, which the driver makes the state of this step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.circuit.model import RejectedRows
from tidegate.core.columns import ORDER, SEQ, WEIGHT
from tidegate.ir.specs import KernelSpec
from tidegate.kernels.api import Clock, Delta
from tidegate.kernels.evicting import Adopting
from tidegate.kernels.state import Store
from tidegate.spark import blocks, codec
from tidegate.spark.blocks import Block
from tidegate.spark.clock import ClockSource
from tidegate.spark.compat import batch_of_task
from tidegate.spark.exchange import Exchange
from tidegate.spark.late_rows import late_block
from tidegate.spark.pack import kernel_of, output_block
from tidegate.storage.objects import LocalStorage
from tidegate.storage.state import BucketSegments, Manifest, ObjectWriter
from tidegate.storage.step_log import read_state


@dataclass(frozen=True)
class Direct:
    """An output that is a plain selection of an op's columns: no need to pass through Spark SQL. (name, column).

    `key`: the output's key, if all changes of a key come from one bucket and readers see all of it. Then what readers
    will see of a step follows from each bucket's changes alone, and need not wait for the driver.
    """

    address: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LevelOp:
    """How a level runs one op: its kernel, and where its rows go. `raw`: Spark SQL follows."""

    kernel: KernelSpec
    ports: int
    columns: tuple[str, ...]
    raw: bool
    direct: tuple[Direct, ...]
    replay_raw: bool
    replay_direct: tuple[Direct, ...]
    rejected: tuple[RejectedRows | None, ...] = ()


@dataclass(frozen=True)
class StateSource:
    """Where the state of a generation is: the data folder, and the ops whose state it takes over from the generation
    before, whose last step was `base_step`. `launch` tells apart the runs of a query, which workers outlive: a folder
    at the same path may be another one."""

    launch: str
    folder: str
    base_step: int
    carried: frozenset[str]

    def after(self, step: int) -> Manifest:
        """The state after a step, of the ops that have any."""
        return _manifest(self, step)


@lru_cache(maxsize=4)
def _manifest(source: StateSource, step: int) -> Manifest:
    manifest = read_state(LocalStorage(Path(source.folder)), step)
    return manifest.only(source.carried) if step == source.base_step else manifest


class LevelRunner:
    """Runs the kernels of one level. Blocks for other levels and for the outputs pass through."""

    def __init__(
        self, ops: dict[str, LevelOp], clock: ClockSource, state: StateSource, spill: str, exchange: Exchange
    ) -> None:
        self.ops, self.clock, self.state, self.spill, self.exchange = ops, clock, state, spill, exchange

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one step of all buckets of a partition."""
        by_bucket: dict[tuple[str, int], list[Block]] = {}
        for batch in batches:
            passing = []
            for block in blocks.from_batch(batch):
                if block.op in self.ops:
                    by_bucket.setdefault((block.op, block.bucket), []).append(block)
                else:
                    passing.append(block)
            if passing:
                yield blocks.to_batch(passing)
        if by_bucket:
            yield from self._run_buckets(by_bucket)

    def _run_buckets(self, by_bucket: dict[tuple[str, int], list[Block]]) -> Iterator[pa.RecordBatch]:
        storage = LocalStorage(Path(self.state.folder))
        before = self.state.after(self.clock.step() - 1)
        writer = ObjectWriter(storage)
        for (address, bucket), arrived in sorted(by_bucket.items()):
            segments = BucketSegments(storage, before.buckets.get((address, bucket)))
            records = [self.exchange.receive(block) for block in arrived]
            arrived.clear()
            yield blocks.to_batch(self._run(segments, address, bucket, self.ops[address], records))
            if segments.changed:
                sealed = segments.seal(writer, before.sparse, *Store(segments).stats())
                yield _stats({"state": {address: {str(bucket): sealed.to_json()}}})
        writer.close()
        if writer.sizes:
            yield _stats({"objects": writer.sizes})

    def _run(
        self, segments: BucketSegments, address: str, bucket: int, op: LevelOp, records: list[Block]
    ) -> Iterator[Block]:
        state = Store(segments)
        kernel = kernel_of(op.kernel)
        if isinstance(kernel, Adopting) and kernel.adopt(state):
            state.commit()
            state = Store(segments)
        before, overflow = state.groups, 0
        if any(block.tag == blocks.REPLAY for block in records):
            yield from self._replay(address, op, kernel.content(state))
        if all(block.tag == blocks.REPLAY for block in records):
            return
        clock = self.clock.now()
        content = _inputs(op, records, blocks.CONTENT)
        if any(rows is not None for rows in content):
            # Content from before this op began is never late; the watermarks apply to new rows.
            no_watermarks = replace(clock, watermarks={}, previous_watermarks={})
            delta = kernel.step(content, no_watermarks, state, state.fresh)
            state.commit()
            yield from self._emit(address, op, delta, no_watermarks)
            overflow = _overflow(delta)
            state = Store(segments)
        delta = kernel.step(_inputs(op, records), clock, state, state.fresh)
        state.commit()
        yield from self._emit(address, op, delta, clock)
        stats: dict[str, Any] = {
            "evicted": {address: delta.evicted},
            "wake": {address: {str(bucket): delta.timer_us}},
            "groups": {address: state.groups - before},
            "overflow": dict.fromkeys(_views(op), overflow + _overflow(delta)),
        }
        yield Block(blocks.STATS, 0, "", json.dumps(stats).encode())

    def _emit(self, address: str, op: LevelOp, delta: Delta, clock: Clock) -> Iterator[Block]:
        if delta.late is not None and delta.late.height:
            rejected = next(rejected for rejected in op.rejected if rejected is not None)
            yield late_block(delta.late, rejected, clock.watermarks.get(rejected.watermark))
        if delta.errors:
            owner = _owner(op)
            own = "" if owner is None else ", ".join(owner.views) or owner.relation
            row_errors = [[error.relation or own, error.code, error.message, error.row] for error in delta.errors]
            yield Block(blocks.ERRORS, 0, "", json.dumps(row_errors).encode())
        if delta.rows is not None and delta.rows.height:
            if ORDER in op.columns:
                delta.rows = delta.rows.rename({SEQ: ORDER})
            yield from self._rows(blocks.RAW + address if op.raw else None, op.direct, op.columns, delta.rows)

    def _replay(self, address: str, op: LevelOp, content: pl.DataFrame | None) -> Iterator[Block]:
        if content is not None and content.height:
            raw = blocks.REPLAYED + address if op.replay_raw else None
            yield from self._rows(raw, op.replay_direct, op.columns, content)

    def _rows(
        self, raw: str | None, direct: tuple[Direct, ...], columns: tuple[str, ...], rows: pl.DataFrame
    ) -> Iterator[Block]:
        for target in direct:
            output = rows.select([pl.col(source).alias(name) for name, source in target.columns] + [pl.col(WEIGHT)])
            # In a generation's first step an output may also retract its old content, which only the driver knows.
            yield output_block(target.address, output, self.spill, target.key if batch_of_task() else None)
        if raw is not None:
            yield self.exchange.send(Block(raw, 0, "", codec.encode(rows.select([*columns, WEIGHT]))))


def _stats(stats: dict[str, Any]) -> pa.RecordBatch:
    return blocks.to_batch([Block(blocks.STATS, 0, "", json.dumps(stats).encode())])


def _owner(op: LevelOp) -> RejectedRows | None:
    return next((rejected for rejected in op.rejected if rejected is not None), None)


def _views(op: LevelOp) -> tuple[str, ...]:
    owner = _owner(op)
    return () if owner is None else owner.views


def _overflow(delta: Delta) -> int:
    """The number of rows that were dropped because the maximum number of groups was reached."""
    return sum(error.count for error in delta.errors if error.code == "GROUP_CAP")


def _inputs(op: LevelOp, records: list[Block], prefix: str = "") -> list[pl.DataFrame | None]:
    """The step's rows of each port, of those under tags with a prefix. Blocks are put in one order, whatever order they
    arrived in, so that a step that is run again computes the same floating-point sums."""
    inputs: list[pl.DataFrame | None] = []
    for port in range(op.ports):
        payloads = sorted(block.payload for block in records if block.tag == f"{prefix}{port}")
        frames = [codec.decode(payload) for payload in payloads]
        inputs.append(pl.concat(frames, how="vertical_relaxed") if frames else None)
    return inputs
