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
from tidegate.core.option_models import (
    ANY_TEXT,
    DURATION,
    Aliases,
    OptionModel,
    Parsed,
    Prefixed,
    Spans,
    choice,
    whole_number,
)
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.errors import Span, did_you_mean, make

BROKERS = ("bootstrap.servers", "properties.bootstrap.servers", "kafka.bootstrap.servers", "bootstrap_servers")
PARTITION_IDLE = timedelta(seconds=10)
_CLIENT_PREFIXES = ("kafka.", "properties.")
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
_LEAVE_OUT = "leave it out"
_SET_BY_SOURCES = {
    "key.deserializer": _LEAVE_OUT,
    "value.deserializer": _LEAVE_OUT,
    "enable.auto.commit": _LEAVE_OUT,
    "auto.offset.reset": "write start",
}


@dataclass(frozen=True)
class Start:
    """Where reading begins when there is no checkpoint: at a word, at a time in milliseconds, or at offsets."""

    word: str = "earliest"
    time_ms: int | None = None
    offsets: str | None = None


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


def _flink_offsets(topics: tuple[str, ...]) -> Parsed:
    """Flink's `partition:0,offset:42;partition:1,offset:300`, of the one topic that is read."""

    def parse(text: str) -> str:
        parts = _FLINK_OFFSETS.findall(text)
        if not parts or len(topics) != 1:
            raise ValueError(text)
        return json.dumps({topics[0]: {partition: int(offset) for partition, offset in parts}})

    return Parsed(parse, "partition:0,offset:42")


class ClientOptions(OptionModel):
    """Settings of the Kafka client."""

    kafka: Annotated[dict[str, str], Prefixed(*_CLIENT_PREFIXES)] = Field({}, description="Settings of the client.")


class StartOptions(OptionModel):
    """Where a new source begins to read."""

    start: Annotated[
        Start | None, Parsed(_word_or_value, _START), Aliases("scan.startup.mode", "scan_startup_mode")
    ] = Field(None, description="Where a new source begins.")
    time_ms: Annotated[int | None, whole_number(0), Aliases("scan.startup.timestamp.millis")] = Field(
        None, alias="scan.startup.timestamp-millis", description="Where Flink's mode 'timestamp' begins."
    )
    offsets: Annotated[str | None, ANY_TEXT] = Field(
        None, alias="scan.startup.specific-offsets", description="Where Flink's mode 'specific-offsets' begins."
    )

    def position(self, span: Span | None) -> Start:
        """Where reading begins. Flink's modes for times and offsets need the option that has them."""
        if self.start is None:
            return Start()
        if self.start.word == "timestamp" and self.start.time_ms is None:
            return Start("timestamp", _needed(self.time_ms, "scan.startup.timestamp-millis", span))
        if self.start.word == "offsets" and self.start.offsets is None:
            return Start("offsets", offsets=_needed(self.offsets, "scan.startup.specific-offsets", span))
        return self.start


def _needed(value: Any, name: str, span: Span | None) -> Any:
    if value is None:
        raise make("MISSING_OPTION", where="KAFKA", name=name, hint=f"add '{name}' = '...'", span=span)
    return value


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
    start = StartOptions.take(bag, {"offsets": _flink_offsets(topics)}).position(bag.span)
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
        client=client_settings(bag, "source", _SET_BY_SOURCES),
    )


def client_settings(bag: Bag, user: str, refused: Mapping[str, str]) -> dict[str, str]:
    """Settings for the Kafka client itself, as `kafka.security.protocol` or Flink's `properties.security.protocol`.
    `refused` are those that the source or sink (`user`) sets, each with a hint."""
    at = {name: _span_of_setting(bag, name) for name in refused}
    settings = ClientOptions.take(bag).kafka
    for name, hint in refused.items():
        if name in settings:
            message = f"kafka.{name} cannot be set: the {user} sets it itself"
            raise make("INVALID_OPTION", message=message, hint=hint, span=at[name])
    return settings


def _span_of_setting(bag: Bag, name: str) -> Span | None:
    spans = [bag.span_of(prefix + name) for prefix in _CLIENT_PREFIXES]
    return next((span for span in spans if span != bag.span), bag.span)


TRANSACTION_TIMEOUT = timedelta(minutes=5)
_SET_BY_SINKS = {
    "transactional.id": _LEAVE_OUT,
    "enable.idempotence": _LEAVE_OUT,
    "transaction.timeout.ms": "write transaction_timeout",
    "group.id": _LEAVE_OUT,
    "isolation.level": _LEAVE_OUT,
}


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
        client=client_settings(bag, "sink", _SET_BY_SINKS),
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
