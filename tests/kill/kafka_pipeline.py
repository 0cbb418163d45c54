"""A pipeline from Kafka to Kafka, to be killed: `kafka_pipeline.py FOLDER BROKERS TABLE STREAM APPENDED UPSERTED`.

Says `reading` before the table is read, `running` when it is ready, and runs until it is killed."""

from __future__ import annotations

import sys

import tidegate

DEFINITIONS = """
CREATE TABLE instruments (symbol STRING PRIMARY KEY, sector STRING)
  FROM KAFKA (brokers = '{brokers}', topic = '{table}');
CREATE SOURCE trades (id BIGINT, symbol STRING, price INT) FROM KAFKA (brokers = '{brokers}', topic = '{stream}');
CREATE MATERIALIZED VIEW enriched AS SELECT t.id, i.sector, t.price FROM trades t
  JOIN instruments FOR SYSTEM_TIME AS OF PROCTIME() AS i ON t.symbol = i.symbol;
CREATE MATERIALIZED VIEW sectors AS SELECT sector, COUNT(*) AS n, SUM(price) AS total FROM enriched GROUP BY sector;
CREATE SINK appended FROM enriched INTO KAFKA (brokers = '{brokers}', topic = '{appended}');
CREATE SINK upserted FROM sectors INTO KAFKA (brokers = '{brokers}', topic = '{upserted}', format = 'upsert');
"""
NAMES = ("brokers", "table", "stream", "appended", "upserted")


def main() -> None:
    folder, *rest = sys.argv[1:]
    db = tidegate.connect(folder, master="local[2]")
    db.run_script(DEFINITIONS.format(**dict(zip(NAMES, rest, strict=True))))
    print("reading", flush=True)
    db.start()
    print("running", flush=True)
    db.wait()


if __name__ == "__main__":
    main()
