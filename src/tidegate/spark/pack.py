"""Packing rows into blocks and back, inside `mapInArrow`, between Spark SQL and the stateful levels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidegate import kernels
from tidegate.circuit.model import RejectedRows
from tidegate.core import zset
from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import KernelSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import Clock, Grouping, Kernel
from tidegate.spark import blocks, codec
from tidegate.spark.blocks import Block
from tidegate.spark.clock import ClockSource
from tidegate.spark.exchange import Exchange
from tidegate.spark.late_rows import Stats, Watch, admit, classifies_by_state, drop_late
from tidegate.spark.misfits import REASON, Misfit, split_misfits, visible_row
from tidegate.spark.xxhash64 import hashes as hash_columns
from tidegate.storage.blobs import write_blob

NEVER = Clock(0, 0)
"""A clock by which nothing is late."""

SPILL_BYTES = 256 * 1024
COMBINE_ROWS = 1_000_000


@dataclass(frozen=True)
class Target:
    """Where the rows in one struct column of a wide frame go: a port of an op, or an output (no kernel). Without the
    name of a column: the frame has the rows of this target and no others, as plain columns; or, with `select`, it has
    all columns of a relation, of which these are taken as (name, column), and hashes are made of (column, type)."""

    column: str
    address: str
    port: int
    kernel: KernelSpec | None
    hashes: tuple[str, ...]
    buckets: tuple[int, ...]
    guards: tuple[WatermarkTest, ...] = ()
    rejected: RejectedRows | None = None
    watch: Watch | None = None
    accepted: bool = False
    select: tuple[tuple[str, str], ...] | None = None
    hashed: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    def watching(self, number: int, column: str) -> Target:
        """The target with one observed column of its ingress check renamed."""
        assert self.watch is not None
        return replace(self, watch=self.watch.renamed(number, column))


@dataclass(frozen=True)
class PackConfig:
    """What to pack out of a wide frame. `source` names the connector's relation whose rows are counted, if it is one;
    `spill` is the folder for large outputs, by `exchange` large blocks go to their op. `consumers` are the numbers
    under which the driver knows the consumers of the targets."""

    targets: tuple[Target, ...]
    passthrough: bool
    source: str | None
    spill: str
    exchange: Exchange
    clock: ClockSource
    consumers: tuple[int, ...] = ()


@cache
def kernel_of(spec: KernelSpec) -> Kernel:
    """The kernel of a spec, created once per worker."""
    return kernels.make(spec)


def pack(config: PackConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combines, splits by bucket and encodes the rows of every target."""
    return pack_frames(config, _decoded(config, batches))


def _decoded(config: PackConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame | pa.RecordBatch]:
    for batch in batches:
        if config.passthrough:
            yield from _addressed(batch)
        fit, misfits = split_misfits(batch)
        if misfits:
            yield blocks.to_batch([misfit_block(config, misfits)])
        yield fit


