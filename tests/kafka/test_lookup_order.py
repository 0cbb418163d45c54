"""A stream row joins every version of a table that was committed before the row was, wherever both come from: the end
of a step is fixed for streams first, and for tables afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import topic
from tests.servers import Broker
from tests.servers.kafka import QUIET, kafka_broker

STARTS = 3
EVERY = 20
"""How many versions there are per file, and per INSERT."""


class Target:
    """A topic."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "acks": "all", **QUIET})
        self._name = name

    def send(self, row: dict[str, int]) -> None:
        """Sends a row, and waits until it is committed."""
        self._producer.produce(self._name, json.dumps(row).encode())
        assert self._producer.flush(30) == 0


class Writer:
    """Writes version after version of a table row to each origin, and behind each version stream rows that name it."""

    def __init__(self, table: Target, streams: list[Target], folder: Path, db: tidegate.Database) -> None:
        self._table, self._streams, self._folder, self._db = table, streams, folder, db
        self.last, self._ended = 0, threading.Event()
        self._failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._write(self.last + 1)
                self.last += 1
        except BaseException as failure:
            self._failure = failure

    def _write(self, version: int) -> None:
        row = {"id": 1, "version": version}
        self._table.send(row)
        if version % EVERY == 1:
            self._write_file(row)
            self._db.insert("given", [row])
        for stream in self._streams:
            stream.send(row)
        if version % EVERY == 1:
            self._db.insert("given_stream", [row])

    def _write_file(self, row: dict[str, int]) -> None:
        path = self._folder / f"{row['version']:06}.json"
        path.with_name(f".{path.name}").write_text(json.dumps(row))
        path.with_name(f".{path.name}").rename(path)


@pytest.fixture
def other_broker(tmp_path: Path) -> Iterator[Broker]:
    (tmp_path / "other").mkdir()
    with kafka_broker(tmp_path / "other") as running:
        yield running


@pytest.mark.parametrize("wanted", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_a_stream_row_joins_what_was_committed_before_it(
    spark: SparkSession, tmp_path: Path, broker: Broker, other_broker: Broker, wanted: int
) -> None:
    """One of the streams is in another cluster than the table."""
    table, first, silent = (topic(broker, word) for word in ("versions", "first", "silent"))
    second = topic(other_broker, "second")
    folder = tmp_path / "files"
    folder.mkdir()
    columns, key = "id BIGINT, version BIGINT", "(id BIGINT PRIMARY KEY, version BIGINT)"
    at = f"brokers = '{broker.address}'"
    define = f"""
        CREATE TABLE in_kafka {key} FROM KAFKA ({at}, topic = '{table}');
        CREATE TABLE in_files {key} FROM FILES (path = '{folder}', format = 'json');
        CREATE TABLE given {key};
        CREATE SOURCE silent ({columns}) FROM KAFKA ({at}, topic = '{silent}');
        CREATE SOURCE first ({columns}) FROM KAFKA ({at}, topic = '{first}');
        CREATE SOURCE second ({columns})
            FROM KAFKA (brokers = '{other_broker.address}', topic = '{second}', max_rows_per_step = 1000);
        CREATE SOURCE given_stream ({columns});
        CREATE MATERIALIZED VIEW unused AS SELECT * FROM silent;
    """
    for stream in ("first", "second", "given_stream"):
        define += f"""
            CREATE MATERIALIZED VIEW of_{stream} AS
            SELECT s.version AS n, k.version AS in_kafka, f.version AS in_files, g.version AS given
            FROM {stream} s LEFT JOIN in_kafka k ON s.id = k.id LEFT JOIN in_files f ON s.id = f.id
            LEFT JOIN given g ON s.id = g.id;
        """
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(define)
        streams = [Target(broker, first), Target(other_broker, second)]
        with Writer(Target(broker, table), streams, folder, db) as writer:
            for start in range(STARTS):
                db.start()
                while steps(db) < wanted * (start + 1):
                    assert writer.thread.is_alive()
                    db.wait(timeout=0.1)
                db.stop()
        db.step()
        for stream, every in (("first", 1), ("second", 1), ("given_stream", EVERY)):
            found = db.query(f"SELECT * FROM of_{stream} ORDER BY n").rows()
            assert [row[0] for row in found] == list(range(1, writer.last + 1, every))
            stale = [row for row in found if row[1] < row[0] or min(row[2:]) < (row[0] - 1) // EVERY * EVERY + 1]
            assert not stale, f"{len(stale)} rows of {stream} joined an old version: {stale[:5]}"


def steps(db: tidegate.Database) -> int:
    """The number of steps that had rows."""
    return int(db.query("SELECT count(*) FROM system.steps WHERE rows_in > 0").rows()[0][0])
