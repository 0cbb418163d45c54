"""`FROM KAFKA` as a stream: start offsets, formats, and watermarks per partition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import errors_of, produce_json, rows, topic
from tests.servers import Broker
from tidegate.connectors import registry
from tidegate.connectors.kafka import jars
from tidegate.connectors.kafka.client import partitions
from tidegate.connectors.kafka.source import KafkaStream
from tidegate.core.schema import Column

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as database:
        yield database


def test_formats_metadata_and_malformed_records(db: tidegate.Database, broker: Broker) -> None:
    """Many sources in one pipeline: formats, metadata, malformed records, where reading begins."""
    plain, many1, many2 = topic(broker, "plain", 2), topic(broker, "many"), topic(broker, "many")
    csv, raw, capped = topic(broker, "csv"), topic(broker, "raw"), topic(broker, "capped")
    produce_json(broker, plain, {"id": 1, "name": "pen"}, {"id": 2, "name": "ink"}, key="name")
    broker.produce(plain, [(b"k", b'{"id": "x"}'), (None, b"nonsense"), (b"gone", None)], partition=1)
    broker.produce(
        plain, [(b"k", b'{"id": 3}')], partition=1, timestamp=1_714_564_800_000, headers=[("a", b"1"), ("a", b"2")]
    )
    produce_json(broker, many1, {"id": 1})
    produce_json(broker, many2, {"id": 2})
    broker.produce(csv, [(None, b"1;a b;2024-05-01 12:00:00"), (None, b"1;a"), (None, b"2;;")])
    broker.produce(raw, [(b"k", b"\x00\xff"), (None, b"text")])
    produce_json(broker, capped, *({"id": number} for number in range(25)))
    at = f"brokers = '{broker.address}'"
    db.sql(f"""
        CREATE SOURCE plain (id BIGINT, name STRING, _partition INT, _offset BIGINT, _key STRING,
            stamped TIMESTAMP METADATA FROM 'timestamp' VIRTUAL, _headers MAP<STRING, STRING>)
            FROM KAFKA ({at}, topic = '{plain}');
        CREATE SOURCE many (id BIGINT, _topic STRING) FROM KAFKA ({at}, topics = '{many1}, {many2}');
        CREATE SOURCE late_start (id BIGINT) FROM KAFKA ({at}, topic = '{many1}', start = 'latest');
        CREATE SOURCE by_offset (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{capped}',
            'properties.bootstrap.servers' = '{broker.address}', 'properties.group.id' = 'mine',
            'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:20',
            'format' = 'json');
        CREATE SOURCE by_time (id BIGINT) FROM KAFKA ({at}, pattern = '{plain[:-2]}.*', start = '2030-01-01');
        CREATE SOURCE csv (id BIGINT, name STRING, ts TIMESTAMP) FROM KAFKA ({at}, topic = '{csv}', delimiter = ';')
            FORMAT CSV;
        CREATE SOURCE raw (line BINARY) WITH (connector = 'kafka', topic = '{raw}',
            'bootstrap.servers' = '{broker.address}') FORMAT PLAIN ENCODE RAW;
        CREATE SOURCE capped (id BIGINT) FROM KAFKA ({at}, topic = '{capped}', max_rows_per_step = 10);
    """)
    for name in ("plain", "many", "late_start", "by_offset", "by_time", "csv", "raw", "capped"):
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    db.step()

    plain_rows = rows(db, "SELECT id, name, _partition, _offset, _key FROM v_plain")
    assert plain_rows == [(1, "pen", 0, 0, "pen"), (2, "ink", 0, 1, "ink"), (3, None, 1, 3, "k")]
    assert rows(db, "SELECT stamped, _headers FROM v_plain WHERE id = 3") == [(NOON, [("a", "2")])]
    assert errors_of(db, "plain") == [
        (f"topic {plain} partition 1 offset 0: id: 'x' is not a BIGINT", '{"id": "x"}'),
        (f"topic {plain} partition 1 offset 1: not a JSON object", "nonsense"),
        (
            f"topic {plain} partition 1 offset 2: the record has no value (a tombstone), and plain has no primary key",
            "",
        ),
    ]
    assert rows(db, "SELECT * FROM v_many") == [(1, many1), (2, many2)]
    assert rows(db, "SELECT * FROM v_late_start") == []
    assert rows(db, "SELECT * FROM v_by_offset") == [(number,) for number in range(20, 25)]
    assert rows(db, "SELECT * FROM v_by_time") == []
    assert rows(db, "SELECT * FROM v_csv") == [(1, "a b", NOON), (2, None, None)]
    assert errors_of(db, "csv") == [(f"topic {csv} partition 0 offset 1: expected 3 fields", "1;a")]
    assert sorted(rows(db, "SELECT line FROM v_raw")) == [(b"\x00\xff",), (b"text",)]
    assert len(rows(db, "SELECT * FROM v_capped")) == 25
    steps = [count for (count,) in db.query("SELECT count(*) FROM system.steps WHERE rows_in > 0").rows()]
    assert steps[0] >= 3

    produce_json(broker, many1, {"id": 5})
    db.step()
    assert rows(db, "SELECT * FROM v_late_start") == [(5,)]
    broker.add_partitions(many1, 3)
    produce_json(broker, many1, {"id": 6}, partition=2)
    db.sql("CREATE MATERIALIZED VIEW twice AS SELECT id, _topic FROM many")
    db.step()
    assert rows(db, "SELECT id FROM v_many WHERE _topic <> 'x'") == [(1,), (2,), (5,), (6,)]
    assert rows(db, "SELECT id FROM v_late_start") == [(5,), (6,)]


def minute(at: str, id: int) -> dict[str, object]:
    return {"ts": f"2024-05-01 12:{at}", "id": id}


def test_a_lagging_partition_is_not_late_and_an_idle_one_delays_nothing(
    db: tidegate.Database, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    name = topic(broker, "lag", 3)
    db.sql(f"""
        CREATE SOURCE lag (ts TIMESTAMP, id BIGINT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
            FROM KAFKA (brokers = '{broker.address}', topic = '{name}', partition_idle = '20s');
        CREATE SOURCE strict (ts TIMESTAMP LATENESS INTERVAL 5 SECONDS, id BIGINT)
            FROM KAFKA (brokers = '{broker.address}', topic = '{name}', partition_idle = '20s');
        CREATE MATERIALIZED VIEW minutes AS SELECT window_end, COUNT(*) AS n
            FROM TUMBLE(lag, ts, INTERVAL 1 MINUTE) GROUP BY window_end EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW kept AS SELECT id FROM strict;
    """)

    def watermark() -> object:
        watermarks = db.query("SELECT value FROM system.waterlines WHERE relation = 'lag'").rows()
        return watermarks[0][0]

    produce_json(broker, name, minute("00:10", 1), minute("05:00", 2))
    db.step()
    assert watermark() is None, "partitions 1 and 2 have had no row yet"
    produce_json(broker, name, minute("00:20", 3), minute("02:00", 4), partition=1)
    db.step()
    assert watermark() is None
    db.advance_clock(dt.timedelta(seconds=15))
    db.step()
    produce_json(broker, name, minute("00:30", 5), minute("02:30", 6), partition=1)
    db.step()
    assert watermark() is None
    db.advance_clock(dt.timedelta(seconds=5))
    db.step()
    assert watermark() == "2024-05-01 12:02:25", "partition 2 is idle, and so is partition 0"
    assert rows(db, "SELECT * FROM minutes") == [(NOON + dt.timedelta(minutes=1), 3)]
    assert db.query("SELECT count(*) FROM system.late_rows").rows()[0][0] == 0

    produce_json(broker, name, minute("02:26", 7))
    produce_json(broker, name, minute("02:40", 8), partition=1)
    db.step()
    assert watermark() == "2024-05-01 12:02:35", "the slowest of the partitions that are not idle"
    db.close()
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as again:
        produce_json(broker, name, minute("01:00", 9), partition=2)
        again.step()
        late = again.query("SELECT relation, view, column FROM system.late_rows").rows()
        assert sorted(late, key=repr) == [("lag", "minutes", "ts"), ("strict", None, "ts")]
        assert rows(again, "SELECT id FROM kept") == [(number,) for number in range(1, 9)]
        again.advance_clock(dt.timedelta(seconds=60))
        again.step()
        watermarks = again.query("SELECT value FROM system.waterlines WHERE relation = 'lag'").rows()
        assert watermarks[0][0] == "2024-05-01 12:04:55", "when all are idle the fastest counts"


def test_a_missing_topic_and_an_unreachable_broker(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    with tidegate.connect(tmp_path / "a", spark=spark, clock="virtual") as db:
        db.sql(f"""CREATE SOURCE s (id BIGINT) FROM KAFKA (brokers = '{broker.address}', topic = 'nobody-made-it');
                   CREATE MATERIALIZED VIEW v AS SELECT * FROM s""")
        with pytest.raises(tidegate.Error) as caught:
            db.step()
        assert (caught.value.code, caught.value.message) == ("PIPELINE_FAILED", "there is no topic nobody-made-it")
        assert caught.value.hint == "create the topic, then start again"
    with tidegate.connect(tmp_path / "b", spark=spark, clock="virtual") as db:
        db.sql("""CREATE SOURCE s (id BIGINT) FROM KAFKA (brokers = '127.0.0.1:1', topic = 'any');
                  CREATE MATERIALIZED VIEW v AS SELECT * FROM s""")
        with pytest.raises(tidegate.Error) as caught:
            db.step()
        assert caught.value.message == "no Kafka broker answers at 127.0.0.1:1"
        assert caught.value.hint == "check that it runs and that brokers = '...' is right, then start again"


def test_options_of_javas_client_only(broker: Broker) -> None:
    """They are for Spark's client; librdkafka does not know them."""
    options = [("brokers", broker.address, None), ("topic", "any", None), ("kafka.ssl.truststore.location", "/x", None)]
    source = registry.source("KAFKA", "s", (Column("id", "bigint"),), options)
    assert isinstance(source, KafkaStream)
    assert partitions(source.topics.options) is None
    assert source.reachable()


def test_without_the_connector_jars(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cannot fetch a version that does not exist."""
    monkeypatch.setenv("TIDEGATE_JARS", str(tmp_path))
    monkeypatch.setattr(jars, "known", lambda _: False)
    monkeypatch.setattr(jars, "package", lambda _: "org.example:nothing:0.0.1")
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        db.sql("""CREATE SOURCE s (id BIGINT) FROM KAFKA (brokers = '127.0.0.1:1', topic = 'any');
                  CREATE MATERIALIZED VIEW v AS SELECT * FROM s""")
        with pytest.raises(tidegate.Error) as caught:
            db.step()
    assert caught.value.code == "CONNECTOR_JARS"
    assert caught.value.message == "connector KAFKA needs org.example:nothing:0.0.1"
    assert caught.value.hint == (
        "put the jars (spark-sql-kafka-0-10_2.13, spark-token-provider-kafka-0-10_2.13, kafka-clients, commons-pool2)"
        " into a folder and set TIDEGATE_JARS to it, or start Spark with"
        " spark.jars.packages = org.example:nothing:0.0.1"
    )


@pytest.mark.parametrize(
    ("options", "code", "message", "hint"),
    [
        ("topic = 'a'", "MISSING_OPTION", "KAFKA needs option 'brokers'", "add brokers = 'localhost:9092'"),
        ("brokers = 'a'", "MISSING_OPTION", "KAFKA needs option 'topic'", "add topic = 'orders'"),
        (
            "brokers = 'a', topic = 'a', pattern = 'b'",
            "INVALID_OPTION",
            "topic, topics and pattern exclude each other",
            "leave one",
        ),
        (
            "brokers = 'a', topic = 'a', start = 'sometime'",
            "INVALID_OPTION",
            "option 'start' cannot be 'sometime'",
            None,
        ),
        (
            "brokers = 'a', topic = 'a', kafka.enable.auto.commit = 'true'",
            "INVALID_OPTION",
            "kafka.enable.auto.commit cannot be set",
            "leave it out",
        ),
        (
            "brokers = 'a', topic = 'a', tpoic = 'b'",
            "UNKNOWN_OPTION",
            "KAFKA has no option 'tpoic'",
            "did you mean topic?",
        ),
        (
            "brokers = 'a', topic = 'a', format = 'jsn'",
            "UNKNOWN_FORMAT",
            "KAFKA has no format jsn",
            "did you mean json?",
        ),
    ],
)
def test_invalid_options(db: tidegate.Database, options: str, code: str, message: str, hint: str | None) -> None:
    with pytest.raises(tidegate.Error) as caught:
        db.sql(f"CREATE SOURCE s (id BIGINT) FROM KAFKA ({options})")
    assert caught.value.code == code
    assert caught.value.message.startswith(message)
    assert hint is None or caught.value.hint == hint


def test_secrets_are_never_shown(db: tidegate.Database) -> None:
    db.sql("""CREATE SOURCE s (id BIGINT) FROM KAFKA (brokers = 'a:1', topic = 'a',
        kafka.sasl.jaas.config = 'org.x.PlainLoginModule required username="u" password="hunter2";',
        kafka.ssl.key.password = 'hunter2')""")
    assert "hunter2" not in str(db.sql("SHOW CREATE SOURCE s").rows())
    with pytest.raises(tidegate.Error) as caught:
        db.sql(
            "CREATE SOURCE t (id INT) FROM KAFKA (brokers = 'a', topic = 'a', kafka.sasl.password = 'hunter2', x = 1)"
        )
    assert "hunter2" not in str(caught.value) + repr(caught.value.text)
