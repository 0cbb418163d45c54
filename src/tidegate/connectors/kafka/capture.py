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
from tidegate.formats.debezium import OPERATIONS, find_envelope
from tidegate.formats.events import Event, rows_of


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_JSON = json.JSONDecoder(parse_constant=_no_constant)
_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Reader:
    """How records become events. `channel` is for all of them if it is given; `debezium`: they are all envelopes, so
    that tombstones say nothing new and anything else cannot be read."""

    relation: str
    channel: str | None
    debezium: bool

    def event(
        self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, now: int
    ) -> Event | None:
        """The event of a record, None if it has none. A ValueError says why it cannot be read."""
        if value is None and self.debezium:
            return None
        operation, payload, table = self._said(topic, key, value)
        channel = self.channel or (f"kafka:{topic}" if table is None else f"pgcdc:{table}")
        return Event(f"{topic}-{partition}-{offset}", channel, operation, payload, self.relation, now)

    def _said(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[str, str, str | None]:
        """The operation, the payload, and the table if the record is an envelope."""
        if value is None:
            return "DELETE", _TEXT.encode({"op": "DELETE", "key": _plain(key)}), None
        text, found = _decoded(value)
        envelope = find_envelope(found)
        if envelope is not None:
            table = _table(envelope) or topic
            operation = OPERATIONS[envelope["op"]]
            return operation, _TEXT.encode(_change(operation, table, envelope)), table
        if self.debezium:
            raise ValueError("it is not a Debezium envelope in JSON")
        return "INSERT", text if found is not _NOT_JSON else _TEXT.encode(_wrapped(value)), None


_NOT_JSON = object()


def _decoded(value: bytes) -> tuple[str, Any]:
    """The text of a record and what it says as JSON."""
    try:
        text = value.decode()
        found, end = _JSON.raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return "", _NOT_JSON
    return (text.strip(), found) if not text[end:].strip() else ("", _NOT_JSON)


def _table(envelope: dict[str, Any]) -> str | None:
    """The table of a change, with its schema unless that is `public`."""
    source = envelope.get("source")
    if not isinstance(source, dict):
        return None
    name, schema = source.get("table") or source.get("collection"), source.get("schema")
    return None if not isinstance(name, str) else name if schema in (None, "", "public") else f"{schema}.{name}"


def _change(operation: str, table: str, envelope: dict[str, Any]) -> dict[str, Any]:
    """The same as a change that comes from PostgreSQL itself."""
    said = {"op": operation, "table": table, "row": envelope.get("after"), "old": envelope.get("before")}
    return said | {"snapshot": True} if envelope["op"] == "r" else said


def _wrapped(value: bytes) -> dict[str, str]:
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _plain(key: bytes | None) -> Any:
    """A key as JSON: what it says if it is JSON, else its text."""
    if key is None:
        return None
    _, found = _decoded(key)
    return next(iter(_wrapped(key).values())) if found is _NOT_JSON else found


AT_ONCE = 10_000
WAIT_SECONDS = 0.25
LOOK_SECONDS = 10.0
"""How often new partitions are looked for."""

FORMATS = ("json", "debezium", "debezium-json")
Offsets = dict[Partition, int]
_SHOWN = 2000


@dataclass(frozen=True)
class BusOptions:
    """What records become: events on `channel`, or on one named after the topic or the table."""

    channel: str | None
    debezium: bool


def bus_options(spec: SourceSpec, bag: Bag) -> BusOptions:
    """Take the options of a source without columns out of the bag."""
    format = checked_format(bag, spec.format, FORMATS, "json")
    return BusOptions(bag.text("channel"), format.startswith("debezium"))


class KafkaCapture(Capture):
    """Offsets are on record together with the events they lie behind, so each record is an event just once. No consumer
    group has a say in it."""

    def __init__(self, spec: SourceSpec, options: ReadOptions, bus: BusOptions, context: CaptureContext) -> None:
        self._spec, self._options, self._context = spec, options, context
        self._records = Reader(spec.relation, bus.channel, bus.debezium)
        self._guard = threading.Lock()
        self._lag, self._count = 0, 0

    def catch_up(self, intake: Intake) -> None:
        with TopicReader(self._options, self._spec.relation, answer_ms=50) as topics:
            behind = self._begin(topics, intake)
            ends = topics.ends()
            self._until(topics, intake, behind, lambda: topics.reached(ends))

    def follow(self, intake: Intake) -> None:
        with TopicReader(self._options, self._spec.relation) as topics:
            behind = self._begin(topics, intake)
            while not intake.stopped.is_set():
                self._until(topics, intake, behind, _after(LOOK_SECONDS))
                topics.add_new()

    def metrics(self) -> Mapping[str, float]:
        with self._guard:
            return {"kafka_lag_records": float(self._lag), "kafka_records_total": float(self._count)}

    def _begin(self, topics: TopicReader, intake: Intake) -> Offsets:
        """Where reading goes on. The first time a place other than the beginning is put on record at once: later it
        would be another one."""
        known = of_json(intake.position)
        behind = topics.start(known)
        if known is None and behind:
            intake.append([], to_json(behind))
        return behind

    def _until(self, topics: TopicReader, intake: Intake, behind: Offsets, done: Callable[[], bool]) -> None:
        most = min(self._options.max_rows_per_step or AT_ONCE, AT_ONCE)
        while not intake.stopped.is_set():
            messages = topics.next(most, WAIT_SECONDS)
            if messages:
                self._take(messages, intake, behind)
            self._measure(topics.lag())
            if done():
                return

    def _take(self, messages: Sequence[Any], intake: Intake, behind: Offsets) -> None:
        events, rejected = self._events(messages)
        for message in messages:
            behind[(message.topic(), message.partition())] = message.offset() + 1
        intake.append([(BUS, rows_of(events), 1)] if events else [], to_json(behind), rejected)
        with self._guard:
            self._count += len(messages)

    def _events(self, messages: Iterable[Any]) -> tuple[list[Event], list[RejectedRow]]:
        events, rejected, now = list[Event](), list[RejectedRow](), self._context.now()
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            try:
                event = self._records.event(topic, partition, offset, message.key(), message.value(), now)
            except ValueError as problem:
                place = f"topic {topic} partition {partition} offset {offset}"
                rejected.append(self._rejected(f"{place}: {problem}", message.value()))
                continue
            if event is not None:
                events.append(event)
        return events, rejected

    def _rejected(self, reason: str, value: bytes | None) -> RejectedRow:
        relation = self._spec.relation
        said = make("MALFORMED_ROW", relation=relation, problem=reason).message
        return RejectedRow(relation, "MALFORMED_ROW", said, (value or b"").decode("utf-8", "replace")[:_SHOWN])

    def _measure(self, lag: int) -> None:
        with self._guard:
            self._lag = lag


def _after(seconds: float) -> Callable[[], bool]:
    due = time.monotonic() + seconds
    return lambda: time.monotonic() > due


def to_json(offsets: Offsets) -> dict[str, dict[str, dict[str, int]]]:
    """`{"offsets": {"topic": {"0": 42}}}`"""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return {"offsets": found}


def of_json(position: Any) -> Offsets | None:
    if position is None:
        return None
    return {(topic, int(n)): int(at) for topic, parts in position["offsets"].items() for n, at in parts.items()}