def pack_frames(config: PackConfig, frames: Iterable[pl.DataFrame | pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As `pack`, for rows that are frames already; blocks between them pass through unchanged."""
    waiting: dict[Target, Gathered] = {}
    clock = config.clock.now()
    stats = Stats()
    row_count = 0
    for frame in frames:
        if isinstance(frame, pa.RecordBatch):
            yield frame
            continue
        row_count += frame.height
        if "__bad" in frame.columns:
            yield from _bad_rows(config.source or "", frame)
        if "__failed" in frame.columns:
            yield from _failed_rows(config, frame)
        for target in config.targets:
            rows = _rows(frame, target)
            if target.guards:
                rows = drop_late(rows, target.guards, NEVER if target.accepted else clock)
            if target.rejected is not None and target.accepted:
                keeps_columns = classifies_by_state(_kernel(target))
                rows = rows if keeps_columns else rows.drop(list(target.rejected.carried), strict=False)
            elif target.rejected is not None and rows.height:
                spec = _kernel(target)
                rows, row_errors = admit(kernel_of(spec), spec, target.port, rows, target.rejected, clock)
                if row_errors:
                    yield blocks.to_batch(row_errors)
            if rows.is_empty():
                continue
            if target.watch is not None:
                records = target.watch.look(rows, clock, stats)
                if records:
                    yield blocks.to_batch(records)
            elif target.kernel is None:
                yield blocks.to_batch([output_block(target.address, rows, config.spill)])
            else:
                waiting.setdefault(target, Gathered(target)).add(rows)
    for gathered in waiting.values():
        yield blocks.to_batch(config.exchange.send(block) for block in gathered.blocks())
    if config.source and row_count:
        stats.rows_in[config.source] = row_count
    if stats:
        yield blocks.to_batch([stats_block(stats.to_json())])


def _kernel(target: Target) -> KernelSpec:
    assert target.kernel is not None
    return target.kernel


def stats_block(stats: dict[str, object]) -> Block:
    return Block(blocks.STATS, 0, "", json.dumps(stats).encode())


def output_block(address: str, rows: pl.DataFrame, spill: str, key: Sequence[str] | None = None) -> Block:
    """Changes of a logged relation: small ones travel inline, large ones as the name of a file. With a `key` that no
    other block has changes of, the file has them as readers see them."""
    if key is not None and rows.estimated_size() >= SPILL_BYTES:
        return _changes_block(address, zset.changes(rows, (), key, append=False), spill)
    payload = codec.encode(rows)
    if len(payload) < SPILL_BYTES:
        return Block(address, 0, blocks.INLINE, payload)
    record = [write_blob(payload, Path(spill)), *zset.sizes(rows[WEIGHT])]
    return Block(address, 0, blocks.SPILLED, json.dumps(record).encode())


def _changes_block(address: str, changes: pl.DataFrame, spill: str) -> Block:
    record = [write_blob(codec.encode(changes), Path(spill)), *zset.sizes(changes[WEIGHT])]
    return Block(address, 0, blocks.LOGGED, json.dumps(record).encode())


def _addressed(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Blocks that only pass through on their way to a later level."""
    columns = [batch.column(f"__{name}") for name in Block._fields]
    all_blocks = pa.RecordBatch.from_arrays(columns, schema=blocks.ARROW)
    present = all_blocks.filter(columns[0].is_valid())
    if present.num_rows:
        yield present


def _bad_rows(relation: str, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    bad = frame.select("__bad").filter(pl.col("__bad").struct.field("message").is_not_null()).unnest("__bad")
    if bad.height:
        row_errors = [
            [relation, "MALFORMED_ROW", row["message"], row["row"] or ""] for row in bad.iter_rows(named=True)
        ]
        yield blocks.to_batch([Block(blocks.ERRORS, 0, "", json.dumps(row_errors).encode())])


def _failed_rows(config: PackConfig, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Rows for which an expression raised, once for each consumer."""
    failed = frame.select("__failed").filter(pl.col("__failed").is_not_null()).unnest("__failed")
    records = [
        [config.consumers[int(branch)], row, None]
        for branches, row in failed.select("branches", "row").iter_rows()
        for branch in branches.split(",")
        if row
    ]
    if records:
        yield blocks.to_batch([Block(blocks.FAILED, 0, "", json.dumps(records).encode())])


def misfit_block(config: PackConfig, misfits: Iterable[Misfit]) -> Block:
    """Rows with a value that cannot be held: in a source they are malformed, once each; elsewhere their branch has
    failed."""
    if config.source is not None:
        texts = {each.row: each.text for each in misfits}
        malformed = [[config.source, "MALFORMED_ROW", REASON, visible_row(text)] for text in texts.values()]
        return Block(blocks.ERRORS, 0, "", json.dumps(malformed).encode())
    numbers = {f"t{index}": number for index, number in enumerate(config.consumers)}
    failed = [[numbers[each.column], each.text, REASON] for each in misfits if each.column in numbers]
    return Block(blocks.FAILED, 0, "", json.dumps(failed).encode())


def _rows(frame: pl.DataFrame, target: Target) -> pl.DataFrame:
    """The rows of one target, with their hashes."""
    column = target.column
    if target.select is not None:
        selected = frame.select(*(pl.col(source).alias(name) for name, source in target.select))
        return selected if _hashed_after(target) else _hashed(selected, target)
    if not column:
        plain = frame.drop("__bad", strict=False)
        if target.watch is None:
            plain = plain.select(pl.exclude("^__seen.*$"))
        return plain if plain[WEIGHT].null_count() == 0 else plain.filter(pl.col(WEIGHT).is_not_null())
    present = frame.filter(pl.col(column).struct.field(WEIGHT).is_not_null())
    hashes = [pl.col(f"{column}#{name}").alias(name) for name in target.hashes]
    return present.select(pl.col(column), *hashes).unnest(column)


def _hashed(rows: pl.DataFrame, target: Target) -> pl.DataFrame:
    return rows.with_columns(hash_columns(rows, columns).alias(name) for name, columns in target.hashed)


def _hashed_after(target: Target) -> bool:
    """True if hashes are computed for the combined groups instead of for each row."""
    if target.kernel is None or target.select is None or [name for name, _ in target.hashed] != [HASH]:
        return False
    kernel = kernel_of(target.kernel)
    return isinstance(kernel, Grouping) and kernel.hashes_after_combine


class Gathered:
    """The rows of one target on their way: kept until they are many, since grouping once is cheaper than grouping
    every batch."""

    def __init__(self, target: Target) -> None:
        assert target.kernel is not None
        self._target, self._kernel = target, kernel_of(target.kernel)
        self._rows: list[pl.DataFrame] = []
        self._combined: list[pl.DataFrame] = []

    def add(self, rows: pl.DataFrame) -> None:
        self._rows.append(rows)
        if sum(frame.height for frame in self._rows) > COMBINE_ROWS:
            self._combine()

    def blocks(self) -> list[Block]:
        """All gathered rows, one block per bucket."""
        if self._rows:
            self._combine()
        return _split(self._target, self._combined_frame(self._combined))

    def _combine(self) -> None:
        combined = self._combined_frame(self._rows, fresh=True)
        self._combined.append(combined if HASH in combined.columns else _hashed(combined, self._target))
        self._rows = []

    def _combined_frame(self, frames: list[pl.DataFrame], fresh: bool = False) -> pl.DataFrame:
        if len(frames) == 1 and not fresh:
            return frames[0]
        return self._kernel.combine(self._target.port, pl.concat(frames, how="vertical_relaxed"))


def _split(target: Target, rows: pl.DataFrame) -> list[Block]:
    """One block per bucket."""
    tag = f"{blocks.CONTENT if target.accepted else ''}{target.port}"
    if len(target.buckets) == 1:
        return [Block(target.address, target.buckets[0], tag, codec.encode(rows))]
    parts = rows.with_columns((pl.col(HASH) % len(target.buckets)).alias("__part")).partition_by(
        "__part", as_dict=True, include_key=False
    )
    return [
        Block(target.address, target.buckets[int(index)], tag, codec.encode(part)) for (index,), part in parts.items()
    ]


@dataclass(frozen=True)
class UnpackConfig:
    """The wide frame's schema (Spark's JSON) and which raw blocks it has a struct column for."""

    wide: str
    producers: tuple[str, ...]
    exchange: Exchange


def unpack(config: UnpackConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blocks as a wide frame: rows of each producer in its struct column; blocks of later levels as they are."""
    schema = to_arrow_schema(StructType.fromJson(json.loads(config.wide)), timezone="UTC")
    raw: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        passing = []
        for block in blocks.from_batch(batch):
            if block.op in config.producers:
                raw.setdefault(block.op, []).append(codec.decode(config.exchange.receive(block).payload))
            else:
                passing.append(block)
        if passing:
            yield wide(schema, blocks.to_batch(passing))
    for producer, frames in raw.items():
        yield wide_rows(schema, producer, pl.concat(frames, how="vertical_relaxed"))


def wide(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Blocks as rows of a wide frame."""
    address = {f"__{name}": batch.column(name) for name in Block._fields}
    columns = [address.get(field.name) for field in schema]
    filled = [
        pa.nulls(batch.num_rows, field.type) if column is None else column
        for field, column in zip(schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(filled, schema=schema)


def wide_rows(schema: pa.Schema, producer: str, rows: pl.DataFrame) -> pa.RecordBatch:
    """Rows of one producer as rows of a wide frame."""
    target = schema.field(producer).type
    table = rows.select([field.name for field in target]).to_arrow()
    arrays = [_chunk(table.column(index), field.type) for index, field in enumerate(target)]
    struct = pa.StructArray.from_arrays(arrays, fields=list(target))
    columns = [struct if field.name == producer else pa.nulls(rows.height, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _chunk(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    return (array.chunk(0) if isinstance(array, pa.ChunkedArray) else array).cast(kind)
