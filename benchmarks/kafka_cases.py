"""Benchmarks of Kafka: reading JSON, loading a reference table, and how soon a change of a table is seen."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cases import run_all
from pyspark.sql import functions as F
from run import Figure
from setting import Setting, seconds_of, throughput

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.servers import Broker, kafka_broker, kafka_jars
from tidegate.connectors.kafka import jars

RECORDS = 6_000_000
STEP = 1_000_000
KEYS = 1_000_000
CHANGES = 10


@contextmanager
def broker(setting: Setting, name: str) -> Iterator[Broker]:
    """A broker of its own, with the connector known to the session."""
    os.environ.setdefault(jars.FOLDER, str(kafka_jars()))
    jars.ensure(setting.spark)
    folder = setting.root / f"kafka-{name}"
    folder.mkdir()
    with kafka_broker(folder) as running:
        yield running


def fill(broker: Broker, topic: str, records: Iterator[tuple[bytes, bytes]], partitions: int = 2) -> None:
    broker.create_topic(topic, partitions)
    broker.produce(topic, records)


def reading(setting: Setting) -> list[Figure]:
    """COUNT and SUM of JSON records, beside Spark's own Kafka source with from_json and the same aggregates."""
    with broker(setting, "reading") as running:
        made = (
            (b"%d" % n, b'{"id": %d, "k": %d, "v": %d.5, "name": "item %d"}' % (n, n % 1000, n, n))
            for n in range(RECORDS)
        )
        fill(running, "events", made)
        with setting.database("kafka_reading") as db:
            db.sql(f"""
                CREATE SOURCE events (id BIGINT, k BIGINT, v DOUBLE, name STRING)
                    FROM KAFKA (brokers = '{running.address}', topic = 'events', max_rows_per_step = {STEP});
                CREATE MATERIALIZED VIEW totals AS
                    SELECT COUNT(*) AS n, SUM(v) AS v, MAX(id) AS id, MAX(name) AS name FROM events;
            """)
            ours = throughput(run_all(db))
        stream = setting.spark.readStream.format("kafka").option("kafka.bootstrap.servers", running.address)
        stream = stream.option("subscribe", "events").option("startingOffsets", "earliest")
        frame = stream.option("maxOffsetsPerTrigger", STEP).load()
        parsed = frame.select(
            F.from_json(F.col("value").cast("string"), "id bigint, k bigint, v double, name string").alias("r")
        ).select("r.*")
        totals = parsed.agg(F.count("*"), F.sum("v"), F.max("id"), F.max("name"))
        peer = throughput(setting.spark_query("kafka_reading", totals, "update"))
    name = f"Kafka JSON, {STEP:,} records a step".replace(",", " ")
    return [Figure(name, ours / 1e6, peer / 1e6, ours / peer, 0.8, True, "M rows/s", "beside Spark's own source")]


def table(setting: Setting) -> list[Figure]:
    """A reference table of a million keys, from the start to ready, beside Spark reading the topic and keeping the last
    record of every key."""
    with broker(setting, "table") as running:
        made = (
            (b"k%d" % n, b'{"k": "k%d", "name": "name %d", "round": %d}' % (n, n, turn))
            for turn in range(2)
            for n in range(KEYS)
        )
        fill(running, "names", made)
        with setting.database("kafka_table") as db:
            db.sql(f"""
                CREATE TABLE names (k STRING PRIMARY KEY, name STRING, round INT)
                    FROM KAFKA (brokers = '{running.address}', topic = 'names');
            """)
            ours = seconds_of(db.start)
            assert db.sql("SHOW TABLES").rows() == [("names", "k", KEYS, "KAFKA", True)]
        reader = setting.spark.read.format("kafka").option("kafka.bootstrap.servers", running.address)
        frame = reader.option("subscribe", "names").option("startingOffsets", "earliest").load()
        parsed = frame.select(
            "key", "offset", F.from_json(F.col("value").cast("string"), "k string, name string, round int").alias("r")
        )
        last = parsed.groupBy("key").agg(F.max_by("r", "offset").alias("r")).select("r.*")
        peer = seconds_of(lambda: last.write.format("noop").mode("overwrite").save())
    note = "beside Spark keeping the last record per key"
    return [Figure("reference table of 1 000 000 keys", ours, peer, ours / peer, 1.5, False, "s", note)]


def visible(setting: Setting) -> list[Figure]:
    """From producing a change of a table to its first joined output, beside the time of a step."""
    with broker(setting, "visible") as running:
        fill(running, "names", iter([(b"a", b'{"k": "a", "name": "0"}')]), 1)
        running.create_topic("events", 1)
        with setting.database("kafka_visible") as db:
            db.sql(f"""
                CREATE TABLE names (k STRING PRIMARY KEY, name STRING)
                    FROM KAFKA (brokers = '{running.address}', topic = 'names');
                CREATE SOURCE events (id BIGINT, k STRING) FROM KAFKA (brokers = '{running.address}', topic = 'events');
                CREATE MATERIALIZED VIEW joined AS SELECT e.id, n.name FROM events e JOIN names n ON e.k = n.k;
            """)
            db.start()
            times = []
            for number in range(1, CHANGES + 1):
                begun = time.perf_counter()
                running.produce("names", [(b"a", json.dumps({"k": "a", "name": str(number)}).encode())])
                _until(lambda n=number: db.query("SELECT name FROM names").rows() == [(str(n),)])
                running.produce("events", [(None, json.dumps({"id": number, "k": "a"}).encode())])
                _until(lambda n=number: (n, str(n)) in db.query("SELECT * FROM joined").rows())
                times.append(time.perf_counter() - begun)
            steps = [millis for (millis,) in db.query("SELECT millis FROM system.steps WHERE rows_in > 0").rows()]
    ours, peer = statistics.median(times[2:]), statistics.median(steps[2:]) / 1000
    note = "table change produced, seen, event produced, joined; beside one step"
    return [Figure("Kafka table change to joined output", ours, peer, ours / peer, None, False, "s", note)]


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)


KAFKA_CASES = {"kafka_reading": reading, "kafka_table": table, "kafka_visible": visible}
