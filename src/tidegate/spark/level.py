"""What a level does with a step's blocks: each op's kernel over its state, bucket by bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState

from tidegate.circuit.model import RejectedRows
from tidegate.core.columns import ORDER, SEQ, WEIGHT
from tidegate.ir.specs import KernelSpec
from tidegate.kernels.api import Clock, Delta
from tidegate.kernels.state import Store
from tidegate.spark import blocks, codec
from tidegate.spark.blocks import Block
from tidegate.spark.clock import ClockSource
from tidegate.spark.compat import batch_of_task
from tidegate.spark.exchange import Exchange
from tidegate.spark.late_rows import late_block
from tidegate.spark.pack import kernel_of, output_block


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


class MapSegments:
    """Segments in Spark's own state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else bytes(value[0])

    def put(self, name: str, blob: bytes) -> None:
        self._state.updateValue((name,), (blob,))

    def delete(self, name: str) -> None:
        self._state.removeKey((name,))

    def scan(self, low: str, high: str) -> Iterator[tuple[str, bytes]]:
        items = ((key[0], bytes(value[0])) for key, value in self._state.iterator())
        return iter(sorted(item for item in items if low <= item[0] < high))


class LevelRunner:
    """Runs the kernels of one level. Blocks for other levels and for the outputs pass through."""

    def __init__(self, ops: dict[str, LevelOp], clock: ClockSource, spill: str, exchange: Exchange) -> None:
        self.ops, self.clock, self.spill, self.exchange = ops, clock, spill, exchange

    def handle(self, state: MapState, key: Any, rows: Iterator[Row]) -> Iterator[Row]:
        """Run one step of one bucket of one op."""
        address, bucket = key
        op = self.ops.get(address)
        if op is None:
            yield from rows
            return
        arrived = (Block(row.op, row.bucket, row.tag, bytes(row.payload)) for row in rows)
        records = [self.exchange.receive(block) for block in arrived]
        for block in self._run(MapSegments(state), address, bucket, op, records):
            yield Row(op=block.op, bucket=block.bucket, tag=block.tag, payload=block.payload)

    def _run(
        self, segments: MapSegments, address: str, bucket: int, op: LevelOp, records: list[Block]
    ) -> Iterator[Block]:
        for block in records:
            if block.tag == blocks.RESTORE:
                name, blob = block.payload.split(b"\0", 1)
                segments.put(name.decode(), blob)
        state = Store(segments)
        before, overflow = state.groups, 0
        if any(block.tag == blocks.REPLAY for block in records):
            yield from self._replay(address, op, kernel_of(op.kernel).content(state))
        if all(block.tag in (blocks.RESTORE, blocks.REPLAY) for block in records):
            return
        clock = self.clock.now()
        content = _inputs(op, records, blocks.CONTENT)
        if any(rows is not None for rows in content):
            # Content from before this op began is never late; the watermarks apply to new rows.
            no_watermarks = replace(clock, watermarks={}, previous_watermarks={})
            delta = kernel_of(op.kernel).step(content, no_watermarks, state, state.fresh)
            state.commit()
            yield from self._emit(address, op, delta, no_watermarks)
            overflow = _overflow(delta)
            state = Store(segments)
        delta = kernel_of(op.kernel).step(_inputs(op, records), clock, state, state.fresh)
        state.commit()
        yield from self._emit(address, op, delta, clock)
        stats: dict[str, Any] = {
            "state": {address: {str(bucket): [*state.stats(), delta.evicted]}},
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
