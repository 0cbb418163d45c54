"""A connection that writes whole steps: the records of a step and the step's number in one Kafka transaction.

The number is the committed offset of a consumer group without members. Kafka commits an offset in the same transaction
as the records, so both exist or neither does, and it can be read back after any failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from tidegate.connectors.kafka.client import LOGGER, client_settings, library, list_topics
from tidegate.connectors.kafka.options import WriteOptions
from tidegate.connectors.kafka.patience import in_time, release
from tidegate.core.secrets import is_secret
from tidegate.errors import Error, make

Record = tuple[bytes | None, bytes | None]
T = TypeVar("T")

ANSWER_SECONDS = 5.0
TRANSACTION_SECONDS = 10.0
PAUSE_SECONDS = 0.005
DELIVERY_MILLISECONDS = 30_000
SERVED_EVERY = 1000


class DeliveryError(OSError):
    """Kafka could not accept a step now; the step is retried."""


class Connection:
    """A producer and the last step that it committed. After a failure it is closed and replaced: only a new producer of
    the same name aborts what the old one left open, and reads back the last committed step."""

    def __init__(self, options: WriteOptions, name: str) -> None:
        self._options, self._kafka = options, library()
        self._trouble: Any = None
        self._undelivered: Any = None
        self._gone = self._silent = False
        self._consumer = self._client(self._kafka.Consumer, {"group.id": name, "enable.auto.commit": False})
        self._group = self._consumer.consumer_group_metadata()
        self._producer: Any = None
        try:
            self._find_topic()
            self._producer = self._begin(name)
            self.last = self._committed()
        except BaseException:
            self.close()
            raise

    def write(self, step: int, records: Iterable[Record]) -> None:
        """Write a step in one transaction, or nothing of it. A step without records is not recorded."""
        begun = False
        try:
            for number, (key, value) in enumerate(records):
                if not begun:
                    self._check_brokers()
                    self._producer.begin_transaction()
                    begun = True
                self._send(key, value)
                if number % SERVED_EVERY == 0:
                    self._serve()
            if begun:
                self._commit(step)
        except self._kafka.KafkaException as failure:
            self._abort()
            raise DeliveryError(self._reason(failure.args[0])) from None
        except BaseException:
            if begun:
                self._abort()
            raise

    def close(self) -> None:
        """Close without waiting: what is not committed never will be."""
        producer, self._producer = self._producer, None
        if producer is not None:
            release(producer, lambda last: last.purge())
        del producer
        if not self._silent:
            release(self._consumer, lambda last: last.close())

    def _client(self, make_client: Any, own: dict[str, Any], defaults: dict[str, Any] | None = None) -> Any:
        """Create a client of the library; options that it rejects are an error of the user."""
        settings = {**(defaults or {}), **client_settings(self._options.client)}
        own |= {"bootstrap.servers": self._options.brokers, "error_cb": self._note, "logger": LOGGER}
        try:
            return make_client({**settings, **own})
        except self._kafka.KafkaException as failure:
            raise rejected_setting(self._options, failure.args[0].str()) from None

    def _note(self, error: Any) -> None:
        """Callback for errors of brokers. That no broker is left is an error of its own."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._gone = True
        elif self._is_unreachable(error):
            self._trouble = error

    def _is_unreachable(self, error: Any) -> bool:
        """True for an error of the connection to the brokers, not of a request."""
        codes = self._kafka.KafkaError
        network = (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._RESOLVE)
        return error.code() in (*network, codes._AUTHENTICATION, codes._SSL)

    def _find_topic(self) -> None:
        """Check that the topic exists, as a consumer: a producer's request would create it on brokers that allow it."""
        topic = self._options.topic
        metadata = self._metadata(topic).topics[topic]
        if metadata.error is not None:
            raise self._no_topic(metadata.error)

    def _metadata(self, topic: str) -> Any:
        return self._answered(lambda: list_topics(self._consumer, ANSWER_SECONDS, topic, is_lost=lambda: self._gone))

    def _answered(self, call: Callable[[], T]) -> T:
        """The result of a call; a DeliveryError if there is none in time."""
        try:
            return in_time(call, TRANSACTION_SECONDS)
        except self._kafka.KafkaException as failure:
            raise DeliveryError(self._reason(failure.args[0])) from None
        except TimeoutError as problem:
            self._silent = True
            raise DeliveryError(_describe(self._options, str(problem))) from None

    def _check_brokers(self) -> None:
        """Check that brokers answer: they close idle connections, which looks as if they were gone."""
        self._producer.poll(0)
        if self._gone:
            self._gone = False
            self._metadata(self._options.topic)

    def _no_topic(self, error: Any) -> Exception:
        topic, codes = self._options.topic, self._kafka.KafkaError
        if error.code() not in (codes.UNKNOWN_TOPIC_OR_PART, codes.TOPIC_EXCEPTION, codes.TOPIC_AUTHORIZATION_FAILED):
            return DeliveryError(self._reason(error))
        unknown = error.code() == codes.UNKNOWN_TOPIC_OR_PART
        return make(
            "INVALID_OPTION",
            message=f"there is no topic {topic}" if unknown else f"topic {topic} cannot be used: {error.str()}",
            detail=f"brokers: {self._options.brokers}",
            hint=f"create it first: kafka-topics.sh --bootstrap-server {self._options.brokers} --create --topic {topic}"
            if unknown
            else "choose another topic",
        )

    def _begin(self, name: str) -> Any:
        """Create the producer, which aborts every transaction that an earlier one of this name left open."""
        producer = self._client(self._kafka.Producer, _transactional(self._options, name), _defaults(self._options))

        def begin() -> None:
            try:
                producer.init_transactions(TRANSACTION_SECONDS)
            except self._kafka.KafkaException as failure:
                if failure.args[0].code() == self._kafka.KafkaError.INVALID_TRANSACTION_TIMEOUT:
                    raise self._timeout_too_long() from None
                raise

        self._answered(begin)
        return producer

    def _timeout_too_long(self) -> Error:
        return make(
            "INVALID_OPTION",
            message="the brokers do not allow transactions as long as transaction_timeout says",
            hint="shorten transaction_timeout, or raise transaction.max.timeout.ms of the brokers",
        )

    def _committed(self) -> int | None:
        partition = self._kafka.TopicPartition(self._options.topic, 0)
        [committed] = self._answered(lambda: self._consumer.committed([partition], TRANSACTION_SECONDS))
        if committed.error is not None:
            raise DeliveryError(self._reason(committed.error))
        return None if committed.offset < 0 else int(committed.offset)

    def _send(self, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._options.topic, value, key, on_delivery=self._delivered)
                return
            except BufferError:
                self._serve()
                time.sleep(PAUSE_SECONDS)
            except self._kafka.KafkaException as failure:
                if failure.args[0].code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
                    raise self._too_large(len(key or b"") + len(value or b"")) from None
                raise

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._undelivered is None:
            self._undelivered = error

    def _serve(self) -> None:
        """Serve the producer's callbacks and raise what they reported. When no broker is left, waiting would only delay
        other sinks."""
        self._producer.poll(0)
        error = self._undelivered
        if error is not None and error.code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            raise self._too_large(None)
        if error is not None or self._gone:
            raise self._kafka.KafkaException(error or self._kafka.KafkaError(self._kafka.KafkaError._ALL_BROKERS_DOWN))

    def _commit(self, step: int) -> None:
        until = time.monotonic() + DELIVERY_MILLISECONDS / 1000 + TRANSACTION_SECONDS
        while len(self._producer):
            self._serve()
            if time.monotonic() > until:
                raise DeliveryError(_describe(self._options, "the records were not delivered in time"))
            time.sleep(PAUSE_SECONDS)
        self._serve()
        offset = self._kafka.TopicPartition(self._options.topic, 0, step)
        producer, group = self._producer, self._group
        try:
            in_time(
                lambda: producer.send_offsets_to_transaction([offset], group, TRANSACTION_SECONDS), TRANSACTION_SECONDS
            )
            in_time(lambda: producer.commit_transaction(TRANSACTION_SECONDS), TRANSACTION_SECONDS)
        except TimeoutError:
            # Also while a broker loads a group's coordinator after its start: the client then ignores its own timeout,
            # perhaps for ever. The next producer of this name fences this one off.
            self._producer = None
            raise DeliveryError(_describe(self._options, "the transaction was not committed in time")) from None
        self.last = step

    def _abort(self) -> None:
        """Abort the transaction, since readers of committed records wait for it. If that fails, the next producer of
        this name does it, or the brokers after transaction_timeout."""
        if self._gone or self._producer is None:
            return
        producer = self._producer

        def abort() -> None:
            producer.purge()
            producer.abort_transaction(ANSWER_SECONDS)

        try:
            in_time(abort, ANSWER_SECONDS)
        except self._kafka.KafkaException as failure:
            self._note(failure.args[0])
        except TimeoutError:
            self._producer = None

    def _too_large(self, size: int | None) -> DeliveryError:
        """`size` is None if a broker rejected the record, not the client."""
        topic, limit = self._options.topic, self._options.client.get("message.max.bytes", "1000000")
        if size is None:
            return DeliveryError(f"a record is larger than topic {topic} allows: raise max.message.bytes of the topic")
        return DeliveryError(
            f"a record of {size} bytes for topic {topic} is larger than {limit} bytes: raise the option"
            " 'kafka.message.max.bytes', and max.message.bytes of the topic"
        )

    def _reason(self, error: Any) -> str:
        """The text of an error. An earlier error of a broker explains more than the final timeout."""
        text = error.str()
        if self._gone or self._is_unreachable(error):
            text = "no broker answers" + (f": {self._trouble.str()}" if self._trouble is not None else "")
        return _describe(self._options, text)


