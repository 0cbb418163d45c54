"""Options of the Kafka connector."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from tidegate.connectors.contract import SinkSpec
from tidegate.core.option_models import DURATION, Aliases, OptionModel, Spans, choice, whole_number
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.errors import Span, did_you_mean, make

BROKERS = ("bootstrap.servers", "properties.bootstrap.servers", "kafka.bootstrap.servers", "bootstrap_servers")
PASSED = ("kafka.", "properties.")
PARTITION_IDLE = timedelta(seconds=10)
_WORDS = {
    "earliest": "earliest",
    "earliest_offset": "earliest",
    "latest": "latest",
    "latest_offset": "latest",
    "group_offsets": None,
    "timestamp": "timestamp",
    "specific_offsets": "offsets",
}
_START = "'earliest', 'latest', a time such as '2024-05-01 12:00:00', or offsets such as '{\"topic\": {\"0\": 42}}'"
_FLINK_OFFSETS = re.compile(r"partition:(\d+),offset:(\d+)")
_SPARKS_OWN = ("key.deserializer", "value.deserializer", "enable.auto.commit", "auto.offset.reset")


@dataclass(frozen=True)
class Start:
    """Where reading begins when there is no checkpoint: at a word, at a time in milliseconds, or at offsets."""

    word: str = "earliest"
    time_ms: int | None = None
    offsets: str | None = None


class TopicOptions(OptionModel):
    """Which topics are read."""

    brokers: Annotated[str, Aliases(*BROKERS)] = Field(
        description="Addresses of brokers, separated by commas.", examples=["localhost:9092"]
    )
    topic: str | None = Field(None, description="A topic.")
    topics: str | None = Field(None, description="Several topics, separated by commas.")
    pattern: Annotated[str | None, Aliases("topic_pattern", "subscribe_pattern")] = Field(
        None, description="Regular expression that names of topics match."
    )

    def names(self, bag: Bag) -> tuple[str, ...]:
        """The topics that are named, none if there is a pattern."""
        if sum(value is not None for value in (self.topic, self.topics, self.pattern)) > 1:
            message = "topic, topics and pattern exclude each other"
            raise make("INVALID_OPTION", message=message, hint="leave one", span=bag.span)
        if self.pattern is not None:
            return ()
        one, several = self.topic, self.topics
        if one is None and several is None:
            raise make("MISSING_OPTION", where=bag.where, name="topic", hint="add topic = 'orders'", span=bag.span)
        names = [one] if one is not None and ";" not in one else re.split(r"[;,]", several or one or "")
        return tuple(name.strip() for name in names if name and name.strip())


class SourceOptions(OptionModel):
    """How topics are read."""

    max_rows_per_step: Annotated[int | None, whole_number(1)] = Field(
        None, description="Largest number of records in a step."
    )
    group: Annotated[str | None, Aliases("group_id", "properties.group.id", "kafka.group.id")] = Field(
        None, description="Group id that brokers see."
    )
    partition_idle: Annotated[timedelta, DURATION] = Field(
        PARTITION_IDLE, description="Time without records after which a partition no longer holds back the watermark."
    )
    fail_on_data_loss: bool = Field(True, description="Stop when records were removed before they were read.")


class TableOptions(SourceOptions):
    """How a table with a key is read."""

    refresh: Annotated[str, choice("cdc", "snapshot_only", "manual")] = Field(
        "cdc", description="Follow the topic, read it once, or read it again by REFRESH TABLE."
    )

    def check(self, spans: Spans) -> None:
        if self.max_rows_per_step is not None:
            message = "a table is ready when its whole topic is read, which takes one step"
            hint = "leave out max_rows_per_step"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["max_rows_per_step"])


@dataclass(frozen=True)
class ReadOptions:
    """How topics are read: those in `topics`, or those that match `pattern`."""

    brokers: str
    topics: tuple[str, ...]
    pattern: str | None
    group: str | None
    start: Start
    max_rows_per_step: int | None
    partition_idle: timedelta
    fail_on_data_loss: bool
    refresh: str
    client: Mapping[str, str] = field(default_factory=dict)


def read_options(bag: Bag, table: bool) -> ReadOptions:
    """Take a source's options out of the bag. `table`: it is for a table with a key."""
    selection = TopicOptions.take(bag)
    topics = selection.names(bag)
    start_at = bag.span_of("start")
    start = _start(bag, topics)
    if table and start != Start():
        raise make(
            "INVALID_OPTION",
            message="a table is what all records of its topic make, so it is always read from the beginning",
            hint="leave out start, or CREATE SOURCE",
            span=start_at,
        )
    options = TableOptions.take(bag) if table else SourceOptions.take(bag)
    return ReadOptions(
        brokers=selection.brokers,
        topics=topics,
        pattern=selection.pattern,
        group=options.group,
        start=start,
        max_rows_per_step=options.max_rows_per_step,
        partition_idle=options.partition_idle or PARTITION_IDLE,
        fail_on_data_loss=options.fail_on_data_loss,
        refresh=options.refresh if isinstance(options, TableOptions) else "cdc",
        client=client_options(bag),
    )


def client_options(bag: Bag) -> dict[str, str]:
    """Options for the Kafka client itself, as `kafka.security.protocol` or Flink's `properties.security.protocol`."""
    passed = {name: value for prefix in PASSED for name, value in bag.take_prefixed(prefix).items()}
    for name in _SPARKS_OWN:
        if name in passed:
            raise make(
                "INVALID_OPTION",
                message=f"kafka.{name} cannot be set",
                hint="the connector sets it itself",
                span=bag.span,
            )
    return passed


