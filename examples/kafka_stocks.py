"""Trades joined with a reference table, both in Kafka, from start to end on this machine: no Docker, nothing to set up.

Starts a real broker (fetched with Maven the first time), fills a compacted topic of instruments and a topic of trades,
and runs a pipeline that enriches trades, keeps totals per sector, and writes them back to Kafka. Run it from the
repository:

    make setup && .venv/bin/python examples/kafka_stocks.py
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import tidegate
from tests.servers import Broker, kafka_broker, kafka_jars

PIPELINE = """
CREATE TABLE instruments (
    symbol VARCHAR PRIMARY KEY, company_name VARCHAR, sector VARCHAR, exchange VARCHAR, lot_size INT
) FROM KAFKA (brokers = '{brokers}', topic = 'instruments', format = 'json');

CREATE SOURCE trades (symbol VARCHAR, price DECIMAL(10, 2), volume INT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS
) FROM KAFKA (brokers = '{brokers}', topic = 'trades', format = 'json');

CREATE MATERIALIZED VIEW enriched AS
SELECT t.symbol, t.price, t.volume, i.sector, i.exchange
FROM trades t JOIN instruments i ON t.symbol = i.symbol;

CREATE MATERIALIZED VIEW per_sector AS
SELECT sector, COUNT(*) AS trades, SUM(price * volume) AS turnover FROM enriched GROUP BY sector;

CREATE SINK totals FROM per_sector INTO KAFKA (brokers = '{brokers}', topic = 'sector-totals', format = 'upsert');
"""
INSTRUMENTS = [
    ("AAPL", "Apple", "tech", "NASDAQ", 100),
    ("MSFT", "Microsoft", "tech", "NASDAQ", 100),
    ("XOM", "Exxon Mobil", "energy", "NYSE", 100),
    ("KO", "Coca-Cola", "food", "NYSE", 100),
]
COLUMNS = ("symbol", "company_name", "sector", "exchange", "lot_size")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("starting a Kafka broker ...")
        Path(folder, "kafka").mkdir()
        with kafka_broker(Path(folder, "kafka")) as broker:
            broker.create_topic("instruments", 2, {"cleanup.policy": "compact"})
            broker.create_topic("trades", 2)
            broker.create_topic("sector-totals", 1, {"cleanup.policy": "compact"})
            upsert(broker, *INSTRUMENTS)
            run(broker, Path(folder, "data"))


def run(broker: Broker, data: Path) -> None:
    os.environ.setdefault("TIDEGATE_JARS", str(kafka_jars()))
    with tidegate.connect(data) as db:
        db.sql(PIPELINE.format(brokers=broker.address))
        trade(broker, 200)
        print("starting the pipeline; it is running when every table is ready ...")
        db.start()
        db.sql("SHOW TABLES").show()
        settle(db, "SELECT SUM(trades) FROM per_sector", 200)
        db.query("SELECT * FROM per_sector ORDER BY sector").show()

        print("KO is called a drink from now on; trades that were joined before stay as they were.")
        upsert(broker, ("KO", "Coca-Cola", "drinks", "NYSE", 100))
        settle(db, "SELECT COUNT(*) FROM instruments WHERE sector = 'drinks'", 1)
        trade(broker, 100)
        settle(db, "SELECT SUM(trades) FROM per_sector", 300)
        db.query("SELECT * FROM per_sector ORDER BY sector").show()

    print("and in the topic sector-totals, the last record of every key:")
    last = {record.key: record.value for record in broker.read_committed("sector-totals")}
    for key in sorted(last, key=str):
        print(" ", (last[key] or b"(gone)").decode())


def upsert(broker: Broker, *rows: tuple[object, ...]) -> None:
    broker.produce(
        "instruments",
        [(str(row[0]).encode(), json.dumps(dict(zip(COLUMNS, row, strict=True))).encode()) for row in rows],
    )


def trade(broker: Broker, count: int) -> None:
    chance = random.Random(count)
    rows = [
        {
            "symbol": chance.choice(INSTRUMENTS)[0],
            "price": round(chance.uniform(10, 200), 2),
            "volume": 100 * chance.randint(1, 9),
            "ts": f"2024-05-01 12:00:{number % 60:02}",
        }
        for number in range(count)
    ]
    broker.produce("trades", [(str(row["symbol"]).encode(), json.dumps(row).encode()) for row in rows])


def settle(db: tidegate.Database, query: str, expected: int) -> None:
    """Waits until a query gives a number."""
    deadline = time.monotonic() + 60
    while db.query(query).rows() != [(expected,)]:
        if time.monotonic() > deadline:
            raise SystemExit(f"{query} is {db.query(query).rows()}, not {expected}, after a minute")
        db.wait(0.1)


if __name__ == "__main__":
    main()
