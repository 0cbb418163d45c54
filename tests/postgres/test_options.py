"""The options of `FROM POSTGRES (...)`, and the errors for invalid ones."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest

from tests.postgres.helpers import rows, source
from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.options import Following, table_name
from tidegate.connectors.postgres.source import PostgresChanges, PostgresTable, build
from tidegate.core.options import Bag
from tidegate.errors import Error

URL = "postgresql://app:s3cret@db.example:5433/shop"
COLUMNS = "id bigint, name string"


def error_of(key: tuple[str, ...] = ("id",), format: str | None = None, columns: str = COLUMNS, **options: str) -> str:
    with pytest.raises(Error) as caught:
        source(columns, key, format, **options)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_an_address_is_a_url_or_separate_options() -> None:
    by_url = source(COLUMNS, url=URL, table="customers").server
    assert (by_url.place, by_url.url, by_url.password) == ("db.example:5433/shop", URL, "s3cret")
    parts = {"host": "db.example", "database": "shop", "user": "app", "password": "s3cret", "sslmode": "require"}
    by_parts = source(COLUMNS, table="customers", **parts).server
    assert by_parts.place == "db.example:5432/shop"
    assert dict(by_parts.settings) == {
        "connect_timeout": "10",
        "host": "db.example",
        "port": "5432",
        "dbname": "shop",
        "user": "app",
        "password": "s3cret",
        "sslmode": "require",
    }
    apart = {"url": "jdbc:postgresql://db.example/shop?connect_timeout=3", "username": "app", "password": "s3cret"}
    jdbc = source(COLUMNS, table="customers", **apart).server
    assert (jdbc.place, jdbc.url) == ("db.example/shop", "postgresql://db.example/shop?connect_timeout=3")
    assert dict(jdbc.settings) == {"user": "app", "password": "s3cret"}
    assert "s3cret" not in repr((by_url, by_parts, jdbc))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://app:s3cret@db.example/shop",
        "postgresql://app:s3cret/x@db.example/shop",
        "postgresql://app:x@s3cret@db.example/shop",
        "postgresql://app:s3cret%zz@db.example/shop",
        "postgresql://app:s3cret@db.example:port/shop",
    ],
)
def test_a_malformed_url_is_not_repeated_in_the_error(url: str) -> None:
    assert error_of(url=url, table="customers") == (
        "INVALID_OPTION: option 'url' is not the address of a PostgreSQL database\n"
        "  hint: expected 'postgresql://user:password@host:5432/database'; a password with other signs than letters and"
        " digits goes into password = '...'"
    )


def test_missing_and_conflicting_options() -> None:
    assert error_of(table="customers") == (
        "MISSING_OPTION: POSTGRES needs option 'url'\n  hint: add url = 'postgresql://user:password@host:5432/database'"
    )
    assert error_of(host="db.example", table="customers") == (
        "MISSING_OPTION: POSTGRES needs option 'database'\n  hint: add database = 'shop'"
    )
    assert error_of(url=URL) == (
        "MISSING_OPTION: POSTGRES needs option 'table'\n  hint: add table = 'schema.name', or query = 'SELECT ...'"
    )
    assert error_of(url=URL, table="t", query="SELECT 1") == (
        "INVALID_OPTION: query and table exclude each other\n  hint: leave one out"
    )
    assert (
        error_of(url=URL, query=" ; ") == "INVALID_OPTION: option 'query' is empty\n  hint: write query = 'SELECT ...'"
    )
    assert error_of(url=URL, host="db.example", table="t") == (
        "INVALID_OPTION: url says where the database is already\n  hint: leave out host, port and database"
    )
    assert error_of(url=URL, password="other", table="t") == (
        "INVALID_OPTION: url has a user or a password too\n  hint: leave one out"
    )
    assert error_of(url="postgresql://db.example/shop?user=app&password=s3cret", table="t") == (
        "INVALID_OPTION: the password stands among the parameters of url, where it would be shown\n"
        "  hint: write password = '...', or 'postgresql://user:password@host:5432/database'"
    )
    assert error_of(url=URL, tabel="t").startswith("MISSING_OPTION: POSTGRES needs option 'table'")
    assert error_of(url=URL, table="t", refersh="manual").startswith("UNKNOWN_OPTION: POSTGRES has no option 'refersh'")


def test_a_table_is_followed_unless_it_is_polled() -> None:
    for options in ({}, {"refresh": "cdc"}, {"refresh": "cdc", "snapshot": "initial"}):
        followed = source(COLUMNS, url=URL, table="sales.t", **options)
        assert isinstance(followed, PostgresChanges)
        assert followed.following == Following((("sales", "t"),), None, None, True, 1 << 30)
        assert followed.session == "POSTGRES db.example:5433/shop"
    with_names = source(COLUMNS, url=URL, table="t", publication="Pub", slot="s_1", max_slot_lag="64mb")
    assert with_names.following == Following((("t",),), "Pub", "s_1", True, 64 << 20)
    assert with_names.session == "POSTGRES db.example:5433/shop Pub s_1"
    assert error_of(url=URL, table="t", slot="No-Good") == (
        "INVALID_OPTION: option 'slot' cannot be 'No-Good'\n"
        "  hint: expected small letters, digits and _, at most 63 of them"
    )
    assert error_of(url=URL, table="t", snapshot="never") == (
        "INVALID_OPTION: option 'snapshot' cannot be 'never'\n  hint: expected 'initial'"
    )
    assert error_of(url=URL, query="SELECT 1", refresh="cdc") == (
        "INVALID_OPTION: the changes of a query cannot be followed\n"
        "  hint: write table = '...', or leave out refresh = 'cdc'"
    )
    assert error_of(url=URL, table="t", refresh="manual", slot="s") == (
        "INVALID_OPTION: option 'slot' is for a table whose changes are followed\n"
        "  hint: leave it out, or follow a table: table = '...', refresh = 'cdc', slot = '...'"
    )
    assert error_of(url=URL, table="t", refresh="cdc", refresh_interval="1m") == (
        "INVALID_OPTION: refresh = 'cdc' and refresh_interval contradict each other\n  hint: leave out one of them"
    )


def events(**options: str) -> PostgresChanges:
    bag = Bag("POSTGRES", [(name, value, None) for name, value in options.items()])
    changes = build(SourceSpec("POSTGRES", "shop", (), options), bag)
    bag.finish()
    assert isinstance(changes, PostgresChanges)
    return changes


def test_options_of_event_sources() -> None:
    some = events(url=URL, tables='orders, sales.items, "a, b".c')
    tables = (("orders",), ("sales", "items"), ("a, b", "c"))
    assert some.following == Following(tables, None, None, False, 1 << 30)
    every = events(url=URL, table="*", snapshot="initial").following
    assert every == Following((), None, None, True, 1 << 30)
    for options, message in (
        (
            {},
            "MISSING_OPTION: POSTGRES needs option 'tables'\n"
            "  hint: add tables = 'orders, sales.items', or tables = '*' for all of them",
        ),
        (
            {"tables": "orders,"},
            "INVALID_OPTION: option 'tables' cannot be 'orders,'\n"
            "  hint: expected names such as 'orders, sales.items', or '*' for all tables",
        ),
        (
            {"tables": "orders", "snapshot": "always"},
            "INVALID_OPTION: option 'snapshot' cannot be 'always'\n  hint: expected 'initial' or 'never'",
        ),
    ):
        with pytest.raises(Error) as caught:
            events(url=URL, **options)
        assert str(caught.value) == message


def test_refresh_options() -> None:
    manual = source(COLUMNS, url=URL, query="SELECT 1")
    assert isinstance(manual, PostgresTable) and manual.poll_interval_us is None
    assert source(COLUMNS, url=URL, table="t", refresh="manual").poll_interval_us is None
    assert source(COLUMNS, url=URL, table="t", refresh="snapshot_only").poll_interval_us is None
    assert source(COLUMNS, url=URL, table="t", refresh_interval="1m30s").poll_interval_us == 90_000_000
    periodic = source(COLUMNS, url=URL, table="t", refresh="periodic", refresh_every="500ms")
    assert periodic.options.refresh_interval == timedelta(milliseconds=500)
    assert error_of(url=URL, table="t", refresh="periodic") == (
        "MISSING_OPTION: POSTGRES needs option 'refresh_interval'\n  hint: add refresh_interval = '1m'"
    )
    assert error_of(url=URL, table="t", refresh="manual", refresh_interval="1m") == (
        "INVALID_OPTION: refresh = 'manual' and refresh_interval contradict each other\n  hint: leave out one of them"
    )
    for wrong in ("0s", "soon"):
        assert error_of(url=URL, table="t", refresh_interval=wrong) == (
            f"INVALID_OPTION: option 'refresh_interval' cannot be '{wrong}'\n"
            "  hint: expected a duration above zero, such as '10s', '5 min' or '1h30m'"
        )
    assert error_of(url=URL, table="t", refresh="never") == (
        "INVALID_OPTION: option 'refresh' cannot be 'never'\n"
        "  hint: expected 'cdc', 'manual', 'snapshot_only' or 'periodic'"
    )


def test_only_tables_with_a_key_and_types_that_postgres_has() -> None:
    assert error_of(key=(), url=URL, table="t") == (
        "NOT_SUPPORTED: customers has no key, so its rows could not be followed from one reading to the next\n"
        "  hint: CREATE TABLE customers (..., PRIMARY KEY (...)) FROM POSTGRES (...)"
    )
    assert error_of(format="json", url=URL, table="t") == (
        "UNKNOWN_FORMAT: POSTGRES has no formats\n  hint: leave FORMAT out"
    )
    assert error_of(columns="id bigint, tags map<string,int>", url=URL, table="t") == (
        "NOT_SUPPORTED: tags is MAP<STRING,INT>, and PostgreSQL has no such values\n"
        "  hint: declare tags STRING, and take it apart in a view: from_json(tags, '...')"
    )


def test_names_of_tables() -> None:
    assert table_name("customers") == ("customers",)
    assert table_name("sales.Customers") == ("sales", "Customers")
    assert table_name('"my.schema"."say ""hi"""') == ("my.schema", 'say "hi"')
    assert table_name("order items") == ("order items",)
    for wrong in ("", "a.", ".a", "a.b.c", 'a"b"', "a..b", '""'):
        with pytest.raises(ValueError):
            table_name(wrong)
    assert error_of(url=URL, table="a.b.c") == (
        "INVALID_OPTION: option 'table' cannot be 'a.b.c'\n"
        "  hint: expected a name such as 'customers' or 'sales.customers'"
    )


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Error) as caught:
        rows(source(COLUMNS, url=URL, table="t", refresh="manual"))
    assert str(caught.value) == (
        "CONNECTOR_JARS: connector POSTGRES needs the Python package psycopg\n  hint: pip install 'tidegate[postgres]'"
    )
