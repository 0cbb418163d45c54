"""Options of the Kafka connector."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.connectors.contract import SinkSpec
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.errors import Span, did_you_mean, make

BROKERS = ("bootstrap.servers", "properties.bootstrap.servers", "kafka.bootstrap.servers", "bootstrap_servers")
PASSED = ("kafka.", "properties.")
REFRESH = ("cdc", "snapshot_only", "manual")
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


@dataclass(frozen=True)
class ReadOptions:
    """How a topic is read. Just one of `topics` and `pattern` is given."""

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
    brokers = bag.required("brokers", "localhost:9092", BROKERS)
    topics, pattern = _topics(bag)
    start_at = bag.span_of("start")
    start = _start(bag, topics)
    capped_at = bag.span_of("max_rows_per_step")
    capped = bag.integer("max_rows_per_step", minimum=1)
    refresh = (bag.choice("refresh", REFRESH, "cdc") or "cdc") if table else "cdc"
    if table and start != Start():
        raise make(
            "INVALID_OPTION",
            message="a table is what all records of its topic make, so it is always read from the beginning",
            hint="leave out start, or CREATE SOURCE",
            span=start_at,
        )
    if table and capped is not None:
        raise make(
            "INVALID_OPTION",
            message="a table is ready when its whole topic is read, which takes one step",
            hint="leave out max_rows_per_step",
            span=capped_at,
        )
    return ReadOptions(
        brokers=brokers,
        topics=topics,
        pattern=pattern,
        group=bag.text("group", aliases=("group_id", "properties.group.id", "kafka.group.id")),
        start=start,
        max_rows_per_step=capped,
        partition_idle=bag.duration("partition_idle", PARTITION_IDLE) or PARTITION_IDLE,
        fail_on_data_loss=bag.boolean("fail_on_data_loss", True),
        refresh=refresh,
        client=client_options(bag),
    )


def client_options(bag: Bag) -> dict[str, str]:
    """Options for the Kafka client itself, as `kafka.security.protocol` or Flink's `properties.security.protocol`."""
    found = {name: value for prefix in PASSED for name, value in bag.passed(prefix).items()}
    for name in _SPARKS_OWN:
        if name in found:
            raise make(
                "INVALID_OPTION",
                message=f"kafka.{name} cannot be set",
                hint="the connector sets it itself",
                span=bag.span,
            )
    return found


def _topics(bag: Bag) -> tuple[tuple[str, ...], str | None]:
    given = [
        bag.text("topic"),
        bag.text("topics"),
        bag.text("pattern", aliases=("topic_pattern", "subscribe_pattern")),
    ]
    if sum(value is not None for value in given) > 1:
        raise make(
            "INVALID_OPTION", message="topic, topics and pattern exclude each other", hint="leave one", span=bag.span
        )
    one, several, pattern = given
    if pattern is not None:
        return (), pattern
    if one is None and several is None:
        raise make("MISSING_OPTION", where=bag.where, name="topic", hint="add topic = 'orders'", span=bag.span)
    names = [one] if one is not None and ";" not in one else re.split(r"[;,]", several or one or "")
    return tuple(name.strip() for name in names if name and name.strip()), None


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
    moment = datetime.fromisoformat(text.strip())
    return Start("timestamp", round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def checked_offsets(text: str) -> str:
    """`{"topic": {"0": 42, "1": -2}}`; -2 is the earliest, -1 the latest."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError(text)
    return json.dumps({topic: {str(int(p)): int(o) for p, o in each.items()} for topic, each in found.items()})


def _flink_offsets(text: str, topics: tuple[str, ...]) -> str:
    """Flink's `partition:0,offset:42;partition:1,offset:300`."""
    parts = _FLINK_OFFSETS.findall(text)
    if not parts or len(topics) != 1:
        raise ValueError(text)
    return json.dumps({topics[0]: {partition: int(offset) for partition, offset in parts}})


TRANSACTION_TIMEOUT = timedelta(minutes=5)
_OWN = ("transactional.id", "enable.idempotence", "transaction.timeout.ms", "group.id", "isolation.level")


@dataclass(frozen=True)
class WriteOptions:
    """Where records go. `key` is empty if the user named none; `client` is for the Kafka client itself."""

    brokers: str
    topic: str
    key: tuple[str, ...] = ()
    transaction_timeout: timedelta = TRANSACTION_TIMEOUT
    client: Mapping[str, str] = field(default_factory=dict)


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag, all but those of its format."""
    key_at = bag.span_of("key")
    return WriteOptions(
        brokers=bag.required("brokers", "localhost:9092", BROKERS),
        topic=bag.required("topic", "totals"),
        key=_columns(bag.text("key", aliases=("key.fields", "primary_key")), spec, key_at),
        transaction_timeout=bag.duration("transaction_timeout", TRANSACTION_TIMEOUT) or TRANSACTION_TIMEOUT,
        client=_client(bag),
    )


def _columns(given: str | None, spec: SinkSpec, at: Span | None) -> tuple[str, ...]:
    """`key = 'region, item'`, as the columns are spelt in the view."""
    spelt = {name.casefold(): name for name in names(spec.columns)}
    found = [name.strip() for name in re.split(r"[,;]", given or "") if name.strip()]
    for name in found:
        if name.casefold() not in spelt:
            message = f"key: there is no column {name}"
            raise make(
                "INVALID_OPTION", message=message, hint=did_you_mean(name, list(spelt.values()), "columns"), span=at
            )
    return tuple(spelt[name.casefold()] for name in found)


def _client(bag: Bag) -> dict[str, str]:
    """`kafka.compression.type` or Flink's `properties.compression.type`, without the prefix."""
    at = {name: bag.span_of(f"{prefix}{name}") for prefix in PASSED for name in _OWN}
    found = {name: value for prefix in PASSED for name, value in bag.passed(prefix).items()}
    for name in _OWN:
        if name in found:
            hint = "write transaction_timeout" if name == "transaction.timeout.ms" else "leave it out"
            message = f"{name} cannot be set: the sink sets it itself, so that each step is written once"
            raise make("INVALID_OPTION", message=message, hint=hint, span=at[name])
    return found
