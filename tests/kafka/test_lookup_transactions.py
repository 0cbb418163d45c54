"""Tables and streams that are written in transactions."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import topic
from tests.servers import Broker

STEPS = 15


def test_the_next_transaction_of_a_producer_joins_what_the_one_before_wrote(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    table, stream = topic(broker, "versions", 3), topic(broker, "stream", 3)
    define = f"""
        CREATE TABLE versions (id BIGINT PRIMARY KEY, version BIGINT)
            FROM KAFKA (brokers = '{broker.address}', topic = '{table}');
        CREATE SOURCE stream (id BIGINT, version BIGINT) FROM KAFKA (brokers = '{broker.address}', topic = '{stream}');
        CREATE MATERIALIZED VIEW joined AS
            SELECT s.version AS n, v.version FROM stream s LEFT JOIN versions v ON s.id = v.id;
    """
    producer = Producer(
        {"bootstrap.servers": broker.address, "linger.ms": 0, "transactional.id": table, "log_level": 0}
    )
    producer.init_transactions(30)
    ended = threading.Event()
    last = 0

    def write() -> None:
        nonlocal last
        while not ended.is_set():
            for name in (table, stream):
                producer.begin_transaction()
                producer.produce(
                    name,
                    json.dumps({"id": 1, "version": last + 1}).encode(),
                    partition=1 if name == table else last % 3,
                )
                producer.commit_transaction(30)
            last += 1

    writer = threading.Thread(target=write)
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(define)
        db.start()
        writer.start()
        while db.query("SELECT count(*) FROM system.steps WHERE rows_in > 0").rows()[0][0] < STEPS:
            assert writer.is_alive()
            db.wait(timeout=0.1)
        ended.set()
        writer.join()
        db.stop()
        db.step()
        found = db.query("SELECT n, version FROM joined ORDER BY n").rows()
        assert [n for n, _ in found] == list(range(1, last + 1))
        assert [row for row in found if (row[1] or 0) < row[0]] == []
