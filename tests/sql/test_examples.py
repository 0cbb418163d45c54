"""Statements from the documentation of the systems whose syntax we accept."""

from __future__ import annotations

import random

import pytest
from sqlglot import exp

from tidegate.errors import Error
from tidegate.sql import parse
from tidegate.sql.parsing import statements

EXAMPLES = [
    """CREATE MATERIALIZED VIEW sales_per_minute AS
       SELECT window_start, SUM(amount) as total
       FROM TUMBLE(sales, event_time, INTERVAL '1 minute')
       GROUP BY window_start
       EMIT ON WINDOW CLOSE;  -- No duplicates to Kafka""",
    "CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) as s FROM orders GROUP BY customer EMIT CHANGES",
    """CREATE MATERIALIZED VIEW daily_report AS
       SELECT DATE(event_time) as day, COUNT(*) as order_count, SUM(amount) as revenue
       FROM orders GROUP BY DATE(event_time) EMIT FINAL;  -- Only final, exact numbers""",
    """SELECT /*+ EARLY_FIRE('delay'='5s','time_mode'='rowtime|proctime') */ A.id, B.value
       FROM A JOIN B ON B.rowtime BETWEEN A.rowtime - INTERVAL '1' HOUR AND A.rowtime + INTERVAL '1' HOUR;""",
    """SELECT /*+ EARLY_FIRE('delay'='5s', 'time_mode'='rowtime') */ o.*, s.*, d.*
       FROM Orders o
       LEFT JOIN Shipments s ON o.id = s.order_id
         AND o.order_time BETWEEN s.ship_time - INTERVAL '4' HOUR AND s.ship_time
       RIGHT JOIN Delivery d ON d.delivery_id = s.delivery_id
         AND d.delivery_time BETWEEN s.ship_time AND s.ship_time + INTERVAL '12' HOUR;""",
    """SELECT window_start, window_end, buyer, count(*) /*+ EARLY_FIRE('delay'='5s', 'time_mode'='rowtime') */
       FROM Orders o LEFT JOIN Shipments s ON o.id = s.order_id
       -- Another join or transformation could follow
       GROUP BY o.window_start, o.window_end, buyer;""",
    """SELECT channel, COUNT(*) as event_count, AVG(payload.amount) as avg_amount
       FROM pgcdc_events WHERE operation = 'INSERT' GROUP BY channel HAVING COUNT(*) > 10 TUMBLING WINDOW 5m""",
    "SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel ALLOWED LATENESS 1m TUMBLING WINDOW 5m",
    """SELECT payload.category, COUNT(*) as order_count, SUM(payload.total) as revenue
       FROM pgcdc_events WHERE operation = 'INSERT' AND channel = 'pgcdc:orders'
       GROUP BY payload.category HAVING COUNT(*) > 5 TUMBLING WINDOW 5m""",
    """CREATE TABLE instruments (
         symbol VARCHAR PRIMARY KEY, company_name VARCHAR, sector VARCHAR, exchange VARCHAR, lot_size INT
       ) FROM KAFKA (
         brokers = 'localhost:9092', topic = 'instruments', format = 'avro', schema_registry_url = 'http://localhost:8081'
       );""",
    "SELECT t.symbol, t.price, t.volume, i.sector, i.exchange FROM trades t JOIN instruments i ON t.symbol = i.symbol;",
    """CREATE TABLE order_pickup (
         when TIMESTAMP NOT NULL LATENESS INTERVAL '1:00' HOURS TO MINUTES, location VARCHAR);
       LATENESS V.COL1 INTERVAL '1' HOUR;
       CREATE VIEW V AS SELECT T.COL1, T.COL2 FROM T;
       INSERT INTO T VALUES('2020-01-01 00:00:00', 'home');""",
    "CREATE VIEW V WITH ('emit_final' = 'ts') AS SELECT a as ts, b FROM t",
    "CREATE VIEW W AS SELECT YEAR(timestamp), COUNT(*) FROM T GROUP BY YEAR(timestamp)",
    """CREATE TABLE order_pickup (
         pickup_time TIMESTAMP NOT NULL WATERMARK INTERVAL '1:00' HOURS TO MINUTES, location VARCHAR
       ) WITH ('append_only' = 'true');""",
    """CREATE SOURCE s (v1 INT, v2 VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
       WITH (connector = 'kafka', topic = 'demo', properties.bootstrap.server = 'b:1', scan.startup.mode = 'earliest')
       FORMAT PLAIN ENCODE JSON;""",
    """SELECT window_start, window_end, SUM(price)
       FROM TABLE(HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
       GROUP BY window_start, window_end;""",
    "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE), COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
    "SELECT window(ts, '10 seconds') AS w, count(*) FROM t GROUP BY window(ts, '10 seconds') EMIT ON WATERMARK",
    """SELECT a.id FROM pgcdc_events a JOIN pgcdc_events b ON a.payload.id = b.payload.id WITHIN 30s
       WHERE a.channel = 'x' EMIT CHANGES""",
    "SELECT a FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF PROCTIME() ON o.id = r.id",
    "CREATE SINK out AS SELECT a FROM v WHERE a > 1 EMIT ON UPDATE INTO KAFKA (topic = 't') FORMAT UPSERT ENCODE JSON;",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_parsed(text: str) -> None:
    assert parse(text).statements


def test_mutilated_text_is_parsed_or_is_an_error_with_a_span(caplog: pytest.LogCaptureFixture) -> None:
    """Text with dropped, repeated or swapped tokens is another statement or an error whose span is in the text."""
    chance = random.Random(7)
    for text in EXAMPLES * 12:
        mutilated = _mutilate(text, chance)
        try:
            script = parse(mutilated)
        except Error as error:
            assert error.code in ("SYNTAX_ERROR", "NOT_SUPPORTED", "UNKNOWN_COLUMN"), mutilated
            assert error.span is not None and error.span.start <= len(mutilated), mutilated
            continue
        queries = [q.select for s in script.statements if (q := getattr(s, "query", None)) is not None]
        assert not any(q.find(exp.Command) for q in queries), mutilated
    assert not caplog.records


def _mutilate(text: str, chance: random.Random) -> str:
    words = [text[t.start : t.end + 1] for tokens in statements(text) for t in tokens]
    for _ in range(chance.randint(1, 3)):
        place, other = chance.randrange(len(words)), chance.randrange(len(words))
        match chance.randrange(3):
            case 0 if len(words) > 2:
                del words[place]
            case 1:
                words.insert(place, words[other])
            case _:
                words[place], words[other] = words[other], words[place]
    return " ".join(words)
