"""Reading tables and queries of a real server, and the errors if that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.helpers import content_of, rows, source
from tests.servers.postgres import PASSWORD, Postgres, postgres_server
from tests.servers.processes import free_port
from tidegate.connectors.postgres.source import PostgresTable
from tidegate.errors import Error

COLUMNS = "id bigint, name string"


@pytest.fixture(scope="module")
def shop(postgres: Postgres) -> str:
    name = postgres.create_database("shop")
    postgres.execute(
        name,
        """CREATE TABLE customers (id bigint PRIMARY KEY, "Name" text, since date);
        INSERT INTO customers VALUES (1, 'ann', '2020-01-01'), (2, 'bob', '2021-01-01');
        CREATE SCHEMA "Big Corp";
        CREATE TABLE "Big Corp"."Order; DROP" AS SELECT 7 AS id, 'seven' AS name;
        CREATE ROLE guest LOGIN PASSWORD 'guest-word'""",
    )
    return name


def error_of(table: PostgresTable) -> str:
    with pytest.raises(Error) as caught:
        content_of(table)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_table_is_read_by_name(postgres: Postgres, shop: str) -> None:
    assert rows(source(COLUMNS, url=postgres.url(shop), table="customers")) == [(1, "ann"), (2, "bob")]
    assert rows(source("name string, id int", url=postgres.url(shop), table="public.customers")) == [
        ("ann", 1),
        ("bob", 2),
    ]
    assert rows(source(COLUMNS, url=postgres.url(shop), table="Big Corp.Order; DROP")) == [(7, "seven")]


def test_a_database_is_addressed_by_separate_options(postgres: Postgres, shop: str) -> None:
    parts = {"host": "127.0.0.1", "port": str(postgres.port), "database": shop, "user": "tidegate"}
    assert len(rows(source(COLUMNS, password=PASSWORD, table="customers", **parts))) == 2


def test_a_query(postgres: Postgres, shop: str) -> None:
    query = """
        WITH old AS (SELECT * FROM customers WHERE since < '2021-01-01' AND "Name" LIKE '%nn')
        SELECT id, upper("Name") AS name, 'extra' AS extra FROM old; -- the old ones
    """
    assert rows(source(COLUMNS, url=postgres.url(shop), query=query)) == [(1, "ANN")]


def test_an_exact_column_name_wins_over_another_case(postgres: Postgres, shop: str) -> None:
    query = """SELECT 1 AS id, 'upper' AS "NAME", 'lower' AS name"""
    assert rows(source(COLUMNS, url=postgres.url(shop), query=query)) == [(1, "lower")]


def test_the_transaction_is_read_only_and_repeatable(postgres: Postgres, shop: str) -> None:
    query = """SELECT 1 AS id, current_setting('transaction_read_only') || ' '
        || current_setting('transaction_isolation') || ' ' || current_setting('application_name') AS name"""
    assert rows(source(COLUMNS, url=postgres.url(shop), query=query)) == [(1, "on repeatable read tidegate")]
    postgres.execute(shop, "CREATE SEQUENCE numbers")
    error = error_of(source(COLUMNS, url=postgres.url(shop), query="SELECT 1 AS id, nextval('numbers') AS name"))
    assert error.splitlines()[0] == (
        f"PIPELINE_FAILED: customers cannot be read from its query at 127.0.0.1:{postgres.port}/{shop}:"
        " cannot execute nextval() in a read-only transaction"
    )


def test_errors_of_the_server_are_shown(postgres: Postgres, shop: str) -> None:
    where, url = f"127.0.0.1:{postgres.port}/{shop}", postgres.url(shop)
    fix = "correct it: CREATE OR REPLACE TABLE customers ..., or change the database, then start again"
    assert error_of(source(COLUMNS, url=url, query="SELECT id,\n  nam AS name\nFROM customers c")) == (
        f'PIPELINE_FAILED: customers cannot be read from its query at {where}: column "nam" does not exist\n'
        "  detail: line 2:    nam AS name\n"
        "                     ^\n"
        f"  hint: {fix}"
    )
    assert error_of(source(COLUMNS, url=url, query="SELECT id, name FROM customers c WHERE")) == (
        f"PIPELINE_FAILED: customers cannot be read from its query at {where}: syntax error at end of input\n"
        "  detail: line 1:  SELECT id, name FROM customers c WHERE\n"
        "                                                         ^\n"
        f"  hint: {fix}"
    )
    assert error_of(source(COLUMNS, url=url, query="SELECT id, 1 / (id - 2) AS name FROM customers")) == (
        f"PIPELINE_FAILED: customers cannot be read from its query at {where}: division by zero\n  hint: {fix}"
    )
    assert error_of(source(COLUMNS, url=url, query="SELECT 1 AS id; DROP TABLE customers")) == (
        f"PIPELINE_FAILED: customers cannot be read from its query at {where}:"
        f" cannot insert multiple commands into a prepared statement\n  hint: {fix}"
    )
    assert error_of(source(COLUMNS, url=url, table="sales.nope")) == (
        f"PIPELINE_FAILED: customers cannot be read from table sales.nope at {where}:"
        f' relation "sales.nope" does not exist\n  hint: {fix}'
    )
    guest = url.replace(f"tidegate:{PASSWORD}", "guest:guest-word")
    assert error_of(source(COLUMNS, url=guest, table="customers")) == (
        f"PIPELINE_FAILED: customers cannot be read from table customers at {where}:"
        f" permission denied for table customers\n  hint: {fix}"
    )


def test_missing_columns(postgres: Postgres, shop: str) -> None:
    url = postgres.url(shop)
    assert error_of(source("id bigint, nmae string", url=url, table="public.customers")) == (
        "PIPELINE_FAILED: table public.customers of customers has no column nmae\n"
        "  detail: its columns are id, Name, since\n"
        "  hint: did you mean Name?"
    )
    assert error_of(source("id bigint, email string", url=url, query='SELECT id, "Name" FROM customers')) == (
        "PIPELINE_FAILED: the query of customers has no column email\n"
        "  detail: its columns are id, Name\n"
        "  hint: leave email out of the columns of customers"
    )
    assert error_of(source("id bigint", url=url, query="SELECT a.id, b.id FROM customers a, customers b")) == (
        "PIPELINE_FAILED: the query of customers has several columns id\n"
        "  detail: its columns are id, id\n"
        "  hint: rename all but one of them in the query: SELECT ... AS id"
    )


def test_a_server_that_rejects_the_connection(postgres: Postgres, shop: str) -> None:
    hint = "check the user, the password and the name of the database, then start again"
    assert error_of(source(COLUMNS, url=postgres.url(shop, "wrong-word"), table="customers")) == (
        f"PIPELINE_FAILED: PostgreSQL at 127.0.0.1:{postgres.port}/{shop} rejected the connection:"
        f' password authentication failed for user "tidegate"\n  hint: {hint}'
    )
    assert error_of(source(COLUMNS, url=postgres.url("nowhere"), table="customers")) == (
        f"PIPELINE_FAILED: PostgreSQL at 127.0.0.1:{postgres.port}/nowhere rejected the connection:"
        f' database "nowhere" does not exist\n  hint: {hint}'
    )
    assert error_of(source(COLUMNS, url=f"{postgres.url(shop)}?sslmood=1", table="customers")) == (
        "INVALID_OPTION: option 'url' cannot be used: invalid URI query parameter: \"sslmood\"\n  hint: correct the url"
    )


def test_no_server() -> None:
    port = free_port()
    error = error_of(source(COLUMNS, url=f"postgresql://app:s3cret@127.0.0.1:{port}/shop", table="customers"))
    assert error.splitlines()[0] == f"PIPELINE_FAILED: no PostgreSQL server answers at 127.0.0.1:{port}/shop"
    assert "Connection refused" in error and "s3cret" not in error
    assert error.splitlines()[-1] == "  hint: check that it runs and that the address is right, then start again"


@pytest.mark.server
def test_a_server_that_ends_during_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.connectors.postgres import client

    monkeypatch.setattr(client, "BATCH", 10)
    with postgres_server(tmp_path) as server:
        table = source(COLUMNS, url=server.url(), query="SELECT n AS id, 'x' AS name FROM generate_series(1, 30) AS n")
        pieces = client.Reading.batches

        def kill_after_the_first(reading: client.Reading) -> object:
            for number, piece in enumerate(pieces(reading)):
                if number == 0:
                    server.kill()
                yield piece

        monkeypatch.setattr(client.Reading, "batches", kill_after_the_first)
        assert error_of(table).splitlines()[0] == (
            f"PIPELINE_FAILED: the connection to PostgreSQL at 127.0.0.1:{server.port}/postgres broke"
            " while customers was read"
        )
        server.start()
        monkeypatch.setattr(client.Reading, "batches", pieces)
        assert len(rows(table)) == 30
