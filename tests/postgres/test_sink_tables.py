"""The tables of `INTO POSTGRES`: types, requirements for existing tables, privileges, and options."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.postgres.sinks import KEY, Shop, build_sink, changes, one
from tests.servers.postgres import Postgres
from tidegate.core.schema import Column, Schema
from tidegate.errors import Error


@pytest.fixture
def shop(postgres: Postgres, database: str) -> Iterator[Shop]:
    created = Shop(postgres, database)
    yield created
    created.close()


TYPES: tuple[tuple[str, str, Any, Any], ...] = (
    ("boolean", "boolean", True, True),
    ("tinyint", "smallint", -128, -128),
    ("smallint", "smallint", 32767, 32767),
    ("int", "integer", -(2**31), -(2**31)),
    ("bigint", "bigint", 2**63 - 1, 2**63 - 1),
    ("float", "real", 0.5, 0.5),
    ("double", "double precision", 0.1, 0.1),
    ("decimal(20,10)", "numeric(20,10)", Decimal("-0.0000000001"), Decimal("-0.0000000001")),
    ("string", "text", 'a\tb\n\r\\N "ü"', 'a\tb\n\r\\N "ü"'),
    ("binary", "bytea", b"\x00\\\xff", b"\x00\\\xff"),
    ("date", "date", dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    ("time", "time without time zone", dt.time(23, 59, 59, 999_999), dt.time(23, 59, 59, 999_999)),
    (
        "timestamp",
        "timestamp with time zone",
        dt.datetime(1969, 12, 31, 23, 0, 0, 1, dt.UTC),
        dt.datetime(1969, 12, 31, 23, 0, 0, 1, dt.UTC),
    ),
    ("timestamp_ntz", "timestamp without time zone", dt.datetime(2024, 5, 1, 12), dt.datetime(2024, 5, 1, 12)),
    ("interval day to second", "interval", dt.timedelta(-1, 5, 7), dt.timedelta(-1, 5, 7)),
    ("array<int>", "integer[]", [1, None], [1, None]),
    ("array<string>", "text[]", ['a,"b"\\', "NULL", None, ""], ['a,"b"\\', "NULL", None, ""]),
    ("array<binary>", "bytea[]", [b"\x00\xff"], [b"\x00\xff"]),
    ("array<array<int>>", "jsonb", [[1], [2, 3]], [[1], [2, 3]]),
    ("struct<a:int,b:timestamp>", "jsonb", {"a": 1, "b": None}, {"a": 1, "b": None}),
    ("map<string,double>", "jsonb", [("x", 1.5)], {"x": 1.5}),
)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_values_of_every_type_arrive(shop: Shop, mode: str) -> None:
    columns: Schema = (Column("id", "int"), *(Column(f"c{i}", type_) for i, (type_, *_) in enumerate(TYPES)))
    sink = shop.open_sink(("id",) if mode == "upsert" else (), columns)
    values, nothing = [value for _, _, value, _ in TYPES], [None] * len(TYPES)
    sink.write(1, changes(1, ("+I", 1, 1, *values), ("+I", 1, 2, *nothing), columns=columns))
    assert shop.rows() == [(1, *(stored for *_, stored in TYPES)), (2, *nothing)]
    assert list(shop.types().values()) == ["integer", *(sql_type for _, sql_type, *_ in TYPES)]


def test_nan_and_infinity_arrive(shop: Shop) -> None:
    columns: Schema = (Column("n", "double"),)
    shop.open_sink(columns=columns).write(
        1, changes(1, *(("+I", 1, value) for value in (float("inf"), float("nan"), -0.0)), columns=columns)
    )
    assert sorted(shop.rows("SELECT n::text FROM revenue")) == [("-0",), ("Infinity",), ("NaN",)]


def test_a_matching_table_is_used_unchanged(shop: Shop) -> None:
    shop.run(
        "CREATE TYPE thing AS ENUM ('pen', 'ink')",
        "CREATE TABLE revenue (id serial, \"Item\" thing PRIMARY KEY, total numeric, note text DEFAULT 'new')",
    )
    sink = shop.open_sink(KEY)
    sink.write(1, one(1))
    sink.write(2, one(2))
    assert shop.rows('SELECT "Item"::text, total, note FROM revenue') == [("pen", Decimal(2), "new")]


@pytest.mark.parametrize(
    ("columns", "mode", "message", "fix"),
    [
        (
            "item text PRIMARY KEY, total integer",
            "upsert",
            "column total of table public.revenue is integer, which does not hold every BIGINT of total",
            'ALTER TABLE "public"."revenue" ALTER COLUMN "total" TYPE bigint USING "total"::bigint',
        ),
        (
            "item text PRIMARY KEY, total text",
            "upsert",
            "column total of table public.revenue is text, which does not hold every BIGINT of total",
            'ALTER TABLE "public"."revenue" ALTER COLUMN "total" TYPE bigint USING "total"::bigint',
        ),
        (
            "item text PRIMARY KEY",
            "upsert",
            "table public.revenue has no column total",
            'ALTER TABLE "public"."revenue" ADD COLUMN "total" bigint',
        ),
        (
            "item text, total bigint",
            "upsert",
            "table public.revenue has no unique index on item, the key of the view",
            'CREATE UNIQUE INDEX ON "public"."revenue" ("item") NULLS NOT DISTINCT',
        ),
        (
            "item text, total bigint",
            "changelog",
            "table public.revenue has no column op",
            'ALTER TABLE "public"."revenue" ADD COLUMN "op" text',
        ),
    ],
)
def test_the_error_for_a_table_that_does_not_fit_has_the_fix(
    shop: Shop, columns: str, mode: str, message: str, fix: str
) -> None:
    shop.run(f"CREATE TABLE revenue ({columns})")
    with pytest.raises(Error) as caught:
        shop.open_sink(KEY, mode=mode)
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("INVALID_OPTION", message, fix)
    shop.run(fix)
    if mode == "upsert":
        shop.open_sink(KEY).write(1, one(1))
        assert shop.rows() == [("pen", 1)]


@pytest.mark.parametrize(
    ("columns", "message", "hint"),
    [
        (
            "item text, total bigint, note text NOT NULL",
            "column note of table public.revenue is NOT NULL, and the sink has no values for it",
            'ALTER TABLE "public"."revenue" ALTER COLUMN "note" DROP NOT NULL, or SET DEFAULT ...',
        ),
        (
            "item text, total bigint GENERATED ALWAYS AS IDENTITY",
            "column total of table public.revenue is filled by PostgreSQL itself",
            'leave total out of the view, or ALTER TABLE "public"."revenue" ALTER COLUMN "total" DROP EXPRESSION, or'
            " DROP IDENTITY",
        ),
    ],
)
def test_columns_that_cannot_be_written(shop: Shop, columns: str, message: str, hint: str) -> None:
    shop.run(f"CREATE TABLE revenue ({columns})")
    assert shop.open_error() == f"INVALID_OPTION: {message}\n  hint: {hint}"


@pytest.mark.parametrize(
    ("type_", "column_type", "fits"),
    [
        ("decimal(10,2)", "numeric(12,2)", True),
        ("decimal(10,2)", "numeric(12,4)", True),
        ("decimal(10,2)", "numeric(10,4)", False),
        ("decimal(10,2)", "numeric", True),
        ("bigint", "numeric(10,0)", False),
        ("string", "varchar(20)", True),
        ("string", "uuid", True),
        ("string", "integer", False),
        ("timestamp", "timestamp", False),
        ("array<string>", "varchar(5)[]", True),
        ("struct<a:int>", "json", True),
    ],
)
def test_which_column_types_hold_a_type(shop: Shop, type_: str, column_type: str, fits: bool) -> None:
    shop.run(f"CREATE TABLE revenue (v {column_type})")
    columns: Schema = (Column("v", type_),)
    if fits:
        shop.open_sink(columns=columns).write(1, changes(1, ("+I", 1, None), columns=columns))
        assert shop.rows("SELECT count(*) FROM revenue") == [(1,)]
    else:
        assert "which does not hold every" in shop.open_error(columns=columns)


def test_create_false_creates_no_table(shop: Shop) -> None:
    shop.open_sink(table="public.other")
    assert shop.open_error(key=KEY, create="false") == (
        'INVALID_OPTION: there is no table "public"."revenue"\n'
        '  hint: CREATE TABLE "public"."revenue" ("item" text, "total" bigint, UNIQUE NULLS NOT DISTINCT ("item"))'
    )


def test_a_missing_schema_is_an_error(shop: Shop) -> None:
    assert shop.open_error(table="sales.revenue") == (
        f'PIPELINE_FAILED: sink out cannot be written to PostgreSQL at {shop.place}: schema "sales" does not exist\n'
        "  hint: create the schema first, or choose another table"
    )


def test_a_dropped_table_is_not_recreated_without_its_rows(shop: Shop) -> None:
    sink = shop.open_sink()
    sink.write(7, one(7))
    shop.run("DROP TABLE revenue")
    with pytest.raises(Error, match=r'relation "public\.revenue" does not exist'):
        sink.write(8, one(8))
    with pytest.raises(Error) as caught:
        sink.write(8, one(8))
    assert str(caught.value) == (
        "PIPELINE_FAILED: table public.revenue is gone, and with it the rows of the steps up to 7\n"
        "  hint: bring it back, or write it anew: DROP SINK out, then CREATE SINK"
    )


@pytest.fixture
def clerk(shop: Shop) -> Iterator[str]:
    """A user without privileges."""
    name = f"clerk_{shop.database}"
    shop.run(f"CREATE USER {name} PASSWORD 'pw'")
    yield name
    shop.close()
    shop.run(f"DROP OWNED BY {name}", f"DROP USER {name}")


def test_the_error_for_missing_privileges_has_the_grant(shop: Shop, clerk: str) -> None:
    url = f"postgresql://{clerk}:pw@{shop.place}"
    assert shop.open_error(key=KEY, url=url) == (
        f"PIPELINE_FAILED: sink out cannot be written to PostgreSQL at {shop.place}: permission denied for schema"
        ' public\n  hint: as a user who may: CREATE TABLE "public"."tidegate_steps" (owner text PRIMARY KEY, step'
        " bigint NOT NULL)"
    )
    shop.open_sink(KEY).write(1, one(1))
    shop.run(f"GRANT SELECT, INSERT, UPDATE ON tidegate_steps TO {clerk}")
    with pytest.raises(Error) as caught:
        shop.open_sink(KEY, url=url)
    assert (
        caught.value.message
        == f"user {clerk} has no right to SELECT, INSERT, UPDATE and DELETE in table public.revenue"
    )
    assert caught.value.hint == (
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON "public"."revenue" TO "{clerk}"; GRANT SELECT, INSERT, UPDATE ON'
        f' "public"."tidegate_steps" TO "{clerk}"'
    )
    shop.run(caught.value.hint)
    shop.open_sink(KEY, url=url).write(2, one(2))
    assert shop.rows() == [("pen", 2)]


def test_the_privilege_to_create_temporary_tables_is_required(shop: Shop, clerk: str) -> None:
    shop.open_sink(KEY)
    shop.run(
        f"REVOKE TEMPORARY ON DATABASE {shop.database} FROM PUBLIC",
        f"GRANT ALL ON revenue, tidegate_steps TO {clerk}",
    )
    url = f"postgresql://{clerk}:pw@{shop.place}"
    assert shop.open_error(key=KEY, url=url) == (
        f"PIPELINE_FAILED: sink out cannot be written to PostgreSQL at {shop.place}: permission denied to create"
        f' temporary tables in database "{shop.database}"\n'
        f'  hint: GRANT TEMPORARY ON DATABASE "{shop.database}" TO "{clerk}"'
    )


def test_a_value_that_does_not_fit_a_column_is_an_error(shop: Shop) -> None:
    shop.run("CREATE TABLE revenue (item varchar(3) PRIMARY KEY, total bigint)")
    sink = shop.open_sink(KEY)
    with pytest.raises(Error) as caught:
        sink.write(1, one(1, "pencil"))
    assert str(caught.value) == (
        f"PIPELINE_FAILED: step 1 cannot be written to PostgreSQL at {shop.place}: value too long for type character"
        " varying(3)\n"
        '  detail: COPY tidegate_staged, line 1, column item: "pencil"\n'
        "  hint: change the view or the table: the sink goes on by itself"
    )
    shop.run("ALTER TABLE revenue ALTER COLUMN item TYPE text")
    sink.write(1, one(1, "pencil"))
    assert shop.rows() == [("pencil", 1)]


URL = "postgresql://h/shop"


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        (
            {"url": URL},
            (),
            "MISSING_OPTION: POSTGRES needs option 'table'\n  hint: add table = 'totals'",
        ),
        (
            {"url": URL, "table": "t", "mode": "upsert"},
            (),
            "SINK_CANNOT_TAKE: POSTGRES in mode 'upsert' replaces rows by their key, and totals shows none\n"
            "  hint: GROUP BY a key and SELECT it, or choose another mode",
        ),
        (
            {"url": URL, "table": "t", "mode": "replace"},
            KEY,
            "INVALID_OPTION: option 'mode' cannot be 'replace'\n  hint: expected 'upsert', 'append' or 'changelog'",
        ),
        (
            {"url": URL, "table": "a.b.c"},
            KEY,
            "INVALID_OPTION: option 'table' cannot be 'a.b.c'\n"
            "  hint: expected a name such as 'revenue' or 'sales.revenue'",
        ),
        (
            {"url": URL, "table": "t", "steps_table": "t"},
            KEY,
            "INVALID_OPTION: t cannot hold both the rows and the numbers of steps\n  hint: choose another table",
        ),
    ],
)
def test_invalid_options(options: dict[str, str], key: tuple[str, ...], message: str) -> None:
    with pytest.raises(Error) as caught:
        build_sink(options, key=key)
    assert str(caught.value) == message


def test_a_changelog_cannot_have_a_column_named_step() -> None:
    with pytest.raises(Error) as caught:
        build_sink({"url": URL, "table": "t", "mode": "changelog"}, (Column("Step", "int"),))
    assert str(caught.value) == (
        "INVALID_OPTION: mode 'changelog' adds the columns op, weight and step, but there is a column Step already\n"
        "  hint: rename Step in a view on it"
    )


def test_formats_are_rejected() -> None:
    with pytest.raises(Error) as caught:
        build_sink({"url": URL, "table": "t"}, format="json")
    assert str(caught.value) == "UNKNOWN_FORMAT: POSTGRES has no formats\n  hint: leave FORMAT out"
