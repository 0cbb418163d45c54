"""`INTO KAFKA` against a real broker: each step once, whatever happens in between."""

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
Opened = Callable[..., KafkaSink]


def changes(step: int, *rows: Row) -> pa.Table:
    """(op, weight, item, total) of a step, as a pipeline hands them to a sink."""
    ops, weights, items, totals = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(VIEW)])
    return pa.table([ops, weights, [step] * len(rows), items, totals], schema=schema)


def built(address: str, topic: str, format: str = "json", key: tuple[str, ...] = (), **options: str) -> KafkaSink:
    given = {"brokers": address, "topic": topic} | {name.replace("__", "."): text for name, text in options.items()}
    bag = Bag("KAFKA", [(name, text, None) for name, text in given.items()], Span(3, 9))
    return KafkaSink.build(SinkSpec("KAFKA", "out", VIEW, given, format, key), bag)


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(f"sink-{uuid.uuid4().hex[:12]}", 3)


@pytest.fixture
def opened(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Opened]:
    """Opens a sink of the test's topic. Tests share the broker, so owners are apart by their topics too."""
    made: list[KafkaSink] = []

    def open(format: str = "json", owner: str = "pipeline 1", folder: str = "own", **options: Any) -> KafkaSink:
        made.append(built(broker.address, topic, format, **options))
        made[-1].open(SinkContext("out", tmp_path / folder, f"{owner} of {topic}"))
        return made[-1]

    yield open
    for sink in made:
        sink.close()


def said(records: list[Record]) -> list[tuple[Any, Any]]:
    """Keys and values as JSON, each partition in its order."""
    return [tuple(None if part is None else json.loads(part) for part in (one.key, one.value)) for one in records]


def values(broker: Broker, topic: str) -> list[int]:
    return sorted(json.loads(one.value or b"null")["total"] for one in broker.read_committed(topic))


