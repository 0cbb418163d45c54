"""`FROM KAFKA` without columns: records as events on the bus, each exactly once."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.formats.envelopes import CASES, Case
from tests.kafka.helpers import produce_json, topic
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
        self.rejected: list[RejectedRow] = []
        self.appends = 0

    def append(self, rows: list[Rows], position: Any, rejected: list[RejectedRow] | tuple[()] = ()) -> None:
        for relation, table, weight in rows:
            assert (relation, weight) == (BUS, 1)
            self.rows += table.to_pylist()
        self.rejected += rejected
        self.position = json.loads(json.dumps(position))
        self.appends += 1

    @property
    def payloads(self) -> list[Any]:
        return [json.loads(row["payload"]) for row in self.rows]


def source(brokers: str, format: str | None = None, **options: str) -> KafkaEvents:
    all_options = {"brokers": brokers} | {name.replace("__", "."): text for name, text in options.items()}
    bag = Bag("KAFKA", [(name, text, None) for name, text in all_options.items()])
    created = build(SourceSpec("KAFKA", "k", (), all_options, format), bag)
    bag.finish()
    assert isinstance(created, KafkaEvents)
    return created


Captures = Callable[..., KafkaCapture]


@pytest.fixture
def capture(broker: Broker, tmp_path: Path) -> Captures:
    def make(format: str | None = None, brokers: str = broker.address, **options: str) -> KafkaCapture:
        created = source(brokers, format, **options).capture([], CaptureContext("db", tmp_path, lambda: 5_000_000))
        assert isinstance(created, KafkaCapture)
        return created

    return make


@pytest.fixture
def following() -> Iterator[Callable[[KafkaCapture, FakeIntake], None]]:
    """Runs captures on threads until the test ends."""
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


def test_each_record_is_one_event(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus", 2)
    produce_json(broker, name, {"n": 1}, {"n": 2})
    produce_json(broker, name, {"n": 3}, partition=1)
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
    produce_json(broker, name, {"n": 4}, partition=1)
    later = FakeIntake(intake.position)
    capture(topic=name).catch_up(later)
    assert later.payloads == [{"n": 4}]


def test_only_committed_records_are_read(broker: Broker, capture: Captures) -> None:
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


def test_it_follows_new_records_and_new_partitions(
    broker: Broker, capture: Captures, following: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "LOOK_SECONDS", 0.3)
    name = topic(broker, "bus")
    intake = FakeIntake()
    following(capture(topic=name), intake)
    produce_json(broker, name, {"n": 1})
    wait_until(lambda: intake.payloads == [{"n": 1}], "the first event")
    broker.add_partitions(name, 2)
    produce_json(broker, name, {"n": 2}, partition=1)
    wait_until(lambda: intake.payloads == [{"n": 1}, {"n": 2}], "the event of the new partition")
    assert intake.position == {"offsets": {name: {"0": 1, "1": 1}}}


def test_max_rows_per_step_limits_an_append(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    produce_json(broker, name, *({"n": number} for number in range(25)))
    intake = FakeIntake()
    capture(topic=name, max_rows_per_step="10").catch_up(intake)
    assert len(intake.rows) == 25
    assert intake.appends >= 3


def test_where_reading_begins(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus", config={"retention.ms": "-1"})
    broker.produce(name, [(None, b"1"), (None, b"2")], timestamp=1_000_000_000_000)
    broker.produce(name, [(None, b"3")])

    def read_from(**options: str) -> tuple[FakeIntake, list[Any]]:
        intake = FakeIntake()
        capture(topic=name, **options).catch_up(intake)
        return intake, intake.payloads

    latest, nothing = read_from(start="latest")
    assert (nothing, latest.position) == ([], {"offsets": {name: {"0": 3}}})
    assert read_from(start="2020-01-01")[1] == [3]
    assert read_from(start=json.dumps({name: {"0": 1}}))[1] == [2, 3]
    assert read_from(start=json.dumps({name: {"0": -2}}))[1] == [1, 2, 3]
    assert read_from(start=json.dumps({name: {"0": -1}}))[1] == []
    broker.produce(name, [(None, b"4")])
    capture(topic=name, start="latest").catch_up(latest)
    assert latest.payloads == [4]


def test_topics_by_pattern(broker: Broker, capture: Captures) -> None:
    one, two = topic(broker, "patterned"), topic(broker, "patterned")
    produce_json(broker, one, {"n": 1})
    produce_json(broker, two, {"n": 2})
    intake = FakeIntake()
    capture(pattern="patterned-.*", channel="all").catch_up(intake)
    assert sorted(row["n"] for row in intake.payloads) == [1, 2]
    assert {row["channel"] for row in intake.rows} == {"all"}


def test_deleted_records_that_were_not_read_are_an_error(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    produce_json(broker, name, *({"n": number} for number in range(5)))
    admin = broker.admin()
    for future in admin.delete_records([TopicPartition(name, 0, 3)]).values():
        future.result()
    behind = {"offsets": {name: {"0": 1}}}
    with pytest.raises(Error) as caught:
        capture(topic=name).catch_up(FakeIntake(behind))
    assert caught.value.message == f"records that k has not read are gone from topic {name}"
    assert caught.value.hint == "write fail_on_data_loss = 'false' to go on without them, or DROP and CREATE it again"
    intake = FakeIntake(behind)
    capture(topic=name, fail_on_data_loss="false").catch_up(intake)
    assert intake.payloads == [{"n": 3}, {"n": 4}]


def test_records_without_an_envelope_are_rejected_with_format_debezium(broker: Broker, capture: Captures) -> None:
    name = topic(broker, "bus")
    change = {"op": "c", "before": None, "after": {"id": 1}, "source": {"table": "orders", "schema": "public"}}
    produce_json(broker, name, change, {"n": 1})
    broker.produce(name, [(b"k", None)])
    intake = FakeIntake()
    capture("debezium", topic=name).catch_up(intake)
    assert intake.payloads == [{"op": "INSERT", "table": "orders", "row": {"id": 1}, "old": None}]
    place = f"topic {name} partition 0 offset 1"
    message = f"a row of k cannot be read: {place}: the record has no op: it is not a Debezium envelope"
    assert intake.rejected == [("k", "MALFORMED_ROW", message, '{"n": 1}')]
    assert intake.position == {"offsets": {name: {"0": 3}}}


def test_missing_brokers_topics_and_client_options(
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
    with pytest.raises(Error) as caught:
        capture(topic="t", kafka__nonsense="x", kafka__sasl__password="topsecret").catch_up(FakeIntake())
    assert caught.value.message == ('the Kafka client rejects its options: No such configuration property: "nonsense"')
    assert "topsecret" not in str(caught.value)


def test_only_a_source_without_columns_feeds_the_bus() -> None:
    events = source("b:1", topic="t")
    assert isinstance(events, CapturedSource)
    assert events.session == "kafka k"
    bag = Bag("KAFKA", [("brokers", "b:1", None), ("topic", "t", None), ("channel", "c", None)])
    columns = build(SourceSpec("KAFKA", "k", (Column("id", "bigint"),)), bag)
    assert isinstance(columns, KafkaStream)
    with pytest.raises(Error, match="KAFKA has no option 'channel'"):
        bag.finish()
    with pytest.raises(Error, match="KAFKA has no format avro"):
        source("b:1", "avro", topic="t")


ROW = {"id": 1, "name": "ä"}


def event_of(value: Any, key: bytes | None = None, reader: Reader = Reader("k", None, False)) -> tuple[str, str, Any]:  # noqa: B008
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
def test_debezium_envelopes_become_change_events(
    value: dict[str, Any], operation: str, payload: dict[str, Any]
) -> None:
    expected = (operation, "pgcdc:orders", {"op": operation, "table": "orders", **payload})
    with_table = {**value, "source": {"schema": "public", "table": "orders"}}
    assert event_of(with_table) == expected
    assert event_of({"schema": {"type": "struct"}, "payload": with_table}) == expected
    assert event_of({**value, "source": {"schema": "shop", "table": "orders"}})[1] == "pgcdc:shop.orders"
    assert event_of(value)[1] == "pgcdc:t"
    assert event_of(with_table, reader=Reader("k", "mine", False))[1] == "mine"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_debezium_records_become_change_events(case: Case) -> None:
    """A table decodes the same cases in tests/formats/test_debezium.py. Without `debezium`, any record is an event."""
    strict, tolerant = Reader("k", None, True), Reader("k", None, False)
    event = tolerant.event("t", 0, 7, None, case.value, 0)
    assert event is not None
    if isinstance(case.event, str):
        with pytest.raises(ValueError) as problem:
            strict.event("t", 0, 7, None, case.value, 0)
        assert str(problem.value) == case.event
        assert (event.operation, event.channel) == ("INSERT", "kafka:t")
    else:
        assert strict.event("t", 0, 7, None, case.value, 0) == event
        payload = json.loads(event.payload)
        assert (event.operation, payload["row"], payload["old"]) == case.event
        assert (payload["op"], event.channel) == (event.operation, "pgcdc:t")


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
def test_other_records_become_inserts(value: bytes, payload: Any) -> None:
    assert event_of(value) == ("INSERT", "kafka:t", payload)


def test_a_payload_is_the_text_that_was_sent() -> None:
    event = Reader("k", None, False).event("t", 0, 0, None, b' {"n": 1.50}\n', 0)
    assert event is not None and event.payload == '{"n": 1.50}'


@pytest.mark.parametrize(("key", "key_payload"), [(b'{"id": 1}', {"id": 1}), (b"abc", "abc"), (None, None)])
def test_a_tombstone_is_a_delete_of_its_key(key: bytes | None, key_payload: Any) -> None:
    assert event_of(None, key) == ("DELETE", "kafka:t", {"op": "DELETE", "key": key_payload})
    assert Reader("k", None, True).event("t", 0, 0, key, None, 0) is None