def _describe(options: WriteOptions, text: str) -> str:
    return _without_secrets(f"Kafka at {options.brokers}, topic {options.topic}: {text}", options)


def _defaults(options: WriteOptions) -> dict[str, Any]:
    """Defaults of the producer. Keys are partitioned as by Java's producers."""
    timeout = min(DELIVERY_MILLISECONDS, _milliseconds(options.transaction_timeout))
    return {"partitioner": "murmur2_random", "message.timeout.ms": timeout}


def _transactional(options: WriteOptions, name: str) -> dict[str, Any]:
    return {"transactional.id": name, "transaction.timeout.ms": _milliseconds(options.transaction_timeout)}


def _milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))


def check_settings(options: WriteOptions) -> None:
    """Reject options that the Kafka client does not know, without connecting."""
    kafka = library()
    own = {"bootstrap.servers": options.brokers, "logger": LOGGER, **_transactional(options, "-")}
    try:
        kafka.Producer({**_defaults(options), **client_settings(options.client), **own})
    except kafka.KafkaException as failure:
        raise rejected_setting(options, failure.args[0].str()) from None


def rejected_setting(options: WriteOptions, reason: str) -> Error:
    return make(
        "INVALID_OPTION",
        message=f"the Kafka client rejects its options: {_without_secrets(reason, options)}",
        hint="'kafka.*' and 'properties.*' are for librdkafka: see its CONFIGURATION.md for the names",
    )


def _without_secrets(text: str, options: WriteOptions) -> str:
    for name, value in options.client.items():
        text = text.replace(value, "***") if is_secret(name) and value else text
    return text
