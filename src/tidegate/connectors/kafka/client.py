"""What is asked of the brokers directly: partitions, and records for a capture."""

from __future__ import annotations

import json
import logging
import re
import time
from types import TracebackType
from typing import Any

from tidegate.connectors.kafka.options import ReadOptions
from tidegate.core.secrets import is_secret
from tidegate.errors import Error, make

SECONDS = 20.0
LOGGER = logging.getLogger("tidegate.kafka")
LOGGER.addHandler(logging.NullHandler())


def partitions(options: ReadOptions) -> dict[str, list[int]] | None:
    """The partitions of every topic that is read. None: this client does not understand the options that are meant for
    Spark's (a trust store of Java, say), so it cannot ask."""
    kafka = library()
    given = {**client_settings(options.client), "bootstrap.servers": options.brokers}
    try:
        client = kafka.Consumer({"group.id": options.group or "tidegate", **given}, logger=LOGGER)
    except kafka.KafkaException:
        return None
    try:
        topics = client.list_topics(timeout=SECONDS).topics
    except kafka.KafkaException as failure:
        raise make(
            "PIPELINE_FAILED",
            message=f"no Kafka broker answers at {options.brokers}",
            detail=str(failure.args[0].str()),
            hint="check that it runs and that brokers = '...' is right, then start again",
        ) from None
    finally:
        client.close()
    pattern = re.compile(options.pattern) if options.pattern else None
    wanted = [name for name in topics if name in options.topics or (pattern and pattern.fullmatch(name))]
    return {name: sorted(topics[name].partitions) for name in wanted}


def client_settings(given: Any) -> dict[str, str]:
    """Settings in the words of librdkafka: a login module's configuration becomes a user and a password."""
    found = dict(given)
    jaas = found.pop("sasl.jaas.config", None)
    if jaas is not None:
        for name in ("username", "password"):
            said = re.search(rf'{name}="([^"]*)"', jaas)
            if said:
                found.setdefault(f"sasl.{name}", said[1])
    return found


def library() -> Any:
    """confluent-kafka, or an error that says how to get it."""
    try:
        import confluent_kafka
    except ImportError:
        raise make(
            "CONNECTOR_JARS",
            name="KAFKA",
            jars="the Python package confluent-kafka",
            hint="pip install 'tidegate[kafka]'",
        ) from None
    return confluent_kafka


ANSWER_SECONDS = 5.0
SILENT_SECONDS = 15.0
Partition = tuple[str, int]


