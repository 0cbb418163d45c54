"""Records of Kafka as events of the bus."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, Intake, RejectedRow, SourceSpec
from tidegate.connectors.kafka.client import Partition, TopicReader
from tidegate.connectors.kafka.options import ReadOptions
from tidegate.core.options import Bag, checked_format
from tidegate.errors import make
from tidegate.formats.debezium import OPERATIONS, read_envelope
from tidegate.formats.events import Event, rows_of


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_JSON = json.JSONDecoder(parse_constant=_no_constant)
_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Reader:
    """Makes events of records, all of them on `channel` unless it is None. With `debezium` every record must be an
    envelope, and tombstones are ignored; otherwise envelopes are recognized among other records."""

    relation: str
    channel: str | None
    debezium: bool

    def event(
        self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, now: int
    ) -> Event | None:
        """Return the event of a record, None for an ignored tombstone. A ValueError says why it cannot be read."""
        if value is None and self.debezium:
            return None
        operation, payload, table = self._convert(topic, key, value)
        channel = self.channel or (f"kafka:{topic}" if table is None else f"pgcdc:{table}")
        return Event(f"{topic}-{partition}-{offset}", channel, operation, payload, self.relation, now)

    def _convert(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[str, str, str | None]:
        """The operation, the payload, and the table if the record is an envelope."""
        if value is None:
            return "DELETE", _TEXT.encode({"op": "DELETE", "key": _key_value(key)}), None
        text, document = _decode(value)
        try:
            envelope = read_envelope(document)
        except ValueError as problem:
            if self.debezium:
                raise ValueError("not a JSON object" if not isinstance(document, dict) else str(problem)) from None
            return "INSERT", text if document is not _NOT_JSON else _TEXT.encode(_wrap(value)), None
        table = _table(envelope) or topic
        operation = OPERATIONS[envelope["op"]]
        return operation, _TEXT.encode(_change(operation, table, envelope)), table


_NOT_JSON = object()


def _decode(value: bytes) -> tuple[str, Any]:
    """The text of a record and its JSON document, or `_NOT_JSON`."""
    try:
        text = value.decode()
        document, end = _JSON.raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return "", _NOT_JSON
    return (text.strip(), document) if not text[end:].strip() else ("", _NOT_JSON)


def _table(envelope: dict[str, Any]) -> str | None:
    """The table of a change, with its schema unless that is `public`."""
    source = envelope.get("source")
    if not isinstance(source, dict):
        return None
    name, schema = source.get("table") or source.get("collection"), source.get("schema")
    return None if not isinstance(name, str) else name if schema in (None, "", "public") else f"{schema}.{name}"


def _change(operation: str, table: str, envelope: dict[str, Any]) -> dict[str, Any]:
    """The payload of a change, as for one that is captured from PostgreSQL itself."""
    change = {"op": operation, "table": table, "row": envelope.get("after"), "old": envelope.get("before")}
    return change | {"snapshot": True} if envelope["op"] == "r" else change


def _wrap(value: bytes) -> dict[str, str]:
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _key_value(key: bytes | None) -> Any:
    """A record's key for the payload: its JSON document, or its text if it is none."""
    if key is None:
        return None
    _, document = _decode(key)
    return next(iter(_wrap(key).values())) if document is _NOT_JSON else document


AT_ONCE = 10_000
WAIT_SECONDS = 0.25
LOOK_SECONDS = 10.0
"""How often new partitions are looked for."""

FORMATS = ("json", "debezium", "debezium-json")
Offsets = dict[Partition, int]
_SHOWN = 2000


@dataclass(frozen=True)
class BusOptions:
    """Options of a source without columns. Events go to `channel`, or to one named after the topic or the table."""

    channel: str | None
    debezium: bool


def bus_options(spec: SourceSpec, bag: Bag) -> BusOptions:
    """Take the options of a source without columns out of the bag."""
    format = checked_format(bag, spec.format, FORMATS, "json")
    return BusOptions(bag.text("channel"), format.startswith("debezium"))


