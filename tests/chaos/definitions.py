"""The pipeline: windows, sessions, joins, a Kafka table, a replicated PostgreSQL table, and sinks of every kind.

The rows of a round have times in `ROUND_MS` milliseconds. The watermark is further behind than that, so a row is late
only if the load means it to be, whatever a fault does to the order in which rows arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

START_MS = 1_714_550_400_000
"""2024-05-01 08:00:00: when the first round begins."""
ROUND_MS = 30_000
DELAY_MS = 60_000
WINDOW_MS, SLIDE_MS, HOP_MS = 20_000, 10_000, 30_000
GAP_MS = 5_000
APART_MS = 2_000

TEMPLATE = """
CREATE SOURCE trades (id BIGINT, symbol STRING, amount BIGINT, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '60' SECOND)
  FROM KAFKA (brokers = '{brokers}', topic = 'trades', timestamp_unit = 'ms');
CREATE SOURCE quotes (id BIGINT, symbol STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '60' SECOND)
  FROM KAFKA (brokers = '{brokers}', topic = 'quotes', timestamp_unit = 'ms');
CREATE TABLE instruments (symbol STRING PRIMARY KEY, version BIGINT, sector STRING)
  FROM KAFKA (brokers = '{brokers}', topic = 'instruments');
CREATE TABLE orders (id BIGINT PRIMARY KEY, symbol STRING, region STRING, amount BIGINT)
  FROM POSTGRES (url = '{database}', table = 'orders');

CREATE MATERIALIZED VIEW windows AS
  SELECT unix_millis(window_start) AS start, symbol, COUNT(*) AS n, SUM(amount) AS total
  FROM TUMBLE(trades, ts, INTERVAL '20' SECOND) GROUP BY window_start, symbol EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW hops AS
  SELECT unix_millis(window_start) AS start, MAX(amount) AS most, COUNT(DISTINCT symbol) AS symbols
  FROM HOP(trades, ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND) GROUP BY window_start EMIT CHANGES;
CREATE MATERIALIZED VIEW visits AS
  SELECT symbol, unix_millis(window_start) AS start, unix_millis(window_end) AS end, COUNT(*) AS n
  FROM SESSION(trades, ts, INTERVAL '5' SECOND) GROUP BY symbol, window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW pairs AS
  SELECT /*+ EARLY_FIRE('delay' = '1s', 'time_mode' = 'proctime') */ t.id AS trade, q.id AS quote
  FROM trades t LEFT JOIN quotes q
    ON t.symbol = q.symbol AND q.ts BETWEEN t.ts - INTERVAL '2' SECOND AND t.ts + INTERVAL '2' SECOND;
CREATE MATERIALIZED VIEW enriched AS
  SELECT t.id, t.symbol, i.version FROM trades t LEFT JOIN instruments i ON t.symbol = i.symbol;
CREATE MATERIALIZED VIEW regions AS
  SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW sectors AS
  SELECT i.sector, COUNT(*) AS n, MAX(o.amount) AS most
  FROM orders o JOIN instruments i ON o.symbol = i.symbol GROUP BY i.sector;

CREATE SINK windows_out FROM windows INTO KAFKA (brokers = '{brokers}', topic = 'windows');
CREATE SINK pairs_out FROM pairs INTO KAFKA (brokers = '{brokers}', topic = 'pairs', format = 'ops');
CREATE SINK visits_out FROM visits INTO FILE (path = '{files}/visits.jsonl');
CREATE SINK sectors_out FROM sectors INTO FILE (path = '{files}/sectors.jsonl');
CREATE SINK enriched_out FROM enriched INTO FILES (path = '{files}/enriched', mode = 'append') FORMAT json;
CREATE SINK hops_out FROM hops INTO FILES (path = '{files}/hops', mode = 'changelog') FORMAT json;
CREATE SINK regions_out FROM regions INTO POSTGRES (url = '{database}', table = 'regions');
"""

TOPICS = {"trades": 2, "quotes": 2, "instruments": 2, "windows": 2, "pairs": 2}
"""The topics and their partitions."""
VIEWS = {
    "windows": ("start", "symbol", "n", "total"),
    "hops": ("start", "most", "symbols"),
    "visits": ("symbol", "start", "end", "n"),
    "pairs": ("trade", "quote"),
    "regions": ("region", "n", "total"),
    "sectors": ("sector", "n", "most"),
    "enriched": ("id", "symbol", "version"),
}
"""The views and their columns."""
LATE_FOR = ("windows", "hops", "visits", "pairs")
"""The views that a late trade is late for. The others go by no time."""


@dataclass(frozen=True)
class Extra:
    """A view that is created, replaced and dropped between rounds; `sql` is its SELECT."""

    sql: str
    columns: tuple[str, ...]


EXTRAS = (
    Extra("SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region", ("region", "n", "total")),
    Extra("SELECT region, COUNT(*) AS n, MAX(amount) AS total FROM orders GROUP BY region", ("region", "n", "total")),
    Extra("SELECT symbol, SUM(n) AS n FROM windows GROUP BY symbol", ("symbol", "n")),
)
