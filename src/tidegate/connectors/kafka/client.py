"""Requests to the brokers: partitions of topics, and records for a capture."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from tidegate.connectors.kafka.options import ReadOptions
from tidegate.connectors.kafka.patience import in_time, release
from tidegate.core.retry import Backoff, retry
from tidegate.core.secrets import is_secret
from tidegate.errors import Error, make

SECONDS, GLANCE_SECONDS = 10.0, 3.0
"""How long brokers may take to answer: at a start, and when a running pipeline looks whether they are back."""
LOGGER = logging.getLogger("tidegate.kafka")
LOGGER.addHandler(logging.NullHandler())


def partitions(options: ReadOptions, seconds: float = SECONDS) -> dict[str, list[int]] | None:
    """Return the partitions of every topic that is read, or None if this client cannot be used: options meant for
    Spark's client (a Java trust store, say) can be unknown to librdkafka."""
    kafka = library()
    settings = {**client_settings(options.client), "bootstrap.servers": options.brokers}
    try:
        client = kafka.Consumer({"group.id": options.group or "tidegate", **settings}, logger=LOGGER)
    except kafka.KafkaException:
        return None
    try:
        topics = in_time(lambda: client.list_topics(timeout=seconds).topics, seconds)
    except kafka.KafkaException as failure:
        release(client, lambda last: last.close())
        raise _unanswered(options, failure.args[0].str()) from None
    except TimeoutError as problem:
        raise _unanswered(options, str(problem)) from None
    release(client, lambda last: last.close())
    return {name: sorted(topics[name].partitions) for name in _selected(options, topics)}


def _unanswered(options: ReadOptions, reason: str) -> Error:
    return make(
        "PIPELINE_FAILED",
        message=f"no Kafka broker answers at {options.brokers}",
        detail=reason,
        hint="check that it runs and that brokers = '...' is right, then start again",
    )


