"""A sink that is created late receives the whole content of its view."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests.postgres.sinks import Shop
from tests.servers.postgres import Postgres

DEFINITIONS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING, amount BIGINT);
CREATE SOURCE visits (page STRING);
CREATE MATERIALIZED VIEW totals AS SELECT region, SUM(amount) AS total FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW pages AS SELECT page FROM visits;
"""
SINKS = """
CREATE SINK upserted FROM totals INTO POSTGRES (url = '{url}', table = 'totals');
CREATE SINK copied FROM orders INTO POSTGRES (url = '{url}', table = 'orders');
CREATE SINK appended FROM pages INTO POSTGRES (url = '{url}', table = 'pages');
CREATE SINK logged FROM totals INTO POSTGRES (url = '{url}', table = 'log', mode = 'changelog');
"""


def test_a_late_sink_begins_with_the_content_of_its_view(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, database: str
) -> None:
    shop, folder = Shop(postgres, database), tmp_path / "db"
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        db.sql(DEFINITIONS)
        db.sql("INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 5); INSERT INTO visits VALUES ('a'), ('a')")
        db.step()
        db.sql("UPDATE orders SET amount = 11 WHERE id = 1")
        db.step()
        db.sql(SINKS.format(url=postgres.url(database)))
        db.sql("INSERT INTO orders VALUES (3, 'north', 1); INSERT INTO visits VALUES ('b')")
        db.step()
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        db.sql("DELETE FROM orders WHERE id = 2")
        db.step()
    assert shop.rows("SELECT region, total FROM totals ORDER BY 1") == [("north", 12)]
    assert shop.rows("SELECT id, amount FROM orders ORDER BY 1") == [(1, 11), (3, 1)]
    assert shop.rows("SELECT page FROM pages ORDER BY 1") == [("a",), ("a",), ("b",)]
    assert shop.rows("SELECT op, region, total FROM log ORDER BY step, op DESC, region") == [
        ("+I", "north", 11),
        ("+I", "south", 5),
        ("-U", "north", 11),
        ("+U", "north", 12),
        ("-D", "south", 5),
    ]


def test_a_recreated_sink_is_written_again(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, database: str
) -> None:
    shop, url = Shop(postgres, database), postgres.url(database)
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        db.sql(f"{DEFINITIONS}; CREATE SINK s FROM totals INTO POSTGRES (url = '{url}', table = 'totals')")
        db.sql("INSERT INTO orders VALUES (1, 'north', 10)")
        db.step()
        shop.run("DROP TABLE totals")
        db.sql(f"DROP SINK s; CREATE SINK s FROM totals INTO POSTGRES (url = '{url}', table = 'totals')")
        db.step()
        assert shop.rows("SELECT region, total FROM totals") == [("north", 10)]
