"""The statements of docs/postgres.md, run against a real server."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests.servers.postgres import Postgres

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
_BLOCK = re.compile(r"^```sql at a server\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_changes_and_events(spark: SparkSession, tmp_path: Path, postgres: Postgres, database: str) -> None:
    postgres.execute(
        database,
        """CREATE SCHEMA sales; CREATE TABLE sales.items (id int PRIMARY KEY, v text);
        CREATE TABLE orders (id int PRIMARY KEY, region text, amount numeric);
        CREATE TABLE outbox (id bigserial PRIMARY KEY, channel text, payload jsonb);
        INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 5.50)""",
    )
    address = postgres.url(database).partition("//")[2]
    _, changes, events, notify, outbox = (
        text.replace("app:secret@db.example:5432/shop", address)
        for text in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    )
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        for statements in (changes, events, notify, outbox):
            db.sql(statements)
        db.step()
        assert sorted(db.query("SELECT * FROM revenue").rows()) == [
            ("north", Decimal("10.00")),
            ("south", Decimal("5.50")),
        ]
        postgres.execute(
            database,
            """INSERT INTO orders VALUES (3, 'north', 1); UPDATE orders SET region = 'west' WHERE id = 2;
            DELETE FROM orders WHERE id = 1; INSERT INTO sales.items VALUES (7, 'x');
            INSERT INTO outbox (channel, payload) VALUES ('mails', '{"to": "ann"}')""",
        )
        db.step()
        assert sorted(db.query("SELECT * FROM revenue").rows()) == [
            ("north", Decimal("1.00")),
            ("west", Decimal("5.50")),
        ]
        bus_events = db.query("SELECT source, channel, operation FROM pgcdc_events").rows()
        assert sorted(bus_events) == [
            ("sent", "mails", "INSERT"),
            ("shop", "pgcdc:orders", "DELETE"),
            ("shop", "pgcdc:orders", "INSERT"),
            ("shop", "pgcdc:orders", "UPDATE"),
            ("shop", "pgcdc:sales.items", "INSERT"),
        ]
        postgres.execute(database, "TRUNCATE orders")
        db.step()
        assert db.query("SELECT * FROM revenue").rows() == []
        db.sql("DROP TABLE orders CASCADE; DROP SOURCE shop CASCADE")
    with postgres.connect(database) as connection:
        slots = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
        assert connection.execute(slots).fetchall() == []
        assert connection.execute("SELECT pubname FROM pg_publication").fetchall() == []
