"""A connection that writes whole steps: the records of a step and the step's number in one Kafka transaction.

The number is kept as the committed offset of a consumer group that nobody ever joins. Kafka commits an offset in the
same transaction as the records, so both are there or neither is, and it can be read back after any failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from tidegate.connectors.kafka.client import LOGGER, client_settings, library
from tidegate.connectors.kafka.options import WriteOptions
from tidegate.core.secrets import is_secret
from tidegate.errors import Error, make

Record = tuple[bytes | None, bytes | None]

ANSWER_SECONDS = 5.0
TRANSACTION_SECONDS = 10.0
GRACE_SECONDS = 2.0
DELIVERY_MILLISECONDS = 30_000
SERVED_EVERY = 1000


class DeliveryError(OSError):
    """Kafka did not take a step now. It may do so later."""


class Connection:
    """One producer and the number of the last step it committed. After a failure it is closed, and a new one begins:
    that alone ends what the old one left open, and says how far it came."""

    def __init__(self, options: WriteOptions, name: str) -> None:
        self._options, self._kafka = options, library()
        self._trouble: Any = None
        self._undelivered: Any = None
        self._gone = False
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
        """All of it or nothing. A step without records leaves no trace."""
        begun = False
        try:
            for number, (key, value) in enumerate(records):
                if not begun:
                    self._wake()
                    self._producer.begin_transaction()
                    begun = True
                self._send(key, value)
                if number % SERVED_EVERY == 0:
                    self._serve(0)
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
        """Nothing is waited for: what is not committed never will be."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
        self._consumer.close()

    def _client(self, make_client: Any, own: dict[str, Any], defaults: dict[str, Any] | None = None) -> Any:
        """A client of the library, or an error about the options passed through to it."""
        given = {**(defaults or {}), **client_settings(self._options.client)}
        own |= {"bootstrap.servers": self._options.brokers, "error_cb": self._note, "logger": LOGGER}
        try:
            return make_client({**given, **own})
        except self._kafka.KafkaException as failure:
            raise refused_setting(self._options, failure.args[0].str()) from None

    def _note(self, error: Any) -> None:
        """Trouble with a broker. The client says apart from that when none is left."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._gone = True
        elif self._lost(error):
            self._trouble = error

    def _lost(self, error: Any) -> bool:
        """Whether an error is about the way to the brokers, not about what was asked of them."""
        codes = self._kafka.KafkaError
        ways = (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._AUTHENTICATION, codes._RESOLVE)
        return error.code() in (*ways, codes._SSL)

    def _find_topic(self) -> None:
        """Asked as a consumer: a producer's question would create the topic on brokers that do so."""
        topic = self._options.topic
        found = self._metadata(topic).topics[topic]
        if found.error is not None:
            raise self._no_topic(found.error)

    def _metadata(self, topic: str) -> Any:
        """The question waits for brokers that are known to be gone, so it is asked again and again for a short time."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return self._consumer.list_topics(topic, 1.0)
            except self._kafka.KafkaException as failure:
                self._consumer.poll(0.05)
                if self._gone or time.monotonic() > deadline:
                    raise DeliveryError(self._reason(failure.args[0])) from None

    def _wake(self) -> None:
        """Brokers end connections that rest for long, which looks as if they were gone. So they are asked."""
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
        """A producer that has ended every transaction that an earlier one of this name left open."""
        producer = self._client(self._kafka.Producer, _transactional(self._options, name), _defaults(self._options))
        try:
            producer.init_transactions(TRANSACTION_SECONDS)
        except self._kafka.KafkaException as failure:
            if failure.args[0].code() == self._kafka.KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise self._timeout_too_long() from None
            raise DeliveryError(self._reason(failure.args[0])) from None
        return producer

    def _timeout_too_long(self) -> Error:
        return make(
            "INVALID_OPTION",
            message="the brokers do not allow transactions as long as transaction_timeout says",
            hint="shorten transaction_timeout, or raise transaction.max.timeout.ms of the brokers",
        )

    def _committed(self) -> int | None:
        place = self._kafka.TopicPartition(self._options.topic, 0)
        try:
            [found] = self._consumer.committed([place], TRANSACTION_SECONDS)
        except self._kafka.KafkaException as failure:
            raise DeliveryError(self._reason(failure.args[0])) from None
        if found.error is not None:
            raise DeliveryError(self._reason(found.error))
        return None if found.offset < 0 else int(found.offset)

    def _send(self, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._options.topic, value, key, on_delivery=self._delivered)
                return
            except BufferError:
                self._serve(0.1)
            except self._kafka.KafkaException as failure:
                if failure.args[0].code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
                    raise self._too_large(len(key or b"") + len(value or b"")) from None
                raise

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._undelivered is None:
            self._undelivered = error

    def _serve(self, seconds: float) -> None:
        """Lets the producer work and tells what went wrong meanwhile. When no broker is left, waiting would only keep
        other sinks waiting too."""
        self._producer.poll(seconds)
        error = self._undelivered
        if error is not None and error.code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            raise self._too_large(None)
        if error is not None or self._gone:
            raise self._kafka.KafkaException(error or self._kafka.KafkaError(self._kafka.KafkaError._ALL_BROKERS_DOWN))

    def _commit(self, step: int) -> None:
        while self._producer.flush(0.05):
            self._serve(0)
        self._serve(0)
        place = self._kafka.TopicPartition(self._options.topic, 0, step)
        producer, group = self._producer, self._group
        self._answered(lambda: producer.send_offsets_to_transaction([place], group, TRANSACTION_SECONDS))
        self._answered(lambda: producer.commit_transaction(TRANSACTION_SECONDS))
        self.last = step

    def _answered(self, call: Callable[[], object]) -> None:
        """A call that ends in time. For a group's coordinator that a broker still loads after its start the client
        waits longer than it was told to, perhaps for ever: then this producer is left to itself, and the next one shuts
        it out."""
        problems: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as problem:
                problems.append(problem)

        thread = threading.Thread(target=run, daemon=True, name="tidegate-kafka-commit")
        thread.start()
        thread.join(TRANSACTION_SECONDS + GRACE_SECONDS)
        if thread.is_alive():
            self._producer = None
            raise DeliveryError(_said(self._options, "the transaction was not committed in time"))
        if problems:
            raise problems[0]

    def _abort(self) -> None:
        """Readers of committed records wait for an open transaction. If it cannot be ended now, the next producer of
        this name ends it, or the brokers do after transaction_timeout."""
        if self._gone or self._producer is None:
            return
        try:
            self._producer.purge()
            self._producer.abort_transaction(ANSWER_SECONDS)
        except self._kafka.KafkaException as failure:
            self._note(failure.args[0])

    def _too_large(self, size: int | None) -> DeliveryError:
        """`size` is known if the client refused the record, and not if a broker did."""
        topic, limit = self._options.topic, self._options.client.get("message.max.bytes", "1000000")
        if size is None:
            return DeliveryError(f"a record is larger than topic {topic} allows: raise max.message.bytes of the topic")
        return DeliveryError(
            f"a record of {size} bytes for topic {topic} is larger than {limit} bytes: raise the option"
            " 'kafka.message.max.bytes', and max.message.bytes of the topic"
        )

    def _reason(self, error: Any) -> str:
        """What is wrong, in words. What the client said about a broker tells more than that it gave up."""
        text = error.str()
        if self._gone or self._lost(error):
            text = "no broker answers" + (f": {self._trouble.str()}" if self._trouble is not None else "")
        return _said(self._options, text)


def _said(options: WriteOptions, text: str) -> str:
    return _without_secrets(f"Kafka at {options.brokers}, topic {options.topic}: {text}", options)


def _defaults(options: WriteOptions) -> dict[str, Any]:
    """Keys go where Java's producers send them."""
    patience = min(DELIVERY_MILLISECONDS, _milliseconds(options.transaction_timeout))
    return {"partitioner": "murmur2_random", "message.timeout.ms": patience}


def _transactional(options: WriteOptions, name: str) -> dict[str, Any]:
    return {"transactional.id": name, "transaction.timeout.ms": _milliseconds(options.transaction_timeout)}


def _milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))


def check_settings(options: WriteOptions) -> None:
    """Refuses options that the Kafka client does not know. Nothing is connected."""
    kafka = library()
    own = {"bootstrap.servers": options.brokers, "logger": LOGGER, **_transactional(options, "-")}
    try:
        kafka.Producer({**_defaults(options), **client_settings(options.client), **own})
    except kafka.KafkaException as failure:
        raise refused_setting(options, failure.args[0].str()) from None


def refused_setting(options: WriteOptions, reason: str) -> Error:
    return make(
        "INVALID_OPTION",
        message=f"the Kafka client rejects its options: {_without_secrets(reason, options)}",
        hint="'kafka.*' and 'properties.*' are for librdkafka: see its CONFIGURATION.md for the names",
    )


def _without_secrets(text: str, options: WriteOptions) -> str:
    for name, value in options.client.items():
        text = text.replace(value, "***") if is_secret(name) and value else text
    return text
