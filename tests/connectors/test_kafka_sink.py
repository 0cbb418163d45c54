"""`INTO KAFKA` against a real broker: each step is written exactly once, also after crashes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

import tidegate
from tests.servers import Broker, Record, kafka_broker
from tidegate.connectors.contract import SinkContext, SinkSpec
from tidegate.connectors.kafka.sink import KafkaSink, transactional_name
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_schema
from tidegate.errors import Error, Span

VIEW: Schema = (Column("item", "string"), Column("total", "bigint"))
Row = tuple[str, int, Any, Any]
OpenSink = Callable[..., KafkaSink]


def changes(step: int, *rows: Row) -> pa.Table:
    """The rows (op, weight, item, total) of a step, as a sink receives them."""
    ops, weights, items, totals = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(VIEW)])
    return pa.table([ops, weights, [step] * len(rows), items, totals], schema=schema)


def build_sink(address: str, topic: str, format: str = "json", key: tuple[str, ...] = (), **options: str) -> KafkaSink:
    all_options = {"brokers": address, "topic": topic} | {
        name.replace("__", "."): text for name, text in options.items()
    }
    bag = Bag("KAFKA", [(name, text, None) for name, text in all_options.items()], Span(3, 9))
    return KafkaSink.build(SinkSpec("KAFKA", "out", VIEW, all_options, format, key), bag)


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(f"sink-{uuid.uuid4().hex[:12]}", 3)


@pytest.fixture
def open_sink(broker: Broker, topic: str, tmp_path: Path) -> Iterator[OpenSink]:
    """Opens a sink of the test's topic. Tests share the broker, so the owner contains the topic."""
    sinks: list[KafkaSink] = []

    def open(format: str = "json", owner: str = "pipeline 1", folder: str = "own", **options: Any) -> KafkaSink:
        sinks.append(build_sink(broker.address, topic, format, **options))
        sinks[-1].open(SinkContext("out", tmp_path / folder, f"{owner} of {topic}"))
        return sinks[-1]

    yield open
    for sink in sinks:
        sink.close()


def decode(records: list[Record]) -> list[tuple[Any, Any]]:
    """Keys and values, decoded from JSON, by partition and offset."""
    return [tuple(None if part is None else json.loads(part) for part in (one.key, one.value)) for one in records]


def values(broker: Broker, topic: str) -> list[int]:
    return sorted(json.loads(one.value or b"null")["total"] for one in broker.read_committed(topic))


