"""A Kafka broker on loopback (KRaft, one node), and a client that reads its topics without Tidegate."""

from __future__ import annotations

import base64
import contextlib
import signal
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.fetch import server_files
from tests.servers.processes import end, free_port, java, last_lines, listening, running, spawn, wait_until

QUIET = {"log_level": 0}
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.retention.check.interval.ms": "1000",
}


@dataclass(frozen=True)
class Record:
    """A record as a consumer receives it."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Broker:
    """A broker that can be stopped, killed and started again on the same port and data.

    `pid` is None while it does not run. `Broker.at(address)` is only a client of a broker that another process started.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder, self.settings = folder, dict(settings or {})
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def at(cls, address: str) -> Broker:
        broker = cls(Path())
        broker.address = address
        broker.port = int(address.rpartition(":")[2])
        return broker

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    def start(self) -> None:
        if not (self.folder / "server.properties").exists():
            self._format()
        self.process = spawn(self._java("kafka.Kafka", "server.properties"), self.log)
        wait_until(self._up, "the start of the Kafka broker")

    def stop(self, sign: int = signal.SIGTERM) -> None:
        if self.process is not None:
            end(self.process.pid, sign)
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, **QUIET})

    def add_partitions(self, topic: str, total: int) -> None:
        """Adds partitions to a topic, and waits until they can be used."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        for future in admin.create_partitions([NewPartitions(topic, total)]).values():
            future.result()
        wait_until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == total, "partitions")

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Creates a topic, waits until clients can use it, and returns its name."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self.admin()
        admin.create_topics([topic])[name].result(30)
        wait_until(lambda: len(self._leaders(admin, name)) == partitions, f"topic {name}")
        return name

    def produce(
        self, topic: str, records: Iterable[tuple[bytes | str | None, bytes | str | None]], **more: object
    ) -> None:
        """Sends (key, value) pairs in order; `partition`, `timestamp` (ms) or `headers` apply to all of them."""
        producer = Producer({"bootstrap.servers": self.address, "partitioner": "murmur2_random", **QUIET})
        failures: list[KafkaError] = []
        for key, value in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        value,
                        key,
                        on_delivery=lambda error, _: failures.append(error) if error else None,
                        **more,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(30) == 0, f"{topic} did not take all records"
        assert not failures, failures[0]

    def read_committed(self, topic: str) -> list[Record]:
        """The committed records of a topic, by partition and offset."""
        return self.read(topic, "read_committed")

    def read(self, topic: str, isolation: str = "read_uncommitted") -> list[Record]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"look-{uuid.uuid4()}",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                **QUIET,
            }
        )
        try:
            parts = sorted(consumer.list_topics(topic, 30).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, part, 0) for part in parts])
            return sorted(_until_the_end(consumer, set(parts)), key=lambda one: (one.partition, one.offset))
        finally:
            consumer.close()

    def _up(self) -> bool:
        if self.process is not None and not running(self.process.pid):
            raise RuntimeError(f"the Kafka broker ended:\n{last_lines(self.log)}")
        if not listening(self.port):
            return False
        try:
            return bool(self.admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _leaders(self, admin: AdminClient, topic: str) -> list[int]:
        metadata = admin.list_topics(topic, 30).topics[topic]
        return [] if metadata.error else [number for number, part in metadata.partitions.items() if part.leader >= 0]

    def _format(self) -> None:
        controller = f"127.0.0.1:{free_port()}"
        own = {
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(self.folder / "data"),
        }
        lines = [f"{key}={value}\n" for key, value in (SETTINGS | own | self.settings).items()]
        (self.folder / "server.properties").write_text("".join(lines))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With =, since an id may begin with a dash.
        options = ["--standalone", f"--cluster-id={cluster}", "--config=server.properties"]
        if spawn(self._java("kafka.tools.StorageTool", "format", *options), self.log).wait(60):
            raise RuntimeError(f"the Kafka broker's data folder cannot be made:\n{last_lines(self.log)}")

    def _java(self, *arguments: str) -> list[str]:
        return java("-cp", f"{server_files('kafka')}/*", *arguments)


def _until_the_end(consumer: Consumer, parts: set[int]) -> Iterator[Record]:
    while parts:
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                headers = tuple(message.headers() or ())
                yield Record(message.key(), message.value(), message.partition(), message.offset(), headers)
            elif error.code() == KafkaError._PARTITION_EOF:
                parts.discard(message.partition())
            else:
                raise KafkaException(error)


@contextlib.contextmanager
def kafka_broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker of one test, which may stop and kill it; it does not outlive the block."""
    broker = Broker(folder, settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
