"""The circuit as one Spark streaming frame: sources, packing, levels, and at the end the blocks of a step.

Spark plans a tree, and two branches over one stateful operator would run it twice. So every frame is *wide*: one
struct column per producer, all expressions of all consumers in one select, packed again into blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from tidegate.circuit.model import (
    Branch,
    Circuit,
    Filter,
    Ingress,
    LateFilter,
    ObservedColumn,
    Op,
    Output,
    Port,
    Project,
    RejectedRows,
)
from tidegate.core.columns import HASH, ORDER, SEQ, SHARD, WEIGHT, Producer
from tidegate.core.schema import Schema
from tidegate.core.types import arrow_type
from tidegate.ir.specs import AggregateSpec, GatedAggregateSpec, TableSpec, WindowAggregateSpec, spec_per_bucket
from tidegate.ir.windows import WatermarkTest
from tidegate.spark import blocks, buckets, xxhash64
from tidegate.spark.clock import ClockSource
from tidegate.spark.direct import Reading, read_and_pack
from tidegate.spark.exchange import Exchange
from tidegate.spark.expressions import inside, literal, quoted
from tidegate.spark.late_rows import Watch
from tidegate.spark.level import Direct, LevelOp, LevelRunner, StateSource
from tidegate.spark.pack import PackConfig, Target, UnpackConfig, pack, unpack
from tidegate.spark.types import struct_type

ADDRESS = [
    StructField("__op", StringType()),
    StructField("__bucket", IntegerType()),
    StructField("__tag", StringType()),
    StructField("__payload", BinaryType()),
]
ADDRESS_NAMES = [field.name for field in ADDRESS]
GUARD = "__late"
BAD = "CASE WHEN `__error` IS NOT NULL THEN named_struct('message', `__error`, 'row', `__raw`) END AS `__bad`"

PARSING = re.compile(r"try_parse_json\((?:`(?:[^`]|``)+`\.)*`(?:[^`]|``)+`\)")


@dataclass(frozen=True)
class Consumer:
    """One branch with the target its rows are for."""

    branch: Branch
    address: str
    port: int
    op: Op | None
    key: tuple[str, ...] = ()
    hashes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ordered: bool = False
    rejected: RejectedRows | None = None
    ingress: Ingress | None = None
    output: Output | None = None

    @property
    def guards(self) -> tuple[WatermarkTest, ...]:
        """The late filters of its branch, over the columns that carry the tested values."""
        tests = [test for step in self.branch.steps if isinstance(step, LateFilter) for test in step.tests]
        return tuple(WatermarkTest(f"{GUARD}{number}", test.watermark) for number, test in enumerate(tests))


@dataclass(frozen=True)
class Replays:
    """New consumers of ops that existed before this generation: they begin with the whole content of the op."""

    consumers: tuple[Consumer, ...] = ()

    def of(self, op: str) -> tuple[Consumer, ...]:
        return tuple(consumer for consumer in self.consumers if consumer.branch.producer == op)


def wide_schema(producers: Mapping[str, Schema], ordered: bool) -> StructType:
    """The schema of a wide frame: addresses of passing blocks, then a struct per producer."""
    extra = [StructField(WEIGHT, LongType())] + ([StructField(SEQ, LongType())] if ordered else [])
    structs = [
        StructField(name, StructType(struct_type(columns).fields + extra)) for name, columns in producers.items()
    ]
    return StructType(ADDRESS + structs)


def consumers(circuit: Circuit) -> tuple[Consumer, ...]:
    """Every branch of the circuit with its target."""
    result = []
    for op in circuit.ops:
        for number, port in enumerate(op.ports):
            result += [_port_consumer(branch, op, number, port) for branch in port.branches]
    for output in circuit.outputs:
        address = blocks.OUTPUT + output.relation
        result += [Consumer(branch, address, 0, None, output=output) for branch in output.branches]
    for number, ingress in enumerate(circuit.ingresses):
        result += [
            Consumer(branch, f"{blocks.INGRESS}{number}", 0, None, ingress=ingress) for branch in ingress.branches
        ]
    return tuple(result)


def _port_consumer(branch: Branch, op: Op, number: int, port: Port) -> Consumer:
    hashes = ((HASH, port.key), *port.hashes)
    return Consumer(branch, op.id, number, op, port.key, hashes, port.ordered, port.rejected)


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
        return self._pack(frame, {Producer.of_input(relation): None}, passthrough=False, ordered=True, source=relation)

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
        rounds = _split(consumer.branch)
        if len(rounds) != 1 or rounds[0][0] or any(not _plain(sql) for _, sql in rounds[0][1]):
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
            if any(_direct(consumer) is None for consumer in self._readers(op.id)):
                schemas[blocks.RAW + op.id] = op.columns
            if any(_direct(consumer) is None for consumer in self.replays.of(op.id)):
                schemas[blocks.REPLAYED + op.id] = op.columns
        return schemas

    def _readers(self, producer: str) -> tuple[Consumer, ...]:
        return tuple(consumer for consumer in self.consumers if consumer.branch.producer == producer)

    def _level_op(self, op: Op) -> LevelOp:
        now, later = _routes(self._readers(op.id), op), _routes(self.replays.of(op.id), None)
        columns = tuple(column.name for column in op.columns)
        rejected = tuple(port.rejected for port in op.ports)
        kernel = spec_per_bucket(op.kernel, len(self.buckets(op)))
        return LevelOp(kernel, len(op.ports), columns, now[0], now[1], later[0], later[1], rejected)

    def _pack(
        self, frame: DataFrame, prefixes: Mapping[str, str | None], passthrough: bool, ordered: bool, source: str | None
    ) -> DataFrame:
        pairs = self._consumers_of(prefixes)
        if source is not None and (plain := _plain_consumer(pairs)) is not None:
            ingresses = tuple(consumer for consumer, _ in pairs if consumer.ingress is not None)
            return self._pack_plain(frame, plain, ingresses, source)
        extra = [BAD] if source is not None else [quoted(name) for name in ADDRESS_NAMES] if passthrough else []
        names = ["`__bad`"] if source is not None else extra
        wide = _evaluate(frame, pairs, extra, names, ordered)
        targets = tuple(
            self._target(f"t{index}", consumer, _is_content(consumer, prefix))
            for index, (consumer, prefix) in enumerate(pairs)
        )
        config = self._config(targets, passthrough, source)
        return wide.mapInArrow(partial(pack, config), blocks.SCHEMA)

    def _pack_plain(
        self, frame: DataFrame, consumer: Consumer, ingresses: tuple[Consumer, ...], source: str
    ) -> DataFrame:
        """Pack a connector's rows for one unfiltered consumer as plain columns, which are faster than structs."""
        items = [(name, sql) for _, each, _ in _split(consumer.branch) for name, sql in each]
        items += [
            (f"__seen{number}_{at}", quoted(observed.column)) for number, at, observed in _observed_columns(ingresses)
        ]
        items += [(SHARD, quoted(SHARD))] if ingresses and SHARD in frame.columns else []
        weight = f"CASE WHEN `__error` IS NULL THEN {quoted(WEIGHT)} END AS {quoted(WEIGHT)}"
        order = [quoted(SEQ)] if consumer.ordered else []
        columns = [f"{sql} AS {quoted(name)}" for name, sql in items]
        flat = frame.selectExpr(*columns, weight, *order, BAD)
        hashes = [f"{_hash(None, columns)} AS {quoted(name)}" for name, columns in consumer.hashes]
        watches = [self._target("", ingress) for ingress in ingresses]
        for number, at, _ in _observed_columns(ingresses):
            watches[number] = watches[number].watching(at, f"__seen{number}_{at}")
        config = PackConfig(
            (*watches, self._target("", consumer)), False, source, self.spill, self.exchange, self.clock
        )
        return flat.selectExpr("*", *hashes).mapInArrow(partial(pack, config), blocks.SCHEMA)

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
            pairs += [(reader, prefix) for reader in readers if not derived or _direct(reader) is None]
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
            _rejected_rows(consumer),
            accepted=accepted,
        )


