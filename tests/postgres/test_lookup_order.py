"""Stream rows of other origins join a captured table as it was when the pipeline started, or later."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import topic
from tests.servers import Broker
from tests.servers.postgres import Postgres, postgres_server
from tests.servers.processes import wait_until

DEFINITIONS = """
CREATE TABLE customers (id INT PRIMARY KEY, name STRING) FROM POSTGRES (url = '{url}', table = 'customers');
CREATE SOURCE given (n BIGINT, id INT);
CREATE SOURCE orders (n BIGINT, id INT) FROM KAFKA (brokers = '{brokers}', topic = '{topic}');
CREATE MATERIALIZED VIEW named_given AS SELECT o.n, c.name FROM given o LEFT JOIN customers c ON o.id = c.id;
CREATE MATERIALIZED VIEW named AS SELECT o.n, c.name FROM orders o LEFT JOIN customers c ON o.id = c.id;
"""


def test_a_start_reads_captured_tables_before_the_first_stream_row(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, broker: Broker
) -> None:
    """The first time the whole table, after a pause what has changed meanwhile."""
    shop = postgres.create_database("shop")
    postgres.execute(
        shop, "CREATE TABLE customers (id int PRIMARY KEY, name text); INSERT INTO customers VALUES (1, '0')"
    )
    orders = topic(broker, "orders")
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(DEFINITIONS.format(url=postgres.url(shop), brokers=broker.address, topic=orders))
        for n in range(4):
            postgres.execute(shop, f"UPDATE customers SET name = '{n}'")
            broker.produce(orders, [(None, json.dumps({"n": n, "id": 1}).encode())])
            db.insert("given", [{"n": n, "id": 1}])
            db.start()
            while any(rows(db, view) <= n for view in ("named", "named_given")):
                db.wait(0.1)
            db.stop()
        for view in ("named", "named_given"):
            found = db.query(f"SELECT n, name FROM {view} ORDER BY n").rows()
            assert found == [(n, str(n)) for n in range(4)], view


def test_a_start_waits_for_the_server_of_a_table_that_was_never_read(spark: SparkSession, tmp_path: Path) -> None:
    """And ends when it is stopped. Once the table was read, the pipeline runs without its server."""
    (tmp_path / "postgres").mkdir()
    with postgres_server(tmp_path / "postgres") as server:
        shop = server.create_database("shop")
        server.execute(
            shop, "CREATE TABLE customers (id int PRIMARY KEY, name text); INSERT INTO customers VALUES (1, 'ann')"
        )
        with tidegate.connect(tmp_path / "db", spark=spark) as db:
            db.sql("\n".join(DEFINITIONS.format(url=server.url(shop), brokers="", topic="").splitlines()[:2]))
            db.sql("CREATE SOURCE given (n BIGINT, id INT)")
            db.sql(
                "CREATE MATERIALIZED VIEW named AS SELECT o.n, c.name FROM given o LEFT JOIN customers c ON o.id = c.id"
            )
            db.insert("given", [{"n": 0, "id": 1}])
            server.stop()
            shares: list[dict[str, float]] = []
            db.start(lambda loading: (shares.append(dict(loading)), db.stop()))
            assert shares == [{"customers": 0.0}]
            assert not db.running_now

            db.start(lambda _: server.start() if server.pid is None else None)
            wait_until(lambda: rows(db, "named") == 1, "the row")
            db.stop()
            server.stop()
            db.insert("given", [{"n": 1, "id": 1}])
            db.start()
            wait_until(lambda: rows(db, "named") == 2, "the second row")
            db.stop()
            server.start()
            assert db.query("SELECT n, name FROM named ORDER BY n").rows() == [(0, "ann"), (1, "ann")]


def rows(db: tidegate.Database, view: str) -> int:
    return int(db.query(f"SELECT count(*) FROM {view}").rows()[0][0])