def test_rows_are_appended_as_often_as_their_weight_says(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink("json", key=("item",))
    assert sink.abilities.accepts == "append"
    sink.write(3, changes(3, ("+I", 2, "pen", 5), ("+I", 1, None, None)))
    pen, nothing = {"item": "pen", "total": 5}, {"item": None, "total": None}
    records = decode(broker.read_committed(topic))
    assert sorted(records, key=str) == [({"item": "pen"}, pen), ({"item": "pen"}, pen), ({"item": None}, nothing)]


def test_an_upsert_has_the_newest_row_of_a_key_or_a_tombstone(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink("upsert", key=("item",))
    assert sink.abilities.accepts == "upsert"
    sink.write(1, changes(1, ("+I", 1, "pen", 5)))
    sink.write(2, changes(2, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    sink.write(3, changes(3, ("-D", -1, "pen", 6)))
    key = {"item": "pen"}
    assert decode(broker.read_committed(topic)) == [
        (key, {"item": "pen", "total": 5}),
        (key, {"item": "pen", "total": 6}),
        (key, None),
    ]


def test_debezium_has_before_and_after(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink("debezium", key=("item",))
    assert sink.abilities.accepts == "changelog"
    sink.write(1, changes(1, ("+I", 1, "pen", 5)))
    sink.write(2, changes(2, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    sink.write(3, changes(3, ("-D", -1, "pen", 6)))
    envelopes = [
        value and (value["op"], value["before"], value["after"]) for _, value in decode(broker.read_committed(topic))
    ]
    five, six = {"item": "pen", "total": 5}, {"item": "pen", "total": 6}
    assert envelopes == [("c", None, five), ("u", five, six), ("d", six, None), None]


def test_ops_contain_every_change(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink("ops", key=("item",))
    sink.write(7, changes(7, ("-D", -2, "pen", 5)))
    [(key, value)] = decode(broker.read_committed(topic))
    assert key == {"item": "pen"}
    assert value == {"op": "-D", "weight": -2, "step": 7, "row": {"item": "pen", "total": 5}}


def test_avro_can_be_read_by_confluents_client(
    broker: Broker, topic: str, open_sink: OpenSink, registry_url: str
) -> None:
    open_sink("avro", key=("item",), schema_registry_url=registry_url).write(1, changes(1, ("+I", 1, "pen", 5)))
    [record] = broker.read_committed(topic)
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
    assert deserialize(record.value, SerializationContext(topic, MessageField.VALUE)) == {"item": "pen", "total": 5}
    assert deserialize(record.key, SerializationContext(topic, MessageField.KEY)) == {"item": "pen"}


def test_a_repeated_step_is_written_once(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    first = open_sink()
    assert first.last_step() is None
    for step in (1, 2, 2):
        first.write(step, changes(step, ("+I", 1, "pen", step)))
    again = open_sink()
    assert again.last_step() == 2
    again.write(2, changes(2, ("+I", 1, "pen", 2)))
    again.write(3, changes(3, ("+I", 1, "pen", 3)))
    assert values(broker, topic) == [1, 2, 3]


def test_the_last_step_is_read_from_kafka(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    open_sink(folder="lost").write(4, changes(4, ("+I", 1, "pen", 4)))
    again = open_sink(folder="new")
    assert again.last_step() == 4
    again.write(4, changes(4, ("+I", 1, "pen", 4)))
    assert values(broker, topic) == [4]


def test_the_last_step_is_read_from_a_file_if_kafka_has_removed_it(
    broker: Broker, topic: str, open_sink: OpenSink
) -> None:
    first = open_sink()
    first.write(4, changes(4, ("+I", 1, "pen", 4)))
    first.close()
    group = transactional_name(f"pipeline 1 of {topic}", "out")
    admin = broker.admin()
    admin.delete_consumer_groups([group])[group].result(20)
    again = open_sink()
    assert again.last_step() == 4
    again.write(4, changes(4, ("+I", 1, "pen", 4)))
    assert values(broker, topic) == [4]


def test_a_step_without_changes_writes_nothing(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink()
    sink.write(1, changes(1))
    assert sink.last_step() is None
    assert broker.read(topic) == []


def test_a_newer_process_fences_an_older_one(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    old = open_sink()
    old.write(1, changes(1, ("+I", 1, "pen", 1)))
    new = open_sink()
    with pytest.raises(OSError, match="fenced"):
        old.write(2, changes(2, ("+I", 1, "pen", 200)))
    new.close()
    old.write(2, changes(2, ("+I", 1, "pen", 2)))
    assert values(broker, topic) == [1, 2]


def test_two_sinks_share_a_topic(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    one, other = open_sink(folder="1"), open_sink(owner="pipeline 2", folder="2")
    for step in range(1, 6):
        one.write(step, changes(step, ("+I", 1, "pen", step)))
        if step > 3:
            other.write(step, changes(step, ("+I", 1, "ink", 100 + step)))
    assert values(broker, topic) == [1, 2, 3, 4, 5, 104, 105]
    assert (one.last_step(), other.last_step()) == (5, 5)
    assert open_sink(owner="pipeline 3", folder="3").last_step() is None


def test_a_recreated_sink_starts_from_the_beginning(open_sink: OpenSink) -> None:
    open_sink().write(9, changes(9, ("+I", 1, "pen", 9)))
    assert open_sink(owner="pipeline 1, again").last_step() is None


def test_a_failed_step_leaves_nothing_behind(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink(kafka__message__max__bytes="2000")
    with pytest.raises(OSError) as caught:
        sink.write(1, changes(1, ("+I", 1, "pen", 1), ("+I", 1, "x" * 3000, 2)))
    assert str(caught.value) == (
        f"a record of 3021 bytes for topic {topic} is larger than 2000 bytes: raise the option"
        " 'kafka.message.max.bytes', and max.message.bytes of the topic"
    )
    sink.write(1, changes(1, ("+I", 1, "pen", 1), ("+I", 1, "short", 2)))
    assert values(broker, topic) == [1, 2]


def test_a_record_larger_than_the_topic_allows_is_rejected(broker: Broker, tmp_path: Path) -> None:
    narrow = broker.create_topic(f"narrow-{uuid.uuid4().hex[:12]}", config={"max.message.bytes": "1000"})
    sink = build_sink(broker.address, narrow)
    sink.open(SinkContext("out", tmp_path, f"pipeline 1 of {narrow}"))
    with pytest.raises(OSError, match=f"a record is larger than topic {narrow} allows: raise max.message.bytes"):
        sink.write(1, changes(1, ("+I", 1, "x" * 3000, 2)))
    sink.close()
    assert broker.read_committed(narrow) == []


def test_a_missing_topic_is_an_error_at_once(broker: Broker, tmp_path: Path) -> None:
    sink = build_sink(broker.address, "nowhere")
    with pytest.raises(Error) as caught:
        sink.open(SinkContext("out", tmp_path, "pipeline 1"))
    assert str(caught.value) == (
        "INVALID_OPTION: there is no topic nowhere\n"
        f"  detail: brokers: {broker.address}\n"
        f"  hint: create it first: kafka-topics.sh --bootstrap-server {broker.address} --create --topic nowhere"
    )


def test_a_transaction_cannot_be_longer_than_brokers_allow(open_sink: OpenSink) -> None:
    with pytest.raises(Error) as caught:
        open_sink(transaction_timeout="2h")
    assert caught.value.code == "INVALID_OPTION"
    assert caught.value.hint == "shorten transaction_timeout, or raise transaction.max.timeout.ms of the brokers"


def test_more_records_than_the_queue_holds(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    sink = open_sink(kafka__queue__buffering__max__messages="100")
    sink.write(1, changes(1, *[("+I", 1, "pen", number) for number in range(5000)]))
    assert values(broker, topic) == list(range(5000))


def test_keys_are_partitioned_like_in_java(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    """Partitions of Java's DefaultPartitioner for these keys and three partitions: murmur2."""
    open_sink(key=("item",)).write(1, changes(1, *[("+I", 1, f"item{n}", n) for n in range(8)]))
    partitions = {json.loads(one.key or b"")["item"]: one.partition for one in broker.read_committed(topic)}
    keys = {f"item{n}": json.dumps({"item": f"item{n}"}, separators=(",", ":")).encode() for n in range(8)}
    assert partitions == {item: (murmur2(key) & 0x7FFFFFFF) % 3 for item, key in keys.items()}
    assert len(set(partitions.values())) > 1


def murmur2(data: bytes) -> int:
    """As in org.apache.kafka.common.utils.Utils."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    digest = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for place in range(0, whole, 4):
        part = int.from_bytes(data[place : place + 4], "little") * mixer & mask
        part = (part ^ part >> 24) * mixer & mask
        digest = (digest * mixer & mask) ^ part
    if whole < len(data):
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * mixer & mask
    digest = (digest ^ digest >> 13) * mixer & mask
    return digest ^ digest >> 15


def test_murmur2_is_kafkas() -> None:
    """Values of Kafka's own UtilsTest."""
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF
    assert murmur2(b"foobar") == -790332482 & 0xFFFFFFFF
    assert murmur2(b"a-little-bit-long-string") == -985981536 & 0xFFFFFFFF


def test_the_last_step_is_an_offset_of_a_consumer_group(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    open_sink().write(42, changes(42, ("+I", 1, "pen", 1)))
    settings = {"bootstrap.servers": broker.address, "group.id": transactional_name(f"pipeline 1 of {topic}", "out")}
    look = Consumer(settings)
    [committed] = look.committed([TopicPartition(topic, 0)], 20)
    look.close()
    assert committed.offset == 42


@pytest.mark.server
def test_a_restarted_broker_receives_every_step_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The broker is killed during a step."""
    (tmp_path / "broker").mkdir()
    with kafka_broker(tmp_path / "broker") as own:
        topic = own.create_topic("out", 2)
        sink = build_sink(own.address, topic, key=("item",))
        sink.open(SinkContext("out", tmp_path / "own", "pipeline 1"))
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        sink.encoder = Breaking(sink.encoder, own.kill)
        for _ in range(2):
            with pytest.raises(OSError, match=f"Kafka at {own.address}, topic out: no broker answers"):
                sink.write(2, changes(2, ("+I", 1, "pen", 2), ("+I", 1, "ink", 2)))
        own.start()
        sink.write(2, changes(2, ("+I", 1, "pen", 2), ("+I", 1, "ink", 2)))
        sink.write(3, changes(3, ("+I", 1, "pen", 3)))
        assert values(own, topic) == [1, 2, 2, 3]
        sink.close()
    assert capfd.readouterr() == ("", "")


def test_a_closed_idle_connection_is_no_failure(broker: Broker, topic: str, open_sink: OpenSink) -> None:
    """The client reports a broker that closed an idle connection as unreachable."""
    sink = open_sink()
    assert sink._connection is not None
    sink._connection._note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    sink.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert values(broker, topic) == [1]


class Breaking:
    """Calls a function once, between the first record of a step and the others."""

    def __init__(self, inner: Any, then: Callable[[], None]) -> None:
        self.inner, self.then, self.takes, self.done = inner, then, inner.takes, False

    def records(self, table: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        for record in self.inner.records(table):
            yield record
            if not self.done:
                self.done = True
                self.then()


def test_no_broker_at_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sink = build_sink("127.0.0.1:1", "out", kafka__sasl__password="hidden", kafka__sasl__username="me")
    with pytest.raises(
        OSError, match=r"Kafka at 127.0.0.1:1, topic out: no broker answers: .*Connection refused"
    ) as why:
        sink.open(SinkContext("out", tmp_path, "pipeline 1"))
    assert "hidden" not in str(why.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partitions": "3"}, "UNKNOWN_OPTION: KAFKA has no option 'partitions'"),
        ({"key.fields": "itm"}, "INVALID_OPTION: key: there is no column itm\n  hint: did you mean item?"),
        ({"kafka.transactional.id": "mine"}, "INVALID_OPTION: kafka.transactional.id cannot be set: the sink sets it"),
        ({"properties.group.id": "mine"}, "INVALID_OPTION: kafka.group.id cannot be set: the sink sets it itself"),
        (
            {"kafka.key.serializer": "x"},
            "INVALID_OPTION: the Kafka client rejects its options: No such configuration property",
        ),
        ({"format": "xml"}, "UNKNOWN_FORMAT: KAFKA has no format xml"),
        (
            {"transaction_timeout": "10ms"},
            "INVALID_OPTION: the Kafka client rejects its options: Configuration property",
        ),
        ({"transaction_timeout": "long"}, "INVALID_OPTION: option 'transaction_timeout' cannot be 'long'"),
    ],
)
def test_invalid_options(options: dict[str, str], says: str) -> None:
    all_options = {"brokers": "127.0.0.1:1", "topic": "out"} | options
    format = all_options.pop("format", "json")
    with pytest.raises(Error) as caught:
        build_sink(all_options.pop("brokers"), all_options.pop("topic"), format, **all_options)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("missing", ["brokers", "topic"])
def test_brokers_and_topic_are_needed(missing: str) -> None:
    options = {"brokers": "127.0.0.1:1", "topic": "out"}
    del options[missing]
    bag = Bag("KAFKA", [(name, text, None) for name, text in options.items()])
    with pytest.raises(Error) as caught:
        KafkaSink.build(SinkSpec("KAFKA", "out", VIEW, options, "json"), bag)
    assert caught.value.code == "MISSING_OPTION" and f"'{missing}'" in caught.value.message


def test_the_hint_names_the_right_option() -> None:
    with pytest.raises(Error) as caught:
        build_sink("127.0.0.1:1", "out", kafka__transaction__timeout__ms="1000")
    assert caught.value.hint == "write transaction_timeout"


def test_option_names_of_flink_are_accepted() -> None:
    options = {"properties.bootstrap.servers": "a:1", "topic": "out", "key.fields": "ITEM;total"}
    bag = Bag("KAFKA", [(name, text, None) for name, text in options.items()])
    sink = KafkaSink.build(SinkSpec("KAFKA", "out", VIEW, options, "json"), bag)
    assert (sink.options.brokers, sink.options.key) == ("a:1", ("item", "total"))


def test_rows_are_replaced_by_the_key_of_their_view() -> None:
    with pytest.raises(Error) as caught:
        build_sink("127.0.0.1:1", "out", "upsert", ("item",), **{"key.fields": "total"})
    assert caught.value.message == "rows are replaced by the key of the view, which is item"
    build_sink("127.0.0.1:1", "out", "json", ("item",), **{"key.fields": "total"})


def test_a_pipeline_writes_a_view_to_a_topic_and_continues_after_a_restart(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    with tidegate.connect(str(tmp_path / "data"), spark=spark) as db:
        db.sql(f"""
            CREATE TABLE orders (id BIGINT PRIMARY KEY, item STRING, amount BIGINT);
            CREATE MATERIALIZED VIEW totals AS SELECT item, SUM(amount) AS total FROM orders GROUP BY item;
            CREATE SINK out FROM totals INTO KAFKA (brokers = '{broker.address}', topic = '{topic}', format = 'upsert');
        """)
        db.insert("orders", [(1, "pen", 5), (2, "ink", 7)])
        db.step()
        db.delete("orders", [{"id": 2}])
        db.step()
    with tidegate.connect(str(tmp_path / "data"), spark=spark) as db:
        db.insert("orders", [(3, "pen", 1)])
        db.step()
    records = decode(broker.read_committed(topic))
    of = {
        item: [value and value["total"] for key, value in records if key == {"item": item}] for item in ("pen", "ink")
    }
    assert of == {"pen": [5, 6], "ink": [7, None]}