def _selected(options: ReadOptions, topics: Iterable[str]) -> list[str]:
    """The topics that the options name or match."""
    pattern = re.compile(options.pattern) if options.pattern else None
    return [name for name in topics if name in options.topics or (pattern and pattern.fullmatch(name))]


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Translate settings for librdkafka: the configuration of a login module becomes a user and a password."""
    settings = dict(options)
    jaas = settings.pop("sasl.jaas.config", None)
    if jaas is not None:
        for name in ("username", "password"):
            match = re.search(rf'{name}="([^"]*)"', jaas)
            if match:
                settings.setdefault(f"sasl.{name}", match[1])
    return settings


def library() -> Any:
    """Import confluent-kafka; an error says how to install it."""
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


_AT_ONCE = Backoff(first=0.0, longest=0.0)


def list_topics(
    consumer: Any, timeout: float, topic: str | None = None, is_lost: Callable[[], bool] = lambda: False
) -> Any:
    """Ask the brokers for the metadata of a topic, or of all topics.

    A request waits for brokers that are known to be gone, so short requests are repeated until `timeout`, or until
    `is_lost` says that no broker is left.
    """
    failure = library().KafkaException
    arguments = {} if topic is None else {"topic": topic}

    def ask() -> Any:
        try:
            return consumer.list_topics(timeout=1.0, **arguments)
        except failure:
            consumer.poll(0.05)  # the pause before the next request, in which the client calls error_cb
            raise

    return retry(ask, lambda problem: isinstance(problem, failure) and not is_lost(), _AT_ONCE, timeout)


ANSWER_SECONDS = 5.0
SILENT_SECONDS = 15.0
Partition = tuple[str, int]


class TopicReader:
    """A consumer without a group. Unreachable brokers are an OSError, which is retried; what a user must correct is an
    Error. A broker without new records answers after `answer_ms`."""

    def __init__(self, options: ReadOptions, relation: str, answer_ms: int = 500) -> None:
        self._options, self._relation, self._kafka = options, relation, library()
        self._gone: float | None = None
        self._silent = False
        self._at_end: set[Partition] = set()
        self._offsets: dict[Partition, int] = {}
        self._consumer = self._connect(answer_ms)

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._silent:
            release(self._consumer, lambda last: last.close())

    def start(self, stored: dict[Partition, int] | None) -> dict[Partition, int]:
        """Begin at known offsets, or at the option `start`; unknown partitions are read from their beginning. Return
        the offsets that are known by now."""
        partitions = self._partitions()
        offsets = dict(stored) if stored is not None else self._first(partitions)
        self._assign({partition: offsets.get(partition, self._kafka.OFFSET_BEGINNING) for partition in partitions})
        return offsets

    def add_new(self) -> None:
        """Read partitions that were added since, from their beginning."""
        new = [partition for partition in self._partitions() if partition not in self._offsets]
        if new:
            self._assign(dict.fromkeys(new, self._kafka.OFFSET_BEGINNING))

    def next(self, most: int, seconds: float) -> list[Any]:
        """Return records as soon as there are any; an empty list after `seconds`."""
        records = []
        for message in self._ask(lambda: self._consumer.consume(most, seconds), seconds):
            if message.error() is None:
                partition = (message.topic(), message.partition())
                self._offsets[partition] = message.offset() + 1
                self._at_end.discard(partition)
                records.append(message)
            else:
                self._handle_error(message)
        if records:
            self._gone = None
        elif self._gone is not None and time.monotonic() - self._gone > SILENT_SECONDS:
            raise self._away("none answers")
        return records

    def ends(self) -> dict[Partition, int]:
        """Return the end offset of each partition."""
        return {partition: self._bounds(partition)[1] for partition in self._offsets}

    def reached(self, ends: dict[Partition, int]) -> bool:
        """True if everything before these offsets was read. Transaction markers use offsets too, so a partition can be
        at its end earlier."""
        return all(self._offsets[partition] >= end or partition in self._at_end for partition, end in ends.items())

    def lag(self) -> int:
        """Return the number of records that were not read yet, by the last answers of the brokers."""
        total = 0
        for partition, offset in self._offsets.items():
            if partition not in self._at_end:
                _, high = self._consumer.get_watermark_offsets(self._topic_partition(partition), cached=True)
                total += max(high - max(offset, 0), 0)
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
            raise self._rejected_setting(failure.args[0].str()) from None

    def _rejected_setting(self, reason: str) -> Error:
        for name, value in self._options.client.items():
            reason = reason.replace(value, "***") if is_secret(name) and value else reason
        return make(
            "INVALID_OPTION",
            message=f"the Kafka client rejects its options: {reason}",
            hint="'kafka.*' and 'properties.*' are for librdkafka: see its CONFIGURATION.md for the names",
        )

    def _partitions(self) -> list[Partition]:
        topics = self._topics()
        missing = [name for name in self._options.topics if name not in topics]
        if missing:
            message = f"there is no topic {', '.join(missing)}"
            raise make("PIPELINE_FAILED", message=message, hint="create the topic, then start again")
        selected = sorted(_selected(self._options, topics))
        return [(name, number) for name in selected for number in sorted(topics[name].partitions)]

    def _topics(self) -> Any:
        return self._ask(lambda: list_topics(self._consumer, ANSWER_SECONDS).topics)

    def _first(self, partitions: list[Partition]) -> dict[Partition, int]:
        """Return the offsets of the option `start`; none for the beginning."""
        start = self._options.start
        if start.word == "latest":
            return {partition: self._bounds(partition)[1] for partition in partitions}
        if start.word == "timestamp":
            return self._at_time(partitions, start.time_ms or 0)
        by_topic: dict[str, dict[str, int]] = json.loads(start.offsets or "{}") if start.word == "offsets" else {}
        requested = {(topic, int(n)): at for topic, parts in by_topic.items() for n, at in parts.items()}
        return {
            each: at if at >= 0 else self._bounds(each)[-2 - at] for each, at in requested.items() if each in partitions
        }

    def _at_time(self, partitions: list[Partition], time_ms: int) -> dict[Partition, int]:
        times = [self._kafka.TopicPartition(topic, number, time_ms) for topic, number in partitions]
        answers = self._ask(lambda: self._consumer.offsets_for_times(times, ANSWER_SECONDS))
        offsets = {(one.topic, one.partition): one.offset for one in answers}
        return {each: at if at >= 0 else self._bounds(each)[1] for each, at in offsets.items()}

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        one = self._topic_partition(partition)
        low, high = self._ask(lambda: self._consumer.get_watermark_offsets(one, ANSWER_SECONDS)) or (0, 0)
        return int(low), int(high)

    def _assign(self, offsets: dict[Partition, int]) -> None:
        self._offsets.update(offsets)
        self._consumer.incremental_assign(
            [self._kafka.TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        )

    def _topic_partition(self, partition: Partition) -> Any:
        return self._kafka.TopicPartition(*partition)

    def _ask(self, request: Callable[[], Any], seconds: float = ANSWER_SECONDS) -> Any:
        try:
            return in_time(request, seconds)
        except self._kafka.KafkaException as failure:
            raise self._away(failure.args[0].str()) from None
        except TimeoutError as problem:
            self._silent = True
            raise self._away(str(problem)) from None

    def _handle_error(self, message: Any) -> None:
        """Handle the end of a partition, or an error in place of a record."""
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
        """Handle a record that was removed: by the topic's retention, or because the topic is a new one."""
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
        """Remember since when no broker is left. The client reconnects by itself: only a long outage is an error."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN and self._gone is None:
            self._gone = time.monotonic()

    def _away(self, reason: str) -> OSError:
        return OSError(f"no Kafka broker answers at {self._options.brokers} ({reason})")
