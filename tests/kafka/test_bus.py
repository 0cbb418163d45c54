"""`FROM KAFKA` without columns: records as events of the bus, each just once."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.kafka.helpers import put, topic
from tests.servers import Broker
from tests.servers.processes import free_port, wait_until
from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import CaptureContext, CapturedSource, RejectedRow, Rows, SourceSpec
from tidegate.connectors.kafka import capture as capturing
from tidegate.connectors.kafka.capture import KafkaCapture, Reader
from tidegate.connectors.kafka.source import KafkaEvents, KafkaStream, build
from tidegate.core.options import Bag
from tidegate.core.schema import Column
from tidegate.errors import Error


class FakeIntake:
    """An insert log in memory."""

    def __init__(self, position: Any = None) -> None:
        self.stopped = threading.Event()
        self.position = position
        self.rows: list[dict[str, Any]] = []
        self.refused: list[RejectedRow] = []
        self.appends = 0

    def append(self, rows: list[Rows], position: Any, refused: list[RejectedRow] | tuple[()] = ()) -> None:
        for relation, table, weight in rows:
            assert (relation, weight) == (BUS, 1)
            self.rows += table.to_pylist()
        self.refused += refused
        self.position = json.loads(json.dumps(position))
        self.appends += 1

    @property
    def payloads(self) -> list[Any]:
        return [json.loads(row["payload"]) for row in self.rows]


def source(brokers: str, format: str | None = None, **options: str) -> KafkaEvents:
    given = {"brokers": brokers} | {name.replace("__", "."): text for name, text in options.items()}
    bag = Bag("KAFKA", [(name, text, None) for name, text in given.items()])
    made = build(SourceSpec("KAFKA", "k", (), given, format), bag)
    bag.finish()
    assert isinstance(made, KafkaEvents)
    return made


Captures = Callable[..., KafkaCapture]


@pytest.fixture
def capture(broker: Broker, tmp_path: Path) -> Captures:
    def make(format: str | None = None, brokers: str = broker.address, **options: str) -> KafkaCapture:
        made = source(brokers, format, **options).capture([], CaptureContext("db", tmp_path, lambda: 5_000_000))
        assert isinstance(made, KafkaCapture)
        return made

    return make


@pytest.fixture
def following() -> Iterator[Callable[[KafkaCapture, FakeIntake], None]]:
    """Follows from a thread until the test ends."""
    running: list[tuple[threading.Thread, FakeIntake]] = []

    def follow(capture: KafkaCapture, intake: FakeIntake) -> None:
        thread = threading.Thread(target=capture.follow, args=(intake,))
        running.append((thread, intake))
        thread.start()

    yield follow
    for thread, intake in running:
        intake.stopped.set()
        thread.join(30)
        assert not thread.is_alive()


def test_records_are_events_once(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus", 2)
    put(broker, name, {"n": 1}, {"n": 2})
    put(broker, name, {"n": 3}, partition=1)
    first, intake = capture(topic=name), FakeIntake()
    first.catch_up(intake)
    assert sorted(row["n"] for row in intake.payloads) == [1, 2, 3]
    row = next(row for row in intake.rows if row["payload"] == '{"n": 3}')
    assert (row["id"], row["channel"], row["operation"], row["source"]) == (
        f"{name}-1-0",
        f"kafka:{name}",
        "INSERT",
        "k",
    )
    assert row["created_at"].timestamp() == 5.0
    assert intake.position == {"offsets": {name: {"0": 2, "1": 1}}}
    assert first.metrics() == {"kafka_lag_records": 0.0, "kafka_records_total": 3.0}
    first.catch_up(intake)
    assert len(intake.rows) == 3
    put(broker, name, {"n": 4}, partition=1)
    later = FakeIntake(intake.position)
    capture(topic=name).catch_up(later)
    assert later.payloads == [{"n": 4}]


def test_only_what_is_committed_is_read(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": uuid.uuid4().hex, "log_level": 0})
    producer.init_transactions(30)
    for value, end in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(name, value)
        end(30)
    producer.begin_transaction()
    producer.produce(name, b"3")
    producer.flush(30)
    intake = FakeIntake()
    capture(topic=name).catch_up(intake)
    assert intake.payloads == [1]
    producer.commit_transaction(30)
    capture(topic=name).catch_up(intake)
    assert intake.payloads == [1, 3]


def test_it_follows_what_comes_even_on_new_partitions(
    broker: Broker, capture: Captures, following: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "LOOK_SECONDS", 0.3)
    name = topic(broker, "bus")
    intake = FakeIntake()
    following(capture(topic=name), intake)
    put(broker, name, {"n": 1})
    wait_until(lambda: intake.payloads == [{"n": 1}], "the first event")
    broker.add_partitions(name, 2)
    put(broker, name, {"n": 2}, partition=1)
    wait_until(lambda: intake.payloads == [{"n": 1}, {"n": 2}], "the event of the new partition")
    assert intake.position == {"offsets": {name: {"0": 1, "1": 1}}}


def test_a_step_takes_no_more_than_it_is_told_to(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    put(broker, name, *({"n": number} for number in range(25)))
    intake = FakeIntake()
    capture(topic=name, max_rows_per_step="10").catch_up(intake)
    assert len(intake.rows) == 25
    assert intake.appends >= 3


def test_where_reading_begins(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus", config={"retention.ms": "-1"})
    broker.produce(name, [(None, b"1"), (None, b"2")], timestamp=1_000_000_000_000)
    broker.produce(name, [(None, b"3")])

    def read(**options: str) -> tuple[FakeIntake, list[Any]]:
        intake = FakeIntake()
        capture(topic=name, **options).catch_up(intake)
        return intake, intake.payloads

    latest, nothing = read(start="latest")
    assert (nothing, latest.position) == ([], {"offsets": {name: {"0": 3}}})
    assert read(start="2020-01-01")[1] == [3]
    assert read(start=json.dumps({name: {"0": 1}}))[1] == [2, 3]
    assert read(start=json.dumps({name: {"0": -2}}))[1] == [1, 2, 3]
    assert read(start=json.dumps({name: {"0": -1}}))[1] == []
    broker.produce(name, [(None, b"4")])
    capture(topic=name, start="latest").catch_up(latest)
    assert latest.payloads == [4]


def test_topics_by_pattern(broker: Broker, capture: Captures) -> None:
    one, two = topic(broker, "patterned"), topic(broker, "patterned")
    put(broker, one, {"n": 1})
    put(broker, two, {"n": 2})
    intake = FakeIntake()
    capture(pattern="patterned-.*", channel="all").catch_up(intake)
    assert sorted(row["n"] for row in intake.payloads) == [1, 2]
    assert {row["channel"] for row in intake.rows} == {"all"}


def test_records_that_are_gone_are_told(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    put(broker, name, *({"n": number} for number in range(5)))
    admin = broker.admin()
    for deleted in admin.delete_records([TopicPartition(name, 0, 3)]).values():
        deleted.result()
    behind = {"offsets": {name: {"0": 1}}}
    with pytest.raises(Error) as lost:
        capture(topic=name).catch_up(FakeIntake(behind))
    assert lost.value.message == f"records that k has not read are gone from topic {name}"
    assert lost.value.hint == "write fail_on_data_loss = 'false' to go on without them, or DROP and CREATE it again"
    intake = FakeIntake(behind)
    capture(topic=name, fail_on_data_loss="false").catch_up(intake)
    assert intake.payloads == [{"n": 3}, {"n": 4}]


def test_records_that_are_no_envelopes_are_refused_if_they_should_be(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    change = {"op": "c", "before": None, "after": {"id": 1}, "source": {"table": "orders", "schema": "public"}}
    put(broker, name, change, {"n": 1})
    broker.produce(name, [(b"k", None)])
    intake = FakeIntake()
    capture("debezium", topic=name).catch_up(intake)
    assert intake.payloads == [{"op": "INSERT", "table": "orders", "row": {"id": 1}, "old": None}]
    place = f"topic {name} partition 0 offset 1"
    message = f"a row of k cannot be read: {place}: it is not a Debezium envelope in JSON"
    assert intake.refused == [("k", "MALFORMED_ROW", message, '{"n": 1}')]
    assert intake.position == {"offsets": {name: {"0": 3}}}


def test_brokers_topics_and_options_that_are_not_there(
    broker: Broker, capture: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.connectors.kafka import client as consumer

    monkeypatch.setattr(consumer, "ANSWER_SECONDS", 0.2)
    port = free_port()
    with pytest.raises(OSError, match=f"no Kafka broker answers at 127.0.0.1:{port} "):
        capture(topic="t", brokers=f"127.0.0.1:{port}").catch_up(FakeIntake())
    with pytest.raises(Error) as missing:
        capture(topic="nowhere").catch_up(FakeIntake())
    assert (missing.value.message, missing.value.hint) == (
        "there is no topic nowhere", "create the topic, then start again"
    )  # fmt: skip
    with pytest.raises(Error) as refused:
        capture(topic="t", kafka__nonsense="x", kafka__sasl__password="topsecret").catch_up(FakeIntake())
    assert refused.value.message == ('the Kafka client rejects its options: No such configuration property: "nonsense"')
    assert "topsecret" not in str(refused.value)


def test_only_a_source_without_columns_feeds_the_bus() -> None:
    made = source("b:1", topic="t")
    assert isinstance(made, CapturedSource)
    assert made.session == "kafka k"
    bag = Bag("KAFKA", [("brokers", "b:1", None), ("topic", "t", None), ("channel", "c", None)])
    columns = build(SourceSpec("KAFKA", "k", (Column("id", "bigint"),)), bag)
    assert isinstance(columns, KafkaStream)
    with pytest.raises(Error, match="KAFKA has no option 'channel'"):
        bag.finish()
    with pytest.raises(Error, match="KAFKA has no format avro"):
        source("b:1", "avro", topic="t")


ROW = {"id": 1, "name": "ä"}


def said(value: Any, key: bytes | None = None, reader: Reader = Reader("k", None, False)) -> tuple[str, str, Any]:  # noqa: B008
    text = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    event = reader.event("t", 0, 7, key, text, 0)
    assert event is not None and event.id == "t-0-7"
    return event.operation, event.channel, json.loads(event.payload)


@pytest.mark.parametrize(
    ("value", "operation", "payload"),
    [
        ({"op": "c", "before": None, "after": ROW}, "INSERT", {"row": ROW, "old": None}),
        ({"op": "r", "after": ROW}, "INSERT", {"row": ROW, "old": None, "snapshot": True}),
        ({"op": "u", "before": {"id": 1}, "after": ROW}, "UPDATE", {"row": ROW, "old": {"id": 1}}),
        ({"op": "d", "before": ROW, "after": None}, "DELETE", {"row": None, "old": ROW}),
        ({"op": "t", "before": None, "after": None}, "TRUNCATE", {"row": None, "old": None}),
    ],
)
def test_what_envelopes_become(value: dict[str, Any], operation: str, payload: dict[str, Any]) -> None:
    expected = (operation, "pgcdc:orders", {"op": operation, "table": "orders", **payload})
    tabled = {**value, "source": {"schema": "public", "table": "orders"}}
    assert said(tabled) == expected
    assert said({"schema": {"type": "struct"}, "payload": tabled}) == expected
    assert said({**value, "source": {"schema": "shop", "table": "orders"}})[1] == "pgcdc:shop.orders"
    assert said(value)[1] == "pgcdc:t"
    assert said(tabled, reader=Reader("k", "mine", False))[1] == "mine"


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (b' {"n": 1.50}\n', {"n": 1.5}),
        (b"[1, 2]", [1, 2]),
        (b"plain text", {"value": "plain text"}),
        (b'{"n": NaN}', {"value": '{"n": NaN}'}),
        (b"{} {}", {"value": "{} {}"}),
        (b"", {"value": ""}),
        (b"\xff\x00", {"base64": "/wA="}),
        (b'{"op":"c"}', {"op": "c"}),
        (b'{"op":"x","after":{}}', {"op": "x", "after": {}}),
        (b"[" * 100_000, {"value": "[" * 100_000}),
    ],
)
def test_what_other_records_become(value: bytes, payload: Any) -> None:
    assert said(value) == ("INSERT", "kafka:t", payload)


def test_a_payload_is_the_text_that_was_sent() -> None:
    event = Reader("k", None, False).event("t", 0, 0, None, b' {"n": 1.50}\n', 0)
    assert event is not None and event.payload == '{"n": 1.50}'


@pytest.mark.parametrize(("key", "shown"), [(b'{"id": 1}', {"id": 1}), (b"abc", "abc"), (None, None)])
def test_a_tombstone_is_a_delete_of_its_key(key: bytes | None, shown: Any) -> None:
    assert said(None, key) == ("DELETE", "kafka:t", {"op": "DELETE", "key": shown})
    assert Reader("k", None, True).event("t", 0, 0, key, None, 0) is None