class KafkaCapture(Capture):
    """Captures topics. Offsets are stored together with the events up to them, so each record becomes an event exactly
    once; no consumer group is used."""

    def __init__(self, spec: SourceSpec, options: ReadOptions, bus: BusOptions, context: CaptureContext) -> None:
        self._spec, self._options, self._context = spec, options, context
        self._records = Reader(spec.relation, bus.channel, bus.debezium)
        self._guard = threading.Lock()
        self._lag, self._count = 0, 0

    def catch_up(self, intake: Intake) -> None:
        with TopicReader(self._options, self._spec.relation, answer_ms=50) as topics:
            offsets = self._begin(topics, intake)
            ends = topics.ends()
            self._until(topics, intake, offsets, lambda: topics.reached(ends))

    def follow(self, intake: Intake) -> None:
        with TopicReader(self._options, self._spec.relation) as topics:
            offsets = self._begin(topics, intake)
            while not intake.stopped.is_set():
                self._until(topics, intake, offsets, _after(LOOK_SECONDS))
                topics.add_new()

    def metrics(self) -> Mapping[str, float]:
        with self._guard:
            return {"kafka_lag_records": float(self._lag), "kafka_records_total": float(self._count)}

    def _begin(self, topics: TopicReader, intake: Intake) -> Offsets:
        """Return the offsets to read from. The first ones are stored at once: `latest` would be others later."""
        stored = of_json(intake.position)
        offsets = topics.start(stored)
        if stored is None and offsets:
            intake.append([], to_json(offsets))
        return offsets

    def _until(self, topics: TopicReader, intake: Intake, offsets: Offsets, done: Callable[[], bool]) -> None:
        limit = min(self._options.max_rows_per_step or AT_ONCE, AT_ONCE)
        while not intake.stopped.is_set():
            messages = topics.next(limit, WAIT_SECONDS)
            if messages:
                self._take(messages, intake, offsets)
            self._measure(topics.lag())
            if done():
                return

    def _take(self, messages: Sequence[Any], intake: Intake, offsets: Offsets) -> None:
        events, rejected = self._events(messages)
        for message in messages:
            offsets[(message.topic(), message.partition())] = message.offset() + 1
        intake.append([(BUS, rows_of(events), 1)] if events else [], to_json(offsets), rejected)
        with self._guard:
            self._count += len(messages)

    def _events(self, messages: Iterable[Any]) -> tuple[list[Event], list[RejectedRow]]:
        events, rejected, now = list[Event](), list[RejectedRow](), self._context.now()
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            try:
                event = self._records.event(topic, partition, offset, message.key(), message.value(), now)
            except ValueError as problem:
                position = f"topic {topic} partition {partition} offset {offset}"
                rejected.append(self._rejected(f"{position}: {problem}", message.value()))
                continue
            if event is not None:
                events.append(event)
        return events, rejected

    def _rejected(self, reason: str, value: bytes | None) -> RejectedRow:
        relation = self._spec.relation
        message = make("MALFORMED_ROW", relation=relation, problem=reason).message
        return RejectedRow(relation, "MALFORMED_ROW", message, (value or b"").decode("utf-8", "replace")[:_SHOWN])

    def _measure(self, lag: int) -> None:
        with self._guard:
            self._lag = lag


def _after(seconds: float) -> Callable[[], bool]:
    due = time.monotonic() + seconds
    return lambda: time.monotonic() > due


def to_json(offsets: Offsets) -> dict[str, dict[str, dict[str, int]]]:
    """`{"offsets": {"topic": {"0": 42}}}`"""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(number)] = offset
    return {"offsets": by_topic}


def of_json(position: Any) -> Offsets | None:
    if position is None:
        return None
    return {(topic, int(n)): int(at) for topic, parts in position["offsets"].items() for n, at in parts.items()}