def _start(bag: Bag, topics: tuple[str, ...]) -> Start:
    mode = bag.take("start", _word_or_value, _START, aliases=("scan.startup.mode", "scan_startup_mode"))
    time_ms = bag.integer("scan.startup.timestamp_millis", aliases=("scan.startup.timestamp.millis",))
    offsets = bag.take(
        "scan.startup.specific_offsets", lambda text: _flink_offsets(text, topics), "partition:0,offset:42"
    )
    if mode is not None and mode.word == "timestamp" and mode.time_ms is None:
        return Start("timestamp", _needed(time_ms, "scan.startup.timestamp-millis", bag.span))
    if mode is not None and mode.word == "offsets" and mode.offsets is None:
        return Start("offsets", offsets=_needed(offsets, "scan.startup.specific-offsets", bag.span))
    return mode or Start()


def _needed(value: Any, name: str, span: Span | None) -> Any:
    if value is None:
        raise make("MISSING_OPTION", where="KAFKA", name=name, hint=f"add '{name}' = '...'", span=span)
    return value


def _word_or_value(text: str) -> Start:
    folded = text.strip().casefold().replace("-", "_")
    if folded in _WORDS:
        word = _WORDS[folded]
        if word is None:
            raise ValueError(text)
        return Start(word)
    if text.lstrip().startswith("{"):
        return Start("offsets", offsets=checked_offsets(text))
    if re.fullmatch(r"\d{10,}", text.strip()):
        return Start("timestamp", int(text))
    time = datetime.fromisoformat(text.strip())
    return Start("timestamp", round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))


def checked_offsets(text: str) -> str:
    """`{"topic": {"0": 42, "1": -2}}`; -2 is the earliest, -1 the latest."""
    offsets = json.loads(text)
    if not isinstance(offsets, dict) or not all(isinstance(each, dict) for each in offsets.values()):
        raise ValueError(text)
    return json.dumps({topic: {str(int(p)): int(o) for p, o in each.items()} for topic, each in offsets.items()})


def _flink_offsets(text: str, topics: tuple[str, ...]) -> str:
    """Flink's `partition:0,offset:42;partition:1,offset:300`."""
    parts = _FLINK_OFFSETS.findall(text)
    if not parts or len(topics) != 1:
        raise ValueError(text)
    return json.dumps({topics[0]: {partition: int(offset) for partition, offset in parts}})


TRANSACTION_TIMEOUT = timedelta(minutes=5)
_OWN = ("transactional.id", "enable.idempotence", "transaction.timeout.ms", "group.id", "isolation.level")


class SinkOptions(OptionModel):
    """Where and how records are written."""

    brokers: Annotated[str, Aliases(*BROKERS)] = Field(
        description="Addresses of brokers, separated by commas.", examples=["localhost:9092"]
    )
    topic: str = Field(description="Topic, which must exist.", examples=["totals"])
    key: Annotated[str | None, Aliases("key.fields", "primary_key")] = Field(
        None, description="Columns of the records' key; the view's key by default."
    )
    transaction_timeout: Annotated[timedelta, DURATION] = Field(
        TRANSACTION_TIMEOUT, description="Time after which brokers abort a transaction."
    )


@dataclass(frozen=True)
class WriteOptions:
    """Where records are written. `key` is empty if the user named none; `client` is for the Kafka client itself."""

    brokers: str
    topic: str
    key: tuple[str, ...] = ()
    transaction_timeout: timedelta = TRANSACTION_TIMEOUT
    client: Mapping[str, str] = field(default_factory=dict)


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag, all but those of its format."""
    key_at = bag.span_of("key")
    options = SinkOptions.take(bag)
    return WriteOptions(
        brokers=options.brokers,
        topic=options.topic,
        key=_columns(options.key, spec, key_at),
        transaction_timeout=options.transaction_timeout or TRANSACTION_TIMEOUT,
        client=_client(bag),
    )


def _columns(text: str | None, spec: SinkSpec, at: Span | None) -> tuple[str, ...]:
    """`key = 'region, item'`, in the case that the columns have in the view."""
    by_folded_name = {name.casefold(): name for name in names(spec.columns)}
    columns = [name.strip() for name in re.split(r"[,;]", text or "") if name.strip()]
    for name in columns:
        if name.casefold() not in by_folded_name:
            message = f"key: there is no column {name}"
            raise make(
                "INVALID_OPTION",
                message=message,
                hint=did_you_mean(name, list(by_folded_name.values()), "columns"),
                span=at,
            )
    return tuple(by_folded_name[name.casefold()] for name in columns)


def _client(bag: Bag) -> dict[str, str]:
    """`kafka.compression.type` or Flink's `properties.compression.type`, without the prefix."""
    at = {name: bag.span_of(f"{prefix}{name}") for prefix in PASSED for name in _OWN}
    passed = {name: value for prefix in PASSED for name, value in bag.take_prefixed(prefix).items()}
    for name in _OWN:
        if name in passed:
            hint = "write transaction_timeout" if name == "transaction.timeout.ms" else "leave it out"
            message = f"{name} cannot be set: the sink sets it itself, so that each step is written once"
            raise make("INVALID_OPTION", message=message, hint=hint, span=at[name])
    return passed