def test_rows_are_appended_as_often_as_their_weight_says(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened("json", key=("item",))
    assert sink.abilities.accepts == "append"
    sink.write(3, changes(3, ("+I", 2, "pen", 5), ("+I", 1, None, None)))
    pen, nothing = {"item": "pen", "total": 5}, {"item": None, "total": None}
    found = said(broker.read_committed(topic))
    assert sorted(found, key=str) == [({"item": "pen"}, pen), ({"item": "pen"}, pen), ({"item": None}, nothing)]


def test_an_upsert_has_the_newest_row_of_a_key_or_a_tombstone(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened("upsert", key=("item",))
    assert sink.abilities.accepts == "upsert"
    sink.write(1, changes(1, ("+I", 1, "pen", 5)))
    sink.write(2, changes(2, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    sink.write(3, changes(3, ("-D", -1, "pen", 6)))
    key = {"item": "pen"}
    assert said(broker.read_committed(topic)) == [
        (key, {"item": "pen", "total": 5}),
        (key, {"item": "pen", "total": 6}),
        (key, None),
    ]


def test_debezium_says_before_and_after(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened("debezium", key=("item",))
    assert sink.abilities.accepts == "changelog"
    sink.write(1, changes(1, ("+I", 1, "pen", 5)))
    sink.write(2, changes(2, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    sink.write(3, changes(3, ("-D", -1, "pen", 6)))
    found = [
        value and (value["op"], value["before"], value["after"]) for _, value in said(broker.read_committed(topic))
    ]
    five, six = {"item": "pen", "total": 5}, {"item": "pen", "total": 6}
    assert found == [("c", None, five), ("u", five, six), ("d", six, None), None]


def test_ops_say_every_change(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened("ops", key=("item",))
    sink.write(7, changes(7, ("-D", -2, "pen", 5)))
    [(key, value)] = said(broker.read_committed(topic))
    assert key == {"item": "pen"}
    assert value == {"op": "-D", "weight": -2, "step": 7, "row": {"item": "pen", "total": 5}}


def test_avro_is_read_by_others(broker: Broker, topic: str, opened: Opened, registry_url: str) -> None:
    opened("avro", key=("item",), schema_registry_url=registry_url).write(1, changes(1, ("+I", 1, "pen", 5)))
    [record] = broker.read_committed(topic)
    read = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
    assert read(record.value, SerializationContext(topic, MessageField.VALUE)) == {"item": "pen", "total": 5}
    assert read(record.key, SerializationContext(topic, MessageField.KEY)) == {"item": "pen"}


def test_a_repeated_step_is_there_once(broker: Broker, topic: str, opened: Opened) -> None:
    first = opened()
    assert first.last_step() is None
    for step in (1, 2, 2):
        first.write(step, changes(step, ("+I", 1, "pen", step)))
    again = opened()
    assert again.last_step() == 2
    again.write(2, changes(2, ("+I", 1, "pen", 2)))
    again.write(3, changes(3, ("+I", 1, "pen", 3)))
    assert values(broker, topic) == [1, 2, 3]


def test_what_kafka_remembers_is_enough(broker: Broker, topic: str, opened: Opened) -> None:
    opened(folder="lost").write(4, changes(4, ("+I", 1, "pen", 4)))
    again = opened(folder="new")
    assert again.last_step() == 4
    again.write(4, changes(4, ("+I", 1, "pen", 4)))
    assert values(broker, topic) == [4]


def test_what_kafka_has_forgotten_is_in_a_file(broker: Broker, topic: str, opened: Opened) -> None:
    first = opened()
    first.write(4, changes(4, ("+I", 1, "pen", 4)))
    first.close()
    group = transactional_name(f"pipeline 1 of {topic}", "out")
    admin = broker.admin()
    admin.delete_consumer_groups([group])[group].result(20)
    again = opened()
    assert again.last_step() == 4
    again.write(4, changes(4, ("+I", 1, "pen", 4)))
    assert values(broker, topic) == [4]


def test_a_step_without_changes_writes_nothing(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened()
    sink.write(1, changes(1))
    assert sink.last_step() is None
    assert broker.read(topic) == []


def test_a_newer_process_shuts_out_an_older_one(broker: Broker, topic: str, opened: Opened) -> None:
    old = opened()
    old.write(1, changes(1, ("+I", 1, "pen", 1)))
    new = opened()
    with pytest.raises(OSError, match="fenced"):
        old.write(2, changes(2, ("+I", 1, "pen", 200)))
    new.close()
    old.write(2, changes(2, ("+I", 1, "pen", 2)))
    assert values(broker, topic) == [1, 2]


def test_two_sinks_share_a_topic(broker: Broker, topic: str, opened: Opened) -> None:
    one, other = opened(folder="1"), opened(owner="pipeline 2", folder="2")
    for step in range(1, 6):
        one.write(step, changes(step, ("+I", 1, "pen", step)))
        if step > 3:
            other.write(step, changes(step, ("+I", 1, "ink", 100 + step)))
    assert values(broker, topic) == [1, 2, 3, 4, 5, 104, 105]
    assert (one.last_step(), other.last_step()) == (5, 5)
    assert opened(owner="pipeline 3", folder="3").last_step() is None


def test_another_creation_of_the_sink_begins_anew(opened: Opened) -> None:
    opened().write(9, changes(9, ("+I", 1, "pen", 9)))
    assert opened(owner="pipeline 1, again").last_step() is None


def test_a_failed_step_leaves_nothing_behind(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened(kafka__message__max__bytes="2000")
    with pytest.raises(OSError) as refused:
        sink.write(1, changes(1, ("+I", 1, "pen", 1), ("+I", 1, "x" * 3000, 2)))
    assert str(refused.value) == (
        f"a record of 3021 bytes for topic {topic} is larger than 2000 bytes: raise the option"
        " 'kafka.message.max.bytes', and max.message.bytes of the topic"
    )
    sink.write(1, changes(1, ("+I", 1, "pen", 1), ("+I", 1, "short", 2)))
    assert values(broker, topic) == [1, 2]


def test_a_record_larger_than_the_topic_allows_is_refused(broker: Broker, tmp_path: Path) -> None:
    narrow = broker.create_topic(f"narrow-{uuid.uuid4().hex[:12]}", config={"max.message.bytes": "1000"})
    sink = built(broker.address, narrow)
    sink.open(SinkContext("out", tmp_path, f"pipeline 1 of {narrow}"))
    with pytest.raises(OSError, match=f"a record is larger than topic {narrow} allows: raise max.message.bytes"):
        sink.write(1, changes(1, ("+I", 1, "x" * 3000, 2)))
    sink.close()
    assert broker.read_committed(narrow) == []


def test_a_missing_topic_is_an_error_at_once(broker: Broker, tmp_path: Path) -> None:
    sink = built(broker.address, "nowhere")
    with pytest.raises(Error) as refused:
        sink.open(SinkContext("out", tmp_path, "pipeline 1"))
    assert str(refused.value) == (
        "INVALID_OPTION: there is no topic nowhere\n"
        f"  detail: brokers: {broker.address}\n"
        f"  hint: create it first: kafka-topics.sh --bootstrap-server {broker.address} --create --topic nowhere"
    )


def test_a_transaction_cannot_be_longer_than_brokers_allow(opened: Opened) -> None:
    with pytest.raises(Error) as refused:
        opened(transaction_timeout="2h")
    assert refused.value.code == "INVALID_OPTION"
    assert refused.value.hint == "shorten transaction_timeout, or raise transaction.max.timeout.ms of the brokers"


def test_more_records_than_the_queue_holds(broker: Broker, topic: str, opened: Opened) -> None:
    sink = opened(kafka__queue__buffering__max__messages="100")
    sink.write(1, changes(1, *[("+I", 1, "pen", number) for number in range(5000)]))
    assert values(broker, topic) == list(range(5000))


def test_keys_go_where_java_sends_them(broker: Broker, topic: str, opened: Opened) -> None:
    """Partitions of Java's DefaultPartitioner for these keys and three partitions: murmur2."""
    opened(key=("item",)).write(1, changes(1, *[("+I", 1, f"item{n}", n) for n in range(8)]))
    found = {json.loads(one.key or b"")["item"]: one.partition for one in broker.read_committed(topic)}
    keys = {f"item{n}": json.dumps({"item": f"item{n}"}, separators=(",", ":")).encode() for n in range(8)}
    assert found == {item: (murmur2(key) & 0x7FFFFFFF) % 3 for item, key in keys.items()}
    assert len(set(found.values())) > 1


def murmur2(data: bytes) -> int:
    """As in org.apache.kafka.common.utils.Utils."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for place in range(0, whole, 4):
        part = int.from_bytes(data[place : place + 4], "little") * mixer & mask
        part = (part ^ part >> 24) * mixer & mask
        found = (found * mixer & mask) ^ part
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * mixer & mask
    found = (found ^ found >> 13) * mixer & mask
    return found ^ found >> 15


def test_murmur2_is_kafkas() -> None:
    """Values of Kafka's own UtilsTest."""
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF
    assert murmur2(b"foobar") == -790332482 & 0xFFFFFFFF
    assert murmur2(b"a-little-bit-long-string") == -985981536 & 0xFFFFFFFF


def test_the_step_is_an_offset_of_a_group(broker: Broker, topic: str, opened: Opened) -> None:
    opened().write(42, changes(42, ("+I", 1, "pen", 1)))
    settings = {"bootstrap.servers": broker.address, "group.id": transactional_name(f"pipeline 1 of {topic}", "out")}
    look = Consumer(settings)
    [found] = look.committed([TopicPartition(topic, 0)], 20)
    look.close()
    assert found.offset == 42


@pytest.mark.server
def test_a_broker_that_comes_back_gets_every_step_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Killed inside of a step."""
    (tmp_path / "broker").mkdir()
    with kafka_broker(tmp_path / "broker") as own:
        topic = own.create_topic("out", 2)
        sink = built(own.address, topic, key=("item",))
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


def test_a_connection_that_rested_too_long_is_no_failure(broker: Broker, topic: str, opened: Opened) -> None:
    """The client reports a broker that ended an idle connection as gone."""
    sink = opened()
    assert sink._connection is not None
    sink._connection._note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    sink.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert values(broker, topic) == [1]


class Breaking:
    """Does something once, between the first record of a step and the others."""

    def __init__(self, inner: Any, then: Callable[[], None]) -> None:
        self.inner, self.then, self.takes, self.done = inner, then, inner.takes, False

    def records(self, table: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        for record in self.inner.records(table):
            yield record
            if not self.done:
                self.done = True
                self.then()


def test_no_broker_at_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sink = built("127.0.0.1:1", "out", kafka__sasl__password="hidden", kafka__sasl__username="me")
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
        ({"kafka.transactional.id": "mine"}, "INVALID_OPTION: transactional.id cannot be set: the sink sets it itself"),
        ({"properties.group.id": "mine"}, "INVALID_OPTION: group.id cannot be set: the sink sets it itself"),
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
def test_options_that_are_refused(options: dict[str, str], says: str) -> None:
    given = {"brokers": "127.0.0.1:1", "topic": "out"} | options
    format = given.pop("format", "json")
    with pytest.raises(Error) as refused:
        built(given.pop("brokers"), given.pop("topic"), format, **given)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize("missing", ["brokers", "topic"])
def test_brokers_and_topic_are_needed(missing: str) -> None:
    given = {"brokers": "127.0.0.1:1", "topic": "out"}
    del given[missing]
    bag = Bag("KAFKA", [(name, text, None) for name, text in given.items()])
    with pytest.raises(Error) as refused:
        KafkaSink.build(SinkSpec("KAFKA", "out", VIEW, given, "json"), bag)
    assert refused.value.code == "MISSING_OPTION" and f"'{missing}'" in refused.value.message


def test_the_hint_says_which_option_is_meant() -> None:
    with pytest.raises(Error) as refused:
        built("127.0.0.1:1", "out", kafka__transaction__timeout__ms="1000")
    assert refused.value.hint == "write transaction_timeout"


def test_flinks_names_are_understood() -> None:
    given = {"properties.bootstrap.servers": "a:1", "topic": "out", "key.fields": "ITEM;total"}
    bag = Bag("KAFKA", [(name, text, None) for name, text in given.items()])
    made = KafkaSink.build(SinkSpec("KAFKA", "out", VIEW, given, "json"), bag)
    assert (made.options.brokers, made.options.key) == ("a:1", ("item", "total"))


def test_rows_are_replaced_by_the_key_of_their_view() -> None:
    with pytest.raises(Error) as refused:
        built("127.0.0.1:1", "out", "upsert", ("item",), **{"key.fields": "total"})
    assert refused.value.message == "rows are replaced by the key of the view, which is item"
    built("127.0.0.1:1", "out", "json", ("item",), **{"key.fields": "total"})


def test_a_view_goes_to_a_topic_and_on_after_a_restart(
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
    found = said(broker.read_committed(topic))
    of = {item: [value and value["total"] for key, value in found if key == {"item": item}] for item in ("pen", "ink")}
    assert of == {"pen": [5, 6], "ink": [7, None]}
