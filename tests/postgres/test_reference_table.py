"""Reference tables: `CREATE TABLE ... FROM POSTGRES`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.servers.postgres import PASSWORD, Postgres

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"


def rows(db: tidegate.Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(db.query(query).rows(), key=repr)


def example() -> str:
    """The first statements of the page about PostgreSQL."""
    match = re.search(r"^```sql at a server\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def test_a_lookup_table_follows_its_refreshes(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, database: str
) -> None:
    postgres.execute(
        database,
        """CREATE TABLE customers (id bigint PRIMARY KEY, name text, credit numeric, closed boolean DEFAULT false);
        INSERT INTO customers VALUES (1, 'ann', 10), (2, 'bob', 20.5), (3, 'cid', 'NaN');
        INSERT INTO customers VALUES (4, 'dan', 1, true), (5, 'eve', 1, false)""",
    )
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        db.sql(example().replace("app:secret@db.example:5432/shop", postgres.url(database).partition("//")[2]))
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(credit) AS credit FROM customers")
        assert db.sql("SHOW TABLES").rows() == [("customers", "id", 0, "POSTGRES", False)]
        db.sql("INSERT INTO orders VALUES (100, 1), (101, 2), (102, 3)")
        db.step()
        assert db.sql("SHOW TABLES").rows() == [("customers", "id", 3, "POSTGRES", True)]
        assert rows(db, "SELECT * FROM named") == [(100, "ann"), (101, "bob"), (102, None)]
        assert [(n, str(credit)) for n, credit in rows(db, "SELECT * FROM total")] == [(3, "31.50")]
        assert rows(db, "SELECT relation, code, message, row FROM system.errors") == [
            (
                "customers",
                "MALFORMED_ROW",
                "credit: 'NaN' is not a DECIMAL(10,2)",
                '{"id":3,"name":"cid","credit":"NaN"}',
            )
        ]
        assert PASSWORD not in str(db.sql("SHOW CREATE TABLE customers").rows())

        postgres.execute(
            database,
            """UPDATE customers SET name = 'ann maria' WHERE id = 1;
            UPDATE customers SET credit = 5 WHERE id = 3; DELETE FROM customers WHERE id = 2;
            UPDATE customers SET closed = false WHERE id = 4; UPDATE customers SET credit = 'NaN' WHERE id = 5""",
        )
        db.sql("REFRESH TABLE customers; INSERT INTO orders VALUES (103, 1), (104, 2), (105, 5), (106, 3), (107, 4)")
        db.step()
        assert rows(db, "SELECT id, name FROM customers") == [(1, "ann maria"), (3, "cid"), (4, "dan")]
        assert rows(db, "SELECT * FROM named")[3:] == [
            (103, "ann maria"),
            (104, None),
            (105, None),
            (106, "cid"),
            (107, "dan"),
        ]
        assert [(n, str(credit)) for n, credit in rows(db, "SELECT * FROM total")] == [(3, "16.00")]

        with pytest.raises(tidegate.Error) as caught:
            db.sql("CREATE SOURCE c (id BIGINT) FROM POSTGRES (url = 'postgresql://localhost/shop', table = 'c')")
        assert (caught.value.code, caught.value.hint) == (
            "NOT_SUPPORTED",
            "CREATE TABLE c (..., PRIMARY KEY (...)) FROM POSTGRES (...)",
        )
        postgres.execute(database, "DROP TABLE customers")
        with pytest.raises(tidegate.Error) as caught:
            db.sql("REFRESH TABLE customers")
        assert caught.value.message.endswith('relation "customers" does not exist')
        assert rows(db, "SELECT id, name FROM customers") == [(1, "ann maria"), (3, "cid"), (4, "dan")]
