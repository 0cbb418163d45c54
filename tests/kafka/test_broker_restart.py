"""The broker is restarted while a pipeline reads from it and writes to it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import produce_json, topic
from tests.servers import kafka_broker


def test_source_and_sink_continue_after_the_broker_is_back(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    with kafka_broker(tmp_path / "kafka") as broker, tidegate.connect(tmp_path / "db", spark=spark) as db:
        source, target = topic(broker, "in"), topic(broker, "out")
        db.sql(f"""
            CREATE SOURCE s (id BIGINT) FROM KAFKA (brokers = '{broker.address}', topic = '{source}');
            CREATE SOURCE local (id BIGINT);
            CREATE MATERIALIZED VIEW both AS SELECT id FROM s UNION ALL SELECT id FROM local;
            CREATE SINK k FROM both INTO KAFKA (brokers = '{broker.address}', topic = '{target}');
        """)
        produce_json(broker, source, {"id": 1})
        db.start()
        until(lambda: ids_in(broker, target) == [1])
        broker.stop()
        db.insert("local", [(2,)])
        db.wait(3)
        broker.start()
        produce_json(broker, source, {"id": 3})
        db.insert("local", [(4,)])
        until(lambda: ids_in(broker, target) == [1, 2, 3, 4], lambda: db.wait(0.1))


def ids_in(broker: object, name: str) -> list[int]:
    return sorted(json.loads(record.value)["id"] for record in broker.read_committed(name))  # type: ignore[attr-defined]


def until(holds, meanwhile=lambda: time.sleep(0.2), seconds: float = 90) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        meanwhile()
