"""Values of every type, read from a real server."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.postgres.helpers import content_of, errors, rows, source
from tests.servers.postgres import Postgres
from tidegate.connectors.postgres import client
from tidegate.connectors.postgres.values import array, array_elements


@pytest.mark.parametrize(
    ("sql", "type_", "expected"),
    [
        ("42::int", "bigint", 42),
        ("42.00::numeric", "bigint", 42),
        ("1e3::float8", "int", 1000),
        ("9223372036854775807", "bigint", 2**63 - 1),
        ("19.995::numeric", "decimal(10,2)", Decimal("20.00")),
        ("-19.5::numeric(10,1)", "decimal(10,2)", Decimal("-19.50")),
        ("0.1::float8", "decimal(10,2)", Decimal("0.10")),
        ("1.25::numeric", "double", 1.25),
        ("0.1::float8 + 0.2::float8", "double", 0.1 + 0.2),
        ("'Infinity'::float8", "double", float("inf")),
        ("'-Infinity'::float4", "float", float("-inf")),
        ("true", "boolean", True),
        ("false", "string", "false"),
        ("'2024-05-01 12:00:03.25+02'::timestamptz", "timestamp", datetime(2024, 5, 1, 10, 0, 3, 250_000, UTC)),
        ("'2024-05-01 12:00:03.25+02'::timestamptz", "timestamp_ntz", datetime(2024, 5, 1, 10, 0, 3, 250_000)),
        ("'2024-05-01 12:00:03'::timestamp", "timestamp_ntz", datetime(2024, 5, 1, 12, 0, 3)),
        ("'2024-05-01 12:00:03'::timestamp", "timestamp", datetime(2024, 5, 1, 12, 0, 3, tzinfo=UTC)),
        ("'2024-05-01T12:00:03+02:00'::text", "timestamp", datetime(2024, 5, 1, 10, 0, 3, tzinfo=UTC)),
        ("'2024-05-01'::date", "timestamp", datetime(2024, 5, 1, tzinfo=UTC)),
        ("'2024-05-01'::date", "date", date(2024, 5, 1)),
        ("'2024-05-01 00:00:00'::timestamp", "date", date(2024, 5, 1)),
        ("'12:30:01.5'::time", "time", time(12, 30, 1, 500_000)),
        ("'3 days 04:05:06.5'::interval", "interval day to second", timedelta(3, 14706, 500_000)),
        ("'-04:00'::interval", "interval day to second", timedelta(hours=-4)),
        ("'1 mon 2 days'::interval", "string", "1 mon 2 days"),
        ("'naïve \"text\"'::varchar(20)", "string", 'naïve "text"'),
        ("'ab'::char(5)", "string", "ab"),
        ("''::text", "string", ""),
        ("'6f1c2f2e-8a0b-4c5e-9d53-0d8b7a3a1c11'::uuid", "string", "6f1c2f2e-8a0b-4c5e-9d53-0d8b7a3a1c11"),
        ("'{\"a\": [1, 2]}'::jsonb", "string", '{"a": [1, 2]}'),
        ("'{\"a\":1}'::json", "string", '{"a":1}'),
        ("'glad'::mood", "string", "glad"),
        ("12.50::numeric", "string", "12.50"),
        ("'\\x00ff'::bytea", "binary", b"\x00\xff"),
        ("ARRAY[1, NULL, 3]", "array<int>", [1, None, 3]),
        ("'[2:3]={7,8}'::int[]", "array<bigint>", [7, 8]),
        ("ARRAY['a,b', 'say \"hi\"', 'NULL', '', NULL, 'back\\slash']", "array<string>",
         ["a,b", 'say "hi"', "NULL", "", None, "back\\slash"]),
        ("ARRAY[[1, 2], [3, 4]]", "array<array<int>>", [[1, 2], [3, 4]]),
        ("ARRAY[]::text[]", "array<string>", []),
        ("ARRAY[true, false]", "array<boolean>", [True, False]),
        ("ARRAY['2024-05-01 12:00+02'::timestamptz]", "array<timestamp>", [datetime(2024, 5, 1, 10, tzinfo=UTC)]),
        ("ARRAY['\\x6869'::bytea]", "array<binary>", [b"hi"]),
        ("NULL::int", "array<int>", None),
        ("NULL::timestamptz", "timestamp", None),
    ],
)  # fmt: skip
def test_values(postgres: Postgres, moods: str, sql: str, type_: str, expected: object) -> None:
    table = source(f"id int, x {type_}", url=postgres.url(moods), query=f"SELECT 1 AS id, {sql} AS x")
    assert rows(table) == [(1, expected)]


@pytest.fixture(scope="module")
def moods(postgres: Postgres) -> str:
    name = postgres.create_database("moods")
    postgres.execute(name, "CREATE TYPE mood AS ENUM ('glad', 'sad')")
    return name


@pytest.mark.parametrize(
    ("sql", "type_", "message"),
    [
        ("'NaN'::numeric", "decimal(10,2)", "'NaN' is not a DECIMAL(10,2)"),
        ("123456789.5::numeric", "decimal(10,2)", "'123456789.5' is not a DECIMAL(10,2)"),
        ("1.5::numeric", "bigint", "'1.5' is not a BIGINT"),
        ("'Infinity'::float8", "bigint", "'Infinity' is not a BIGINT"),
        ("70000", "smallint", "'70000' is not a SMALLINT"),
        ("1e300::float8", "float", "'1e+300' is not a FLOAT"),
        ("'infinity'::timestamptz", "timestamp", "'infinity' is not a TIMESTAMP"),
        ("'0044-03-15 BC'::date", "date", "'0044-03-15 BC' is not a DATE"),
        ("'20240-03-15'::timestamp", "timestamp_ntz", "'20240-03-15 00:00:00' is not a TIMESTAMP_NTZ"),
        ("'2024-05-01 12:00'::timestamp", "date", "'2024-05-01 12:00:00' is not a DATE"),
        ("'12:00+02'::timetz", "time", "'12:00:00+02' is not a TIME"),
        ("'1 mon'::interval", "interval day to second", "'1 mon' is not a INTERVAL DAY TO SECOND"),
        ("1", "boolean", "'1' is not a BOOLEAN"),
        ("'hi'::text", "binary", "'hi' is not a BINARY"),
        ("ARRAY[1, 70000]", "array<smallint>", "'{1,70000}' is not a ARRAY<SMALLINT>"),
        ("ARRAY[[1], [2]]", "array<int>", "'{{1},{2}}' is not a ARRAY<INT>"),
        ("'[1, 2]'::jsonb", "array<int>", "'[1, 2]' is not a ARRAY<INT>"),
        ("repeat('x', 100)", "int", f"'{'x' * 80}' is not a INT"),
    ],
)
def test_values_that_do_not_fit(postgres: Postgres, moods: str, sql: str, type_: str, message: str) -> None:
    query = f"SELECT 1 AS id, {sql} AS x UNION ALL SELECT 2, NULL"
    table = source(f"id int, x {type_}", url=postgres.url(moods), query=query)
    assert [error for error, _ in errors(table)] == [f"x: {message}"]
    assert content_of(table).select(["id", "x"]).to_pylist() == [{"id": 1, "x": None}, {"id": 2, "x": None}]


def test_a_bad_row_is_reported_as_a_whole_and_the_others_are_read(postgres: Postgres, database: str) -> None:
    postgres.execute(
        database,
        """CREATE TABLE customers (id bigint, name text, price numeric, vip boolean, more jsonb, unread text);
        INSERT INTO customers VALUES (1, 'ann', 1.50, true, '{"a": 1}', 'x'), (2, 'bob "b"', 'NaN', false, '[]', 'x'),
            (3, NULL, 2, NULL, NULL, 'x'), (NULL, 'nobody', 3, NULL, NULL, 'x')""",
    )
    columns = "ID bigint not null, name string not null, price decimal(10,2), vip boolean, more string"
    table = content_of(source(columns, ("ID",), url=postgres.url(database), table="public.customers"))
    assert table.column_names == ["ID", "name", "price", "vip", "more", "__w", "__seq", "__error", "__raw"]
    assert table.schema.field("__w").type == table.schema.field("__seq").type == pa.int64()
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, "ann", Decimal("1.50"), True, '{"a": 1}', 1, 0, None, None),
        (2, 'bob "b"', None, False, "[]", 1, 1, "price: 'NaN' is not a DECIMAL(10,2)",
         '{"ID":2,"name":"bob \\"b\\"","price":"NaN","vip":false,"more":[]}'),
        (3, None, Decimal("2.00"), None, None, 1, 2, "name is NULL, but the column is NOT NULL",
         '{"ID":3,"name":null,"price":2,"vip":null,"more":null}'),
        (None, "nobody", Decimal("3.00"), None, None, 1, 3, None, None),
    ]  # fmt: skip


def test_an_empty_result_has_the_columns(postgres: Postgres, database: str) -> None:
    query = "SELECT 1 AS id, 'x' AS name WHERE false;"
    table = content_of(source("id bigint, name string", url=postgres.url(database), query=query))
    assert (table.num_rows, table.num_columns) == (0, 6)


def test_a_result_is_read_in_pieces(postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BATCH", 300)
    query = "SELECT n AS id, CASE WHEN n = 999 THEN 'x' ELSE n::text END AS value FROM generate_series(1, 1000) AS n"
    reader = source("id bigint, value int", url=postgres.url(database), query=query)
    table = content_of(reader)
    assert table.column("id").num_chunks >= 4
    assert table.column("id").to_pylist() == list(range(1, 1001))
    assert table.column("__seq").to_pylist() == list(range(1000))
    assert errors(reader) == [("value: 'x' is not a INT", '{"id":999,"value":"x"}')]


def test_arrays_are_parsed_from_text() -> None:
    assert array_elements("{}", nested=False) == []
    assert array_elements('{{a,"}"},{NULL,b}}', nested=True) == ['{a,"}"}', "{NULL,b}"]
    for wrong in ("", "x", "{", '{"}', "1,2"):
        with pytest.raises(ValueError):
            array_elements(wrong, nested=False)


def test_an_empty_column_of_arrays() -> None:
    assert array([], pa.list_(pa.int64())) == (pa.array([], pa.list_(pa.int64())), {})


def test_a_bad_element_rejects_only_its_array() -> None:
    values, faults = array(["{1,2}", None, "{3,x}", "{}", "{NULL}"], pa.list_(pa.int32()))
    assert values.to_pylist() == [[1, 2], None, None, [], [None]]
    assert faults == {2: "{3,x}"}
