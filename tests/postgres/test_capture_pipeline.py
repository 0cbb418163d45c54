"""Pipelines whose PostgreSQL server goes away, is restarted, or loses the slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.servers.postgres import Postgres, postgres_server
from tests.servers.processes import wait_until
from tidegate.connectors.contract import Capture
from tidegate.connectors.postgres.slot import default_name
from tidegate.connectors.postgres.source import PostgresChanges
from tidegate.database import runtime_of
from tidegate.runtime.monitoring import prometheus

DEFINITIONS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING, amount BIGINT)
  FROM POSTGRES (url = '{url}', table = 'orders');
CREATE SOURCE changes FROM POSTGRES (url = '{url}', tables = 'orders');
CREATE MATERIALIZED VIEW totals AS SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region;
CREATE SINK summed FROM totals INTO POSTGRES (url = '{url}', table = 'totals_copy');
CREATE SINK told FROM pgcdc_events INTO POSTGRES (url = '{url}', table = 'events', channels = 'pgcdc:orders');
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as running:
        yield running


@pytest.fixture
def shop(server: Postgres) -> str:
    name = server.create_database("shop")
    server.execute(name, "CREATE TABLE orders (id int PRIMARY KEY, region text, amount int)")
    server.execute(name, "INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20)")
    return name


def fetch(server: Postgres, database: str, query: str) -> list[tuple[Any, ...]]:
    try:
        with server.connect(database) as connection:
            return connection.execute(query).fetchall()
    except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
        return []


def test_the_server_is_restarted_while_it_runs(
    spark: SparkSession, tmp_path: Path, server: Postgres, shop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Source and sinks wait for it, and each change is captured and written exactly once."""
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(DEFINITIONS.format(url=server.url(shop)))
        db.start()
        for number, end in ((3, server.stop), (4, server.kill)):
            server.execute(shop, f"INSERT INTO orders VALUES ({number}, 'north', {number})")
            end()
            server.start()
            server.execute(
                shop, f"UPDATE orders SET amount = amount + 1 WHERE id = {number}; DELETE FROM orders WHERE id = 2"
            )
        expected = "SELECT region, COUNT(*), SUM(amount)::bigint FROM orders GROUP BY region"

        def same() -> bool:
            db.wait(0.05)
            return sorted(fetch(server, shop, "SELECT region, n, total FROM totals_copy")) == sorted(
                fetch(server, shop, expected)
            ) and fetch(server, shop, "SELECT COUNT(*) FROM events") == [(5,)]

        wait_until(same, "the sinks", 90)
        assert fetch(server, shop, "SELECT COUNT(DISTINCT id) FROM events") == [(5,)]
        figures = prometheus(runtime_of(db))
    assert 'tidegate_capture_slot_lag_bytes{source="orders, changes"}' in figures
    assert 'tidegate_capture_slot_retained_bytes{source="orders, changes"}' in figures
    assert 'tidegate_capture_rows_taken_total{source="orders, changes"}' in figures
    assert f"the connection to PostgreSQL at 127.0.0.1:{server.port}/{shop} broke" in caplog.text


def test_a_slot_that_is_dropped_while_it_runs(spark: SparkSession, tmp_path: Path, server: Postgres, shop: str) -> None:
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(DEFINITIONS.format(url=server.url(shop)))
        db.start()
        slot = default_name(runtime_of(db).folder.id, shop)
        ours = f"FROM pg_replication_slots WHERE slot_name = '{slot}'"

        def drop_slot() -> bool:
            fetch(server, shop, f"SELECT pg_terminate_backend(active_pid, 5000) {ours} AND active")
            try:
                fetch(server, shop, f"SELECT pg_drop_replication_slot(slot_name) {ours}")
            except psycopg.errors.ObjectInUse:
                return False
            return True

        wait_until(drop_slot, "the slot to go")
        with pytest.raises(tidegate.Error) as caught:
            db.wait(60)
        lines = str(caught.value).splitlines()
        assert lines[0] == f"PIPELINE_FAILED: slot {slot} is gone from PostgreSQL at 127.0.0.1:{server.port}/{shop}"
        assert lines[1].startswith("  detail: it was dropped; the changes since ")
        assert lines[1].endswith(" are lost to orders and changes")
        assert lines[2] == (
            "  hint: DROP and CREATE orders and changes again: a table is then read as a whole, events go on from now"
        )


def test_a_temporary_folder_leaves_nothing_at_the_server(
    spark: SparkSession, server: Postgres, shop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise an orphaned slot would make the server retain its WAL forever."""
    slots = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    with tidegate.connect(spark=spark) as db:
        db.sql(f"CREATE SOURCE changes FROM POSTGRES (url = '{server.url(shop)}', tables = 'orders')")
        db.step()
        assert len(fetch(server, shop, slots)) == 1
    assert fetch(server, shop, slots) == fetch(server, shop, "SELECT pubname FROM pg_publication") == []
    with tidegate.connect(spark=spark) as db:
        db.sql(f"CREATE SOURCE changes FROM POSTGRES (url = '{server.url(shop, 'wrong')}', tables = 'orders')")
        with pytest.raises(tidegate.Error, match="password authentication failed"):
            db.step()
    assert "stays there" not in caplog.text


def test_an_unexpected_error_of_a_capture_ends_the_pipeline(
    spark: SparkSession, tmp_path: Path, server: Postgres, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidegate.connect(tmp_path / "db", spark=spark) as db:
        db.sql(f"CREATE SOURCE changes FROM POSTGRES (url = '{server.url(shop)}', tables = 'orders')")
        monkeypatch.setattr(PostgresChanges, "capture", lambda *_: Broken())
        with pytest.raises(tidegate.Error) as caught:
            db.start()
            db.wait(30)
    assert str(caught.value) == (
        "PIPELINE_FAILED: the capture of changes failed: ZeroDivisionError: by zero\n"
        "  hint: nothing is lost: start again, and report it if it comes again"
    )


class Broken(Capture):
    def catch_up(self, intake: object) -> None:
        raise ZeroDivisionError("by zero")

    def follow(self, intake: object) -> None:
        raise ZeroDivisionError("by zero")
