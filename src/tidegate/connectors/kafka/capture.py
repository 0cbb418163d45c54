"""Topics that feed the bus: the driver reads them itself, from the offsets that are on record with the events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, Intake, RejectedRow, SourceSpec
from tidegate.connectors.kafka.consumer import Partition, TopicReader
from tidegate.connectors.kafka.options import ReadOptions
from tidegate.connectors.kafka.records import Reader
from tidegate.core.options import Bag, checked_format
from tidegate.errors import make
from tidegate.formats.events import Event, rows_of

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
    """Takes the options of a source without columns out of the bag."""
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