def run_level(runner: LevelRunner, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of a level whose rows all are blocks."""
    return runner.run(batches)


def run_level_and_unpack(
    runner: LevelRunner, config: UnpackConfig, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One partition of a level with rows for Spark SQL."""
    return unpack(config, runner.run(batches))


def _routes(readers: tuple[Consumer, ...], op: Op | None) -> tuple[bool, tuple[Direct, ...]]:
    """True if some reader needs Spark SQL, and the readers that need none. `op`: the op whose changes they receive,
    None if they receive its content."""
    pairs = [(_direct(reader), reader.output) for reader in readers]
    direct = tuple(
        replace(route, key=None if op is None or output is None else _settled_key(route, output, op))
        for route, output in pairs
        if route is not None
    )
    return len(direct) < len(pairs), direct


def _settled_key(route: Direct, output: Output, op: Op) -> tuple[str, ...] | None:
    """The key of an output, if it includes the columns that determine an op's bucket, all of it is visible, and the op
    is the only producer of the output."""
    if output.key is None or output.hidden or output.mark or output.kind == "append" or len(output.branches) > 1:
        return None
    if len(op.ports) > 1 or not isinstance(
        op.kernel, AggregateSpec | WindowAggregateSpec | GatedAggregateSpec | TableSpec
    ):
        return None
    visible = {source for name, source in route.columns if name in output.key}
    return output.key if visible.issuperset(op.ports[0].key) else None


def _direct(consumer: Consumer) -> Direct | None:
    """An output that only selects columns of its op."""
    if consumer.op is not None or consumer.ingress is not None:
        return None
    columns = {column.name: column.name for column in consumer.branch.columns}
    if not consumer.branch.steps:
        return Direct(consumer.address, tuple(columns.items()))
    selected: dict[str, str] | None = None
    for step in consumer.branch.steps:
        if not isinstance(step, Project) or any(not _plain(sql) for _, sql in step.items):
            return None
        names = {name: sql[1:-1].replace("``", "`") for name, sql in step.items}
        selected = {name: selected[source] if selected else source for name, source in names.items()}
    assert selected is not None
    return Direct(consumer.address, tuple(selected.items()))


def _plain(sql: str) -> bool:
    """True for a back-quoted name and nothing else."""
    return sql.startswith("`") and sql.endswith("`") and "`" not in sql[1:-1].replace("``", "")


def _evaluate(
    frame: DataFrame, pairs: list[tuple[Consumer, str | None]], extra: list[str], extra_names: list[str], ordered: bool
) -> DataFrame:
    """All branches in lockstep: each select does one round of filters and one projection of every branch."""
    sharded = SHARD in frame.columns
    plans = [_rounds(consumer, f"t{index}", prefix, ordered, sharded) for index, (consumer, prefix) in enumerate(pairs)]
    current, plans = _parse_once(frame, plans)
    for number in range(max((len(plan) for plan in plans), default=1)):
        structs = [
            f"{plan[number] if number < len(plan) else quoted(f't{index}')} AS {quoted(f't{index}')}"
            for index, plan in enumerate(plans)
        ]
        current = current.selectExpr(*(extra if number == 0 else extra_names), *structs)
    hashes = [
        f"{_hash(f't{index}', columns)} AS {quoted(f't{index}#{name}')}"
        for index, (consumer, _) in enumerate(pairs)
        for name, columns in consumer.hashes
    ]
    return current.selectExpr(*extra_names, *[quoted(f"t{index}") for index in range(len(pairs))], *hashes)


def _parse_once(frame: DataFrame, plans: list[list[str]]) -> tuple[DataFrame, list[list[str]]]:
    """Parse a document that several branches read only once: parsing costs most."""
    documents = [text for plan in plans for text in PARSING.findall(plan[0])]
    several = [text for text in dict.fromkeys(documents) if documents.count(text) > 1]
    if not several:
        return frame, plans
    names = {text: quoted(f"__document{number}") for number, text in enumerate(several)}
    frame = frame.selectExpr("*", *(f"{text} AS {name}" for text, name in names.items()))
    return frame, [[PARSING.sub(lambda match: names.get(match[0], match[0]), plan[0]), *plan[1:]] for plan in plans]


def _plain_consumer(pairs: list[tuple[Consumer, str | None]]) -> Consumer | None:
    """The one consumer, if there is just one and it applies at most one projection to every row. Ingress checks that
    only observe columns can do so on its rows."""
    ingresses = [consumer for consumer, _ in pairs if consumer.ingress is not None]
    others = [consumer for consumer, _ in pairs if consumer.ingress is None]
    if len(others) != 1 or any(
        each.ingress is not None and (each.ingress.tests or each.branch.steps) for each in ingresses
    ):
        return None
    rounds = _split(others[0].branch)
    return others[0] if len(rounds) == 1 and not rounds[0][0] and not rounds[0][2] else None


def _observed_columns(ingresses: tuple[Consumer, ...]) -> Iterator[tuple[int, int, ObservedColumn]]:
    """(number of the ingress check, number of its column, the column)."""
    for number, consumer in enumerate(ingresses):
        assert consumer.ingress is not None
        for at, observed in enumerate(consumer.ingress.observed):
            yield number, at, observed


def _is_content(consumer: Consumer, prefix: str | None) -> bool:
    """True if rows are replayed, or come from a content input."""
    return (prefix or "").startswith(blocks.REPLAYED) or consumer.branch.producer.is_content


def _rejected_rows(consumer: Consumer) -> RejectedRows | None:
    """How rejected rows of a branch are recorded; without a relation, under the input that the branch reads."""
    rejected = consumer.rejected
    if rejected is None or rejected.relation is not None:
        return rejected
    return replace(rejected, relation=consumer.branch.producer.relation or rejected.views[0])


def _hash(struct: str | None, columns: tuple[str, ...]) -> str:
    if not columns:
        return "0L"
    return f"xxhash64({', '.join(inside(quoted(column), struct) for column in columns)})"


def _rounds(consumer: Consumer, struct: str, prefix: str | None, ordered: bool, sharded: bool) -> list[str]:
    """The SQL of each round of one branch: the first over the producer, the others over the previous struct. Ingress
    checks also receive the source partition of each row."""
    rounds = []
    carried = 0
    order = quoted(SEQ) if ordered else quoted(ORDER) if _keeps_order(consumer.branch) else "0L"
    for filters, items, tests in _split(consumer.branch):
        guard = "`__error` IS NULL" if prefix is None else f"{quoted(prefix)}.{quoted(WEIGHT)} IS NOT NULL"
        conditions = [guard, *(f"({inside(sql, prefix)})" for sql in filters)]
        fields = [f"{literal(name)}, {inside(sql, prefix)}" for name, sql in items]
        fields.append(f"{literal(WEIGHT)}, {inside(quoted(WEIGHT), prefix)}")
        if consumer.ordered:
            fields.append(f"{literal(SEQ)}, {inside(order, prefix)}")
        if sharded and consumer.ingress is not None:
            fields.append(f"{literal(SHARD)}, {inside(quoted(SHARD), prefix)}")
        guards = [quoted(f"{GUARD}{number}") for number in range(carried)] + [quoted(test.column) for test in tests]
        fields += [f"'{GUARD}{number}', {inside(sql, prefix)}" for number, sql in enumerate(guards)]
        carried = len(guards)
        rounds.append(f"CASE WHEN {' AND '.join(conditions)} THEN named_struct({', '.join(fields)}) END")
        prefix, order = struct, quoted(SEQ) if consumer.ordered else "0L"
    return rounds


def _keeps_order(branch: Branch) -> bool:
    """True if the producer of a branch has a column with the order of arrival, and no projection comes before it."""
    return any(column.name == ORDER for column in branch.columns)


Round = tuple[list[str], Iterable[tuple[str, str]], list[WatermarkTest]]


def _split(branch: Branch) -> list[Round]:
    """A branch as rounds of filters, one projection, and the late filters on the columns before it."""
    rounds: list[Round] = []
    filters: list[str] = []
    tests: list[WatermarkTest] = []
    for step in branch.steps:
        match step:
            case Filter():
                filters.append(step.sql)
            case LateFilter():
                tests += step.tests
            case Project():
                rounds.append((filters, step.items, tests))
                filters, tests = [], []
    if filters or tests or not rounds:
        items = [(column.name, quoted(column.name)) for column in branch.columns if column.name != ORDER]
        rounds.append((filters, items, tests))
    return rounds
