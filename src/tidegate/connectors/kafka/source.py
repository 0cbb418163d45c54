"""`FROM KAFKA`: topics read by Spark's own Kafka connector, records decoded by a format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.contract import (
    Capture,
    CaptureContext,
    CapturedSource,
    Partitioned,
    PolledSource,
    Position,
    Remote,
    Source,
    SourceContext,
    SourceSpec,
    StreamSource,
)
from tidegate.connectors.kafka import jars
from tidegate.connectors.kafka.capture import BusOptions, KafkaCapture, bus_options
from tidegate.connectors.kafka.client import GLANCE_SECONDS, partitions
from tidegate.connectors.kafka.metadata import expressions, metadata
from tidegate.connectors.kafka.options import ReadOptions, read_options
from tidegate.core.columns import ERROR, RAW, SEQ, SHARD, WEIGHT
from tidegate.core.options import Bag
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import names
from tidegate.errors import Error, make
from tidegate.formats.contract import KEY, PART, VALUE, Decoder, Layout
from tidegate.formats.names import decoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 1 << 11
_LARGE_FETCHES = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(8 << 20)}
"""Spark asks the broker for the bounds of a partition with every poll, so polls of 500 records (the client's default)
cost more than the records do."""
_LOST = re.compile(r"(Some data may have been lost|Partition .*offset was changed|KAFKA_DATA_LOSS|OffsetOutOfRange)")
_GONE = re.compile(r"(UnknownTopicOrPartition|does not host this topic-partition|InvalidTopicException)")
_UNREACHABLE = re.compile(
    r"(TimeoutException: (?:Timed out|Timeout)|Failed to create new KafkaAdminClient|No resolvable bootstrap)"
)
_DENIED = re.compile(r"(SaslAuthenticationException|AuthorizationException|SslAuthenticationException)[^\n]*")


def build(spec: SourceSpec, bag: Bag) -> Source:
    """Build a source without columns as events, a table that is not followed as polled, anything else as a stream."""
    options = read_options(bag, table=bool(spec.key))
    if not spec.columns:
        return KafkaEvents(spec, options, bus_options(spec, bag))
    fields = metadata(spec.columns, bag)
    columns = tuple(column for column in spec.columns if column.name not in fields)
    record_decoder = decoder(Layout(spec.relation, columns, spec.key), spec.format, bag, keyed=bool(spec.key))
    topics = Topics(spec, options, record_decoder, fields)
    return KafkaStream(spec, topics) if options.refresh == "cdc" else KafkaTable(spec, topics)


@dataclass(frozen=True)
class KafkaStream(StreamSource, Partitioned, Remote):
    """Every record is read once; a step reads what is new in every partition.

    A table's first step has the whole topic up to its end at that moment: its snapshot. Ops apply a step's table
    changes before its stream rows, so no row is ever joined with half a table.
    """

    topics: Topics

    @property
    def partition_idle_us(self) -> int:
        return round(self.topics.options.partition_idle.total_seconds() * 1_000_000)

    def partitions_at(self, offset: str) -> list[str]:
        return [f"{topic}-{number}" for topic, parts in json.loads(offset).items() for number in parts]

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        self.topics.prepare(spark)
        reader = spark.readStream.format("kafka").options(**self.topics.settings(), **self._starting(context.start))
        limit = self.topics.options.max_rows_per_step
        if limit is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(limit))
        return self.topics.rows(reader.load())

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        return {"offsets": json.loads(offset)} if offset is not None else dict(start or {"offsets": None})

    def failure(self, text: str) -> Error | None:
        return self.topics.failure(text)

    def is_connection_failure(self, text: str) -> bool:
        return _UNREACHABLE.search(text) is not None

    def reachable(self) -> bool:
        try:
            partitions(self.topics.options, GLANCE_SECONDS)
        except Error:
            return False
        return True

    def _starting(self, position: Position | None) -> dict[str, str]:
        """Return the options for where Spark begins under a new checkpoint."""
        if position is not None and position["offsets"] is not None:
            return {"startingOffsets": json.dumps(self._with_new_partitions(position["offsets"]))}
        start = self.topics.options.start
        if start.word == "timestamp":
            return {"startingTimestamp": str(start.time_ms), "startingOffsetsByTimestampStrategy": "latest"}
        if start.word == "offsets":
            return {"startingOffsets": json.dumps(self._with_new_partitions(json.loads(start.offsets or "{}")))}
        return {"startingOffsets": start.word}

    def _with_new_partitions(self, offsets: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Add the partitions that are new, from their beginning: Spark requires an offset for every partition."""
        extended = {topic: dict(parts) for topic, parts in offsets.items()}
        for topic, numbers in (partitions(self.topics.options) or {}).items():
            extended[topic] = {str(number): extended.get(topic, {}).get(str(number), -2) for number in numbers}
        return extended


@dataclass(frozen=True)
class KafkaTable(PolledSource):
    """The table that all records of a topic make, read from beginning to end each time."""

    topics: Topics

    def content(self, spark: SparkSession) -> pa.Table:
        self.topics.prepare(spark)
        reader = spark.read.format("kafka").options(**self.topics.settings())
        frame = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
        try:
            return self.topics.rows(frame).toArrow()
        except Exception as failure:
            error = self.topics.failure(str(failure))
            if error is None:
                raise
            raise error from None


@dataclass(frozen=True)
class KafkaEvents(CapturedSource):
    """Records as events of the bus, read by the driver's own consumer. Each source reads for itself."""

    options: ReadOptions
    bus: BusOptions

    @property
    def session(self) -> str:
        return f"kafka {self.spec.relation}"

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        assert not others
        return KafkaCapture(self.spec, self.options, self.bus, context)


@dataclass(frozen=True)
class Topics:
    """The topics of one relation: how Spark reads them, and how records become rows."""

    spec: SourceSpec
    options: ReadOptions
    decoder: Decoder
    metadata: Mapping[str, str] = field(default_factory=dict)

    def prepare(self, spark: SparkSession) -> None:
        """Load Kafka's jars, and reject topics that do not exist."""
        jars.ensure(spark)
        self._check()

    def failure(self, text: str) -> Error | None:
        """Return the error to show for a step that failed with this text, or None if it is not known."""
        error = self.decoder.failure(text)
        if error is not None:
            return error
        relation, where = self.spec.relation, self._where
        if _LOST.search(text):
            return make(
                "PIPELINE_FAILED",
                message=f"records that {relation} has not read are gone from {where}",
                detail="they were removed by the topic's retention, or the topic was made anew",
                hint="write fail_on_data_loss = 'false' to go on without them, or DROP and CREATE it again",
            )
        if _GONE.search(text):
            return self._no_topic(", ".join(self.options.topics) or f"like {self.options.pattern}")
        if denied := _DENIED.search(text):
            return make(
                "PIPELINE_FAILED",
                message=f"Kafka rejected {relation}: {denied[0][:200]}",
                hint="check the kafka.security.* and kafka.sasl.* options",
            )
        if _UNREACHABLE.search(text):
            return make(
                "PIPELINE_FAILED",
                message=f"no Kafka broker answers at {self.options.brokers}",
                hint="check that it runs and that brokers = '...' is right, then start again",
            )
        return None

    def _check(self) -> None:
        """Spark would take minutes to report a missing broker or topic."""
        existing = partitions(self.options)
        missing = [topic for topic in self.options.topics if existing is not None and topic not in existing]
        if missing:
            raise self._no_topic(", ".join(missing))

    def _no_topic(self, name: str) -> Error:
        return make("PIPELINE_FAILED", message=f"there is no topic {name}", hint="create the topic, then start again")

    @cached_property
    def _where(self) -> str:
        options = self.options
        return f"topics like {options.pattern}" if options.pattern else f"topic {', '.join(options.topics)}"

    def settings(self) -> dict[str, str]:
        """Return the options of Spark's Kafka reader."""
        options = self.options
        settings = {
            "kafka.bootstrap.servers": options.brokers,
            "kafka.isolation.level": "read_committed",
            **_LARGE_FETCHES,
            "failOnDataLoss": str(options.fail_on_data_loss).lower(),
            "subscribePattern" if options.pattern else "subscribe": options.pattern or ",".join(options.topics),
        }
        if options.group is not None:
            settings["kafka.group.id"] = options.group
        if "headers" in self.metadata.values():
            settings["includeHeaders"] = "true"
        return settings | {f"kafka.{name}": value for name, value in options.client.items()}

    def rows(self, records: DataFrame) -> DataFrame:
        """Decode records into rows, with the columns of `StreamSource.stream`."""
        columns_read = [
            f"key AS {KEY}",
            f"value AS {VALUE}",
            "topic AS `__topic`",
            "partition AS `__partition`",
            "offset AS `__offset`",
            "timestamp AS `__timestamp`",
        ]
        if "headers" in self.metadata.values():
            columns_read.append("headers AS `__headers`")
        if "key" in self.metadata.values():
            columns_read.append("key AS `__record_key`")
        rows = self.decoder.rows(records.selectExpr(*columns_read))
        rows = rows.selectExpr("*", *expressions(self.spec.columns, self.metadata))
        columns = [identifier(name) for name in names(self.spec.columns)]
        position = f"concat({literal('topic ')}, `__topic`, ' partition ', `__partition`, ' offset ', `__offset`, ': ')"
        return rows.selectExpr(
            *columns,
            f"`{WEIGHT}`",
            f"`__offset` * {2 * PARTITIONS}L + pmod(hash(`__topic`) + `__partition`, {PARTITIONS}) * 2L"
            f" + `{PART}` AS `{SEQ}`",
            f"concat({position}, `{ERROR}`) AS `{ERROR}`",
            f"`{RAW}`",
            f"concat(`__topic`, '-', `__partition`) AS `{SHARD}`",
        )
