"""Reference tables: `CREATE TABLE ... FROM KAFKA`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import errors_of, produce_json, rows, topic
from tests.servers import Broker

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "60000",
}
INSTRUMENTS = "(symbol STRING, sector STRING, lot INT, PRIMARY KEY (symbol))"


def instrument(symbol: str, sector: str, lot: int) -> tuple[bytes, bytes]:
    return symbol.encode(), json.dumps({"symbol": symbol, "sector": sector, "lot": lot}).encode()


def test_snapshot_then_live(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    instruments, trades = topic(broker, "instruments", 3, COMPACTED), topic(broker, "trades", 2)
    empty = topic(broker, "empty", 2, COMPACTED)
    records = [instrument(f"S{n}", "old", n) for n in range(50)] + [instrument(f"S{n}", "tech", n) for n in range(50)]
    broker.produce(
        instruments, [*records, (b"S7", None), (b"S8", None), instrument("S8", "back", 8), (b"S9", b"nonsense")]
    )
    produce_json(broker, trades, *({"id": n, "symbol": f"S{n}"} for n in range(10)), key="symbol")
    define = f"""
        CREATE TABLE instruments {INSTRUMENTS} FROM KAFKA (brokers = '{broker.address}', topic = '{instruments}');
        CREATE TABLE IF NOT EXISTS nothing {INSTRUMENTS}
            FROM KAFKA (brokers = '{broker.address}', topic = '{empty}', format = 'json');
        CREATE SOURCE trades (id BIGINT, symbol STRING) FROM KAFKA (brokers = '{broker.address}', topic = '{trades}');
        CREATE MATERIALIZED VIEW enriched AS SELECT t.id, i.sector FROM trades t
            LEFT JOIN instruments FOR SYSTEM_TIME AS OF PROCTIME() AS i ON t.symbol = i.symbol;
        CREATE MATERIALIZED VIEW by_sector AS SELECT sector, COUNT(*) AS n FROM instruments GROUP BY sector;
        CREATE MATERIALIZED VIEW none AS SELECT count(*) AS n FROM nothing;
    """
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(define)
        with pytest.raises(tidegate.Error) as caught:
            db.query("SELECT * FROM instruments")
        assert caught.value.code == "TABLE_NOT_READY"
        assert db.sql("SHOW TABLES").rows() == [
            ("instruments", "symbol", 0, "KAFKA", False),
            ("nothing", "symbol", 0, "KAFKA", False),
        ]
        shares: list[float] = []
        db.start(lambda loading: shares.extend(loading.values()))
        assert db.sql("SHOW TABLES").rows() == [
            ("instruments", "symbol", 49, "KAFKA", True),
            ("nothing", "symbol", 0, "KAFKA", True),
        ]
        assert all(0 <= share <= 1 for share in shares)
        expected = dict.fromkeys(range(10), "tech") | {7: None, 8: "back"}
        wait_for(db, "SELECT * FROM enriched", sorted(expected.items(), key=repr))
        assert rows(db, "SELECT * FROM by_sector") == [("back", 1), ("tech", 48)]
        assert rows(db, "SELECT * FROM none") == [(0,)]
        assert [message.partition(": ")[2] for message, _ in errors_of(db, "instruments")] == ["not a JSON object"]

        broker.produce(instruments, [instrument("S1", "food", 1), (b"S2", None)])
        wait_for(db, "SELECT * FROM by_sector", [("back", 1), ("food", 1), ("tech", 46)])
        produce_json(broker, trades, {"id": 100, "symbol": "S1"}, {"id": 101, "symbol": "S2"}, key="symbol")
        after = expected | {100: "food", 101: None}
        wait_for(db, "SELECT * FROM enriched", sorted(after.items(), key=repr))
        db.stop()

    broker.produce(instruments, [instrument("S3", "food", 1)])
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.step()
        assert rows(db, "SELECT * FROM by_sector") == [("back", 1), ("food", 2), ("tech", 45)]
        last = db.query("SELECT rows_in FROM system.steps WHERE rows_in > 0 ORDER BY step DESC LIMIT 1").rows()
        assert last == [(1,)], "only what is new was read"
        with pytest.raises(tidegate.Error) as caught:
            db.sql("DROP TABLE instruments")
        assert caught.value.code == "HAS_DEPENDENTS"
        with pytest.raises(tidegate.Error) as caught:
            db.sql("REFRESH TABLE instruments")
        assert caught.value.message == "instruments follows its origin by itself"
        db.sql("DROP TABLE instruments CASCADE")
        assert [name for name, *_ in db.sql("SHOW TABLES").rows()] == ["nothing"]


def wait_for(db: tidegate.Database, query: str, expected: list[tuple[object, ...]], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while (content := rows(db, query)) != expected and time.monotonic() < deadline:
        db.wait(timeout=0.1)
    assert content == expected


def test_a_compacted_topic(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    name = topic(broker, "compacted", 1, COMPACTED)
    for round_ in range(4):
        broker.produce(name, [instrument(f"S{n}", f"round {round_}", n) for n in range(20)])
        time.sleep(0.2)
    broker.produce(name, [(b"S0", None)])
    deadline = time.monotonic() + 60
    while len(broker.read(name)) > 45 and time.monotonic() < deadline:
        broker.produce(name, [instrument("tick", "tick", 0)])
        time.sleep(0.3)
    remaining = len(broker.read(name))
    assert remaining <= 45, f"compaction has not run: {remaining} records"
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        db.sql(f"""
            CREATE TABLE t {INSTRUMENTS} FROM KAFKA (brokers = '{broker.address}', topic = '{name}');
            CREATE TABLE once {INSTRUMENTS} FROM KAFKA (brokers = '{broker.address}', topic = '{name}',
                refresh = 'snapshot_only');
            CREATE TABLE manual {INSTRUMENTS} FROM KAFKA (brokers = '{broker.address}', topic = '{name}',
                refresh = 'manual');
            CREATE MATERIALIZED VIEW lots AS SELECT sector, SUM(lot) AS lots FROM manual GROUP BY sector;
        """)
        db.step()
        assert rows(db, "SELECT * FROM t WHERE symbol <> 'tick'") == [
            (f"S{n}", "round 3", n) for n in sorted(range(1, 20), key=str)
        ]
        assert rows(db, "SELECT count(*) FROM once") == rows(db, "SELECT count(*) FROM t")
        assert rows(db, "SELECT lots FROM lots WHERE sector = 'round 3'") == [(190,)]
        broker.produce(name, [(b"S19", None), instrument("S1", "new", 100)])
        db.step()
        assert rows(db, "SELECT sector FROM t WHERE symbol IN ('S1', 'S19')") == [("new",)]
        for table in ("once", "manual"):
            assert rows(db, f"SELECT sector FROM {table} WHERE symbol IN ('S1', 'S19')") == [("round 3",), ("round 3",)]
        db.sql("REFRESH TABLE manual")
        db.step()
        assert rows(db, "SELECT sector FROM manual WHERE symbol IN ('S1', 'S19')") == [("new",)]
        assert rows(db, "SELECT * FROM lots WHERE sector <> 'tick'") == [("new", 100), ("round 3", 170)]
        assert rows(db, "SELECT name, ready FROM system.tables") == [("manual", True), ("once", True), ("t", True)]


@pytest.mark.parametrize(
    ("option", "message", "hint"),
    [
        (
            "start = 'latest'",
            "a table is what all records of its topic make, so it is always read from the beginning",
            "leave out start, or CREATE SOURCE",
        ),
        (
            "max_rows_per_step = 10",
            "a table is ready when its whole topic is read, which takes one step",
            "leave out max_rows_per_step",
        ),
        ("refresh = 'never'", "option 'refresh' cannot be 'never'", None),
    ],
)
def test_invalid_options(spark: SparkSession, tmp_path: Path, option: str, message: str, hint: str | None) -> None:
    with tidegate.connect(tmp_path / "db", spark=spark) as db, pytest.raises(tidegate.Error) as caught:
        db.sql(f"CREATE TABLE t {INSTRUMENTS} FROM KAFKA (brokers = 'a', topic = 'a', {option})")
    assert caught.value.code == "INVALID_OPTION"
    assert caught.value.message.startswith(message)
    assert hint is None or caught.value.hint == hint
