"""The circuit as one Spark streaming frame: sources, packing, levels, and at the end the blocks of a step.

Spark plans a tree, and two branches over one stateful operator would run it twice. So every frame is *wide*: one
struct column per producer, all expressions of all consumers in one select, packed again into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.circuit.model import Circuit, Op
from tidegate.core.columns import SEQ, SHARD, WEIGHT, Producer
from tidegate.core.schema import Schema
from tidegate.core.types import arrow_type
from tidegate.ir.specs import spec_per_bucket
from tidegate.spark import blocks, buckets, xxhash64
from tidegate.spark.can_fail import can_fail
from tidegate.spark.clock import ClockSource
from tidegate.spark.consumers import (
    GUARD,
    Consumer,
    Replays,
    consumers,
    is_content,
    observed_columns,
    plain_consumer,
    rejected_rows_of,
    rounds_of,
)
from tidegate.spark.direct import Reading, read_and_pack
from tidegate.spark.exchange import Exchange
from tidegate.spark.expressions import quoted
from tidegate.spark.failing_rows import reject_misfits
from tidegate.spark.late_rows import Watch
from tidegate.spark.level import LevelOp, LevelRunner, StateSource
from tidegate.spark.pack import PackConfig, Target, UnpackConfig, pack, unpack
from tidegate.spark.routes import direct_route, routes
from tidegate.spark.wide_frame import ADDRESS_NAMES, BAD, evaluate, hash_sql, is_name, wide_schema


class Lowering:
    """Turns one circuit into frames. `partitions` is the number of shuffle partitions, pinned for the folder."""

    def __init__(
        self,
        circuit: Circuit,
        replays: Replays,
        partitions: int,
        clock: ClockSource,
        state: StateSource,
        spill: str,
        exchange: Exchange,
    ) -> None:
        self.circuit, self.replays, self.state = circuit, replays, state
        self.partitions, self.clock, self.spill, self.exchange = partitions, clock, spill, exchange
        self.consumers = consumers(circuit)
        self._types: dict[str, dict[str, str]] = {item.producer: types_of(item.columns) for item in circuit.inputs}
        self._types |= {op.id: types_of(op.columns) for op in circuit.ops}

    def buckets(self, op: Op) -> tuple[int, ...]:
        """The bucket labels of an op: one per partition, or one in all when there is nothing to split by."""
        if all(not port.key for port in op.ports):
            return (0,)
        return buckets.labels(op.id, self.partitions)

    def addresses(self, ops: Iterable[Op]) -> list[tuple[str, int]]:
        return [(op.id, bucket) for op in ops for bucket in self.buckets(op)]

    def pack_feed(self, frame: DataFrame, producers: Iterable[str]) -> DataFrame:
        """The feed's wide frame as blocks."""
        prefixes = {producer: producer for producer in producers}
        return self._pack(frame, prefixes, passthrough=True, ordered=True, source=None)

    def pack_source(self, frame: DataFrame, relation: str) -> DataFrame:
        """A connector's flat frame (the relation's columns, `__w`, `__seq`, `__error`, `__raw`) as blocks."""
        producer = Producer.of_input(relation)
        frame = reject_misfits(frame, self._readers(producer))
        return self._pack(frame, {producer: None}, passthrough=False, ordered=True, source=relation)

    def reading(self, relation: str, columns: Schema) -> Reading | None:
        """How workers can read the relation's files themselves, if every consumer only selects columns. None if one
        needs Spark SQL, or a column that only Spark can hash or read."""
        readers = self._readers(Producer.of_input(relation))
        types = {column.name: column.type for column in columns}
        if any(not column.nullable for column in columns):
            return None
        targets = [self._direct_target(reader, types) for reader in readers]
        if not targets or any(target is None for target in targets):
            return None
        supported = tuple(target for target in targets if target is not None)
        used = {source for target in supported for _, source in target.select or ()} & types.keys()
        if any(types[name] not in xxhash64.SUPPORTED for name in used):
            return None
        read = tuple((name, arrow_type(type)) for name, type in types.items() if name in used)
        return (
            Reading(read, PackConfig(supported, False, relation, self.spill, self.exchange, self.clock))
            if read
            else None
        )

    def pack_files(self, frame: DataFrame, reading: Reading) -> DataFrame:
        """Files, by their names, as the blocks of their rows."""
        return frame.mapInArrow(partial(read_and_pack, reading), blocks.SCHEMA)

    def _direct_target(self, consumer: Consumer, types: Mapping[str, str]) -> Target | None:
        rounds = rounds_of(consumer.branch)
        if len(rounds) != 1 or rounds[0][0] or any(not is_name(sql) for _, sql in rounds[0][1]):
            return None
        items = [(name, sql[1:-1].replace("``", "`")) for name, sql in rounds[0][1]]
        sources = dict(items)
        items += [(f"{GUARD}{number}", test.column) for number, test in enumerate(rounds[0][2])]
        if consumer.ingress is not None and not consumer.ingress.tests:
            items = [(observed.column, observed.column) for observed in consumer.ingress.observed]
        extra = [WEIGHT, SEQ] if consumer.ordered else [WEIGHT]
        hashed = tuple(
            (name, tuple((column, types[sources[column]]) for column in columns)) for name, columns in consumer.hashes
        )
        target = self._target("", consumer)
        return replace(target, select=(*dict.fromkeys(items), *((name, name) for name in extra)), hashed=hashed)

    def level(self, frame: DataFrame, number: int) -> DataFrame:
        """One level of stateful operators, and what Spark SQL has to do with its rows."""
        ops = self.circuit.level(number)
        level_ops = {op.id: self._level_op(op) for op in ops}
        runner = LevelRunner(level_ops, self.clock, self.state, self.spill, self.exchange)
        by_bucket = frame.repartition(self.partitions, "op", "bucket")
        producers = self._raw_producers(ops)
        if not producers:
            return by_bucket.mapInArrow(partial(run_level, runner), blocks.SCHEMA)
        wide = wide_schema(producers, ordered=False)
        config = UnpackConfig(wide.json(), tuple(producers), self.exchange)
        unpacked = by_bucket.mapInArrow(partial(run_level_and_unpack, runner, config), wide)
        return self._pack(unpacked, {name: name for name in producers}, passthrough=True, ordered=False, source=None)

    def _raw_producers(self, ops: tuple[Op, ...]) -> dict[str, Schema]:
        schemas: dict[str, Schema] = {}
        for op in ops:
            if any(direct_route(consumer) is None for consumer in self._readers(op.id)):
                schemas[blocks.RAW + op.id] = op.columns
            if any(direct_route(consumer) is None for consumer in self.replays.of(op.id)):
                schemas[blocks.REPLAYED + op.id] = op.columns
        return schemas

    def _readers(self, producer: str) -> tuple[Consumer, ...]:
        return tuple(consumer for consumer in self.consumers if consumer.branch.producer == producer)

    def _level_op(self, op: Op) -> LevelOp:
        now, later = routes(self._readers(op.id), op), routes(self.replays.of(op.id), None)
        columns = tuple(column.name for column in op.columns)
        rejected = tuple(port.rejected for port in op.ports)
        kernel = spec_per_bucket(op.kernel, len(self.buckets(op)))
        return LevelOp(kernel, len(op.ports), columns, now[0], now[1], later[0], later[1], rejected)

    def _pack(
        self, frame: DataFrame, prefixes: Mapping[str, str | None], passthrough: bool, ordered: bool, source: str | None
    ) -> DataFrame:
        pairs = self._consumers_of(prefixes)
        catch = frozenset(index for index, (consumer, _) in enumerate(pairs) if self._can_fail(consumer))
        if source is not None and not catch and (plain := plain_consumer(pairs)) is not None:
            ingresses = tuple(consumer for consumer, _ in pairs if consumer.ingress is not None)
            return self._pack_plain(frame, plain, ingresses, source)
        extra = [BAD] if source is not None else [quoted(name) for name in ADDRESS_NAMES] if passthrough else []
        names = ["`__bad`"] if source is not None else extra
        wide = evaluate(frame, pairs, extra, names, ordered, catch)
        targets = tuple(
            self._target(f"t{index}", consumer, is_content(consumer, prefix))
            for index, (consumer, prefix) in enumerate(pairs)
        )
        numbers = tuple(self.consumers.index(consumer) for consumer, _ in pairs)
        config = replace(self._config(targets, passthrough, source), consumers=numbers)
        return wide.mapInArrow(partial(pack, config), blocks.SCHEMA)

    def _pack_plain(
        self, frame: DataFrame, consumer: Consumer, ingresses: tuple[Consumer, ...], source: str
    ) -> DataFrame:
        """Pack a connector's rows for one unfiltered consumer as plain columns, which are faster than structs."""
        items = [(name, sql) for _, each, _ in rounds_of(consumer.branch) for name, sql in each]
        items += [
            (f"__seen{number}_{at}", quoted(observed.column)) for number, at, observed in observed_columns(ingresses)
        ]
        items += [(SHARD, quoted(SHARD))] if ingresses and SHARD in frame.columns else []
        weight = f"CASE WHEN `__error` IS NULL THEN {quoted(WEIGHT)} END AS {quoted(WEIGHT)}"
        order = [quoted(SEQ)] if consumer.ordered else []
        columns = [f"{sql} AS {quoted(name)}" for name, sql in items]
        flat = frame.selectExpr(*columns, weight, *order, BAD)
        hashes = [f"{hash_sql(None, columns)} AS {quoted(name)}" for name, columns in consumer.hashes]
        watches = [self._target("", ingress) for ingress in ingresses]
        for number, at, _ in observed_columns(ingresses):
            watches[number] = watches[number].watching(at, f"__seen{number}_{at}")
        config = PackConfig(
            (*watches, self._target("", consumer)), False, source, self.spill, self.exchange, self.clock
        )
        return flat.selectExpr("*", *hashes).mapInArrow(partial(pack, config), blocks.SCHEMA)

    def _can_fail(self, consumer: Consumer) -> bool:
        return can_fail(consumer, self._types.get(consumer.branch.producer, {}))

    def _config(self, targets: tuple[Target, ...], passthrough: bool, source: str | None) -> PackConfig:
        return PackConfig(targets, passthrough, source, self.spill, self.exchange, self.clock)

    def _consumers_of(self, prefixes: Mapping[str, str | None]) -> list[tuple[Consumer, str | None]]:
        """The consumers of these producers. Raw and replayed rows of an op are two producers."""
        pairs: list[tuple[Consumer, str | None]] = []
        for producer, prefix in prefixes.items():
            if producer.startswith(blocks.REPLAYED):
                readers = self.replays.of(producer.removeprefix(blocks.REPLAYED))
            else:
                readers = self._readers(producer.removeprefix(blocks.RAW))
            derived = producer.startswith((blocks.RAW, blocks.REPLAYED))
            pairs += [(reader, prefix) for reader in readers if not derived or direct_route(reader) is None]
        return pairs

    def _target(self, column: str, consumer: Consumer, accepted: bool = False) -> Target:
        """Where the rows of a consumer go. `accepted`: they are content of a relation, which is never late."""
        hashes = tuple(name for name, _ in consumer.hashes)
        guards = consumer.guards
        if consumer.ingress is not None:
            return Target(column, consumer.address, 0, None, hashes, (), guards, watch=Watch.of(consumer.ingress))
        if consumer.op is None:
            return Target(column, consumer.address, 0, None, hashes, (), guards)
        op = consumer.op
        return Target(
            column,
            consumer.address,
            consumer.port,
            op.kernel,
            hashes,
            self.buckets(op),
            guards,
            rejected_rows_of(consumer),
            accepted=accepted,
        )


def types_of(columns: Schema) -> dict[str, str]:
    """The type of each column."""
    return {column.name: column.type for column in columns}


def run_level(runner: LevelRunner, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of a level whose rows all are blocks."""
    return runner.run(batches)


def run_level_and_unpack(
    runner: LevelRunner, config: UnpackConfig, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One partition of a level with rows for Spark SQL."""
    return unpack(config, runner.run(batches))