class TopicReader:
    """A consumer of no group. Brokers that are away are an OSError; what is the user's to mend is an error. A broker
    that has nothing new says so after `answer_ms`."""

    def __init__(self, options: ReadOptions, relation: str, answer_ms: int = 500) -> None:
        self._options, self._relation, self._kafka = options, relation, library()
        self._gone: float | None = None
        self._at_end: set[Partition] = set()
        self._places: dict[Partition, int] = {}
        self._consumer = self._connect(answer_ms)

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def start(self, known: dict[Partition, int] | None) -> dict[Partition, int]:
        """Begins behind known offsets, or where the options say. Partitions that were not known are read from their
        beginning. Returns the offsets that are certain by now."""
        found = self._partitions()
        certain = dict(known) if known is not None else self._first(found)
        self._assign({partition: certain.get(partition, self._kafka.OFFSET_BEGINNING) for partition in found})
        return certain

    def add_new(self) -> None:
        """Partitions that have come since are read from their beginning."""
        new = [partition for partition in self._partitions() if partition not in self._places]
        if new:
            self._assign(dict.fromkeys(new, self._kafka.OFFSET_BEGINNING))

    def next(self, most: int, seconds: float) -> list[Any]:
        """Return records as soon as there are any; an empty list after `seconds`."""
        found = []
        for message in self._ask(lambda: self._consumer.consume(most, seconds)):
            if message.error() is None:
                partition = (message.topic(), message.partition())
                self._places[partition] = message.offset() + 1
                self._at_end.discard(partition)
                found.append(message)
            else:
                self._note_end(message)
        if found:
            self._gone = None
        elif self._gone is not None and time.monotonic() - self._gone > SILENT_SECONDS:
            raise self._away("none answers")
        return found

    def ends(self) -> dict[Partition, int]:
        """Behind the last record of each partition now."""
        return {partition: self._bounds(partition)[1] for partition in self._places}

    def reached(self, ends: dict[Partition, int]) -> bool:
        """Whether all has been read up to there. The end of a transaction takes a place too, so a partition may be at
        its end before that."""
        return all(self._places[partition] >= end or partition in self._at_end for partition, end in ends.items())

    def lag(self) -> int:
        """How many records were not read yet, as far as the brokers have told."""
        total = 0
        for partition, place in self._places.items():
            if partition not in self._at_end:
                _, high = self._consumer.get_watermark_offsets(self._topic_partition(partition), cached=True)
                total += max(high - max(place, 0), 0)
        return total

    def _connect(self, answer_ms: int) -> Any:
        settings = {
            "fetch.wait.max.ms": answer_ms,
            **client_settings(self._options.client),
            "bootstrap.servers": self._options.brokers,
            "group.id": self._options.group or "tidegate",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "error_cb": self._note,
            "logger": LOGGER,
        }
        try:
            return self._kafka.Consumer(settings)
        except self._kafka.KafkaException as failure:
            raise self._refused_setting(failure.args[0].str()) from None

    def _refused_setting(self, reason: str) -> Error:
        for name, value in self._options.client.items():
            reason = reason.replace(value, "***") if is_secret(name) and value else reason
        return make(
            "INVALID_OPTION",
            message=f"the Kafka client rejects its options: {reason}",
            hint="'kafka.*' and 'properties.*' are for librdkafka: see its CONFIGURATION.md for the names",
        )

    def _partitions(self) -> list[Partition]:
        topics = self._metadata()
        pattern = re.compile(self._options.pattern) if self._options.pattern else None
        missing = [name for name in self._options.topics if name not in topics]
        if missing:
            message = f"there is no topic {', '.join(missing)}"
            raise make("PIPELINE_FAILED", message=message, hint="create the topic, then start again")
        wanted = [name for name in topics if name in self._options.topics or (pattern and pattern.fullmatch(name))]
        return [(name, number) for name in sorted(wanted) for number in sorted(topics[name].partitions)]

    def _metadata(self) -> Any:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return self._consumer.list_topics(timeout=1.0).topics
            except self._kafka.KafkaException as failure:
                self._consumer.poll(0.05)
                if time.monotonic() > deadline:
                    raise self._away(failure.args[0].str()) from None

    def _first(self, found: list[Partition]) -> dict[Partition, int]:
        """Offsets for the options' start; none are certain if that is the beginning."""
        start = self._options.start
        if start.word == "latest":
            return {partition: self._bounds(partition)[1] for partition in found}
        if start.word == "timestamp":
            return self._at_time(found, start.time_ms or 0)
        given: dict[str, dict[str, int]] = json.loads(start.offsets or "{}") if start.word == "offsets" else {}
        named = {(topic, int(n)): at for topic, parts in given.items() for n, at in parts.items()}
        return {each: at if at >= 0 else self._bounds(each)[-2 - at] for each, at in named.items() if each in found}

    def _at_time(self, found: list[Partition], time_ms: int) -> dict[Partition, int]:
        asked = [self._kafka.TopicPartition(topic, number, time_ms) for topic, number in found]
        answered = self._ask(lambda: self._consumer.offsets_for_times(asked, ANSWER_SECONDS))
        places = {(one.topic, one.partition): one.offset for one in answered}
        return {each: at if at >= 0 else self._bounds(each)[1] for each, at in places.items()}

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        asked = self._topic_partition(partition)
        low, high = self._ask(lambda: self._consumer.get_watermark_offsets(asked, ANSWER_SECONDS)) or (0, 0)
        return int(low), int(high)

    def _assign(self, offsets: dict[Partition, int]) -> None:
        self._places.update(offsets)
        self._consumer.incremental_assign(
            [self._kafka.TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        )

    def _topic_partition(self, partition: Partition) -> Any:
        return self._kafka.TopicPartition(*partition)

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._kafka.KafkaException as failure:
            raise self._away(failure.args[0].str()) from None

    def _note_end(self, message: Any) -> None:
        """The end of a partition, or an error that came in place of a record."""
        error, codes = message.error(), self._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._at_end.add((message.topic(), message.partition()))
            self._gone = None
        elif error.code() == codes._AUTO_OFFSET_RESET:
            self._lost((message.topic(), message.partition()))
        elif error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED):
            raise make(
                "PIPELINE_FAILED",
                message=f"Kafka rejected {self._relation}: {error.str()}",
                hint="check the kafka.security.* and kafka.sasl.* options",
            )
        else:
            self._note(error)

    def _lost(self, partition: Partition) -> None:
        """The record at an offset is gone: the topic's retention was faster, or the topic is a new one."""
        if self._options.fail_on_data_loss:
            raise make(
                "PIPELINE_FAILED",
                message=f"records that {self._relation} has not read are gone from topic {partition[0]}",
                detail="they were removed by the topic's retention, or the topic was made anew",
                hint="write fail_on_data_loss = 'false' to go on without them, or DROP and CREATE it again",
            )
        self._consumer.incremental_unassign([self._topic_partition(partition)])
        self._assign({partition: self._bounds(partition)[0]})

    def _note(self, error: Any) -> None:
        """Trouble with the brokers: the client goes on by itself, unless it lasts."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN and self._gone is None:
            self._gone = time.monotonic()

    def _away(self, reason: str) -> OSError:
        return OSError(f"no Kafka broker answers at {self._options.brokers} ({reason})")
