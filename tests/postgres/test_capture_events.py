"""Changes of tables as events on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.capturing import START, Log, capture_of, catch_up, events_of, following
from tests.servers.postgres import Postgres


@pytest.fixture
def orders(postgres: Postgres, database: str) -> str:
    postgres.execute(
        database,
        """CREATE TABLE orders (id int PRIMARY KEY, region text, amount numeric);
        INSERT INTO orders VALUES (1, 'north', 9.50)""",
    )
    return postgres.url(database)


def test_each_change_is_an_event(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    log = catch_up(tmp_path, Log(), events_of(orders, tables="orders"))
    assert log.events() == []
    postgres.execute(
        database,
        """INSERT INTO orders VALUES (2, 'say "hi"', 1.10), (3, NULL, 'NaN');
        UPDATE orders SET amount = 10 WHERE id = 1; UPDATE orders SET id = 4 WHERE id = 2;
        DELETE FROM orders WHERE id = 3""",
    )
    postgres.execute(database, "TRUNCATE orders")
    catch_up(tmp_path, log, events_of(orders, tables="orders"))
    events = log.events()
    assert [event["payload"] for event in events] == [
        {"op": "INSERT", "table": "orders", "row": {"id": 2, "region": 'say "hi"', "amount": 1.1}, "old": None},
        {"op": "INSERT", "table": "orders", "row": {"id": 3, "region": None, "amount": "NaN"}, "old": None},
        {"op": "UPDATE", "table": "orders", "row": {"id": 1, "region": "north", "amount": 10}, "old": None},
        {"op": "UPDATE", "table": "orders", "row": {"id": 4, "region": 'say "hi"', "amount": 1.1}, "old": {"id": 2}},
        {"op": "DELETE", "table": "orders", "row": None, "old": {"id": 3}},
        {"op": "TRUNCATE", "table": "orders", "row": None, "old": None},
    ]
    assert {(e["channel"], e["source"]) for e in events} == {("pgcdc:orders", "shop")}
    assert [e["operation"] for e in events] == ["INSERT", "INSERT", "UPDATE", "UPDATE", "DELETE", "TRUNCATE"]
    assert [e["transaction"]["seq"] for e in events] == [1, 2, 3, 4, 5, 1]
    assert len({e["id"] for e in events}) == 6
    assert len({e["transaction"]["xid"] for e in events}) == 2
    assert events[0]["created_at"].timestamp() * 1_000_000 == START
    assert events[0]["transaction"]["commit_time"].endswith("Z")
    assert '"amount":1.10}' in log.entries[-1][0][0][1].column("payload")[0].as_py()


def test_a_snapshot_comes_first_if_requested(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    source = events_of(orders, tables="orders", snapshot="initial")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "DELETE FROM orders")
    catch_up(tmp_path, log, source)
    assert log.payloads() == [
        {
            "op": "INSERT",
            "table": "orders",
            "row": {"id": 1, "region": "north", "amount": 9.5},
            "old": None,
            "snapshot": True,
        },
        {"op": "DELETE", "table": "orders", "row": None, "old": {"id": 1}},
    ]
    assert log.events()[0]["transaction"] is None
    assert len(log.entries) == 2


TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN cents AS int CHECK (VALUE >= 0);
CREATE TABLE kinds (
    small smallint, big bigint, exact numeric, real4 real, real8 double precision, flag boolean, label text,
    padded char(4), at timestamptz, local timestamp, day date, clock time, span interval, raw bytea, doc json,
    docb jsonb, ids int[], names text[], grid int[], id uuid, feeling mood, feelings mood[], price cents, net inet
);
ALTER TABLE kinds REPLICA IDENTITY FULL
"""
ROW = """INSERT INTO kinds VALUES (
    -1, 9007199254740993, 1.2300, 1e20, 'NaN', true, E'a\\nb"c\\\\', 'ab', '2024-05-01 12:00:03.25+02',
    '2024-05-01 12:00', '2024-05-01', '12:00:01', '1 day 02:00', '\\x0001ff', '{"a":\n 1}', '{"b": [1, null]}',
    '{1,NULL,3}', '{"a b",NULL,"NULL","{x}"}', '{{1,2},{3,4}}',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'glad', '{sad,glad}', 5, '10.0.0.1')"""
EXPECTED = (
    '"small":-1,"big":9007199254740993,"exact":1.2300,"real4":1e+20,"real8":"NaN","flag":true,'
    '"label":"a\\nb\\"c\\\\","padded":"ab  ","at":"2024-05-01T10:00:03.25Z","local":"2024-05-01T12:00:00",'
    '"day":"2024-05-01","clock":"12:00:01","span":"1 day 02:00:00","raw":"AAH/","doc":{"a":  1},'
    '"docb":{"b": [1, null]},"ids":[1,null,3],"names":["a b",null,"NULL","{x}"],"grid":[[1,2],[3,4]],'
    '"id":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","feeling":"glad","feelings":["sad","glad"],"price":5,'
    '"net":"10.0.0.1"'
)


def test_values_of_every_type(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, TYPES)
    postgres.execute(database, ROW)
    source = events_of(postgres.url(database), tables="kinds", snapshot="initial")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, ROW)
    postgres.execute(database, "UPDATE kinds SET at = 'infinity', exact = '-Infinity', ids = '{}', big = NULL")
    catch_up(tmp_path, log, source)
    texts = [text for rows, _, _ in log.entries for _, table, _ in rows for text in table.column("payload").to_pylist()]
    assert texts[0] == f'{{"op":"INSERT","table":"kinds","row":{{{EXPECTED}}},"old":null,"snapshot":true}}'
    assert texts[1] == f'{{"op":"INSERT","table":"kinds","row":{{{EXPECTED}}},"old":null}}'
    updated = log.payloads()[2]
    assert updated["old"] == log.payloads()[1]["row"]
    assert [updated["row"][name] for name in ("at", "exact", "ids", "big")] == ["infinity", "-Infinity", [], None]


def test_old_rows_are_as_the_replica_identity_provides_them(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE whole (id int PRIMARY KEY, v text); ALTER TABLE whole REPLICA IDENTITY FULL;
        CREATE TABLE indexed (id int PRIMARY KEY, code text NOT NULL, v text);
        CREATE UNIQUE INDEX codes ON indexed (code);
        ALTER TABLE indexed REPLICA IDENTITY USING INDEX codes;
        CREATE TABLE bare (id int, v text);
        CREATE PUBLICATION inserts FOR TABLE bare, whole, indexed WITH (publish = 'insert, truncate');
        CREATE PUBLICATION everything FOR TABLE whole, indexed""",
    )
    url = postgres.url(database)
    source = events_of(url, tables="whole, indexed", publication="everything")
    log = catch_up(tmp_path, Log(), source)
    bare = events_of(url, tables="bare", publication="inserts")
    only = catch_up(tmp_path, Log(), bare)
    postgres.execute(
        database,
        """INSERT INTO whole VALUES (1, 'a'); INSERT INTO indexed VALUES (1, 'x', 'a');
        INSERT INTO bare VALUES (1, 'a');
        UPDATE whole SET v = 'b'; UPDATE indexed SET v = 'b'; UPDATE indexed SET code = 'y'; UPDATE bare SET v = 'b';
        DELETE FROM whole; DELETE FROM indexed; DELETE FROM bare""",
    )
    catch_up(tmp_path, log, source)
    assert [(e["op"], e["table"], e["row"], e["old"]) for e in log.payloads()[2:]] == [
        ("UPDATE", "whole", {"id": 1, "v": "b"}, {"id": 1, "v": "a"}),
        ("UPDATE", "indexed", {"id": 1, "code": "x", "v": "b"}, None),
        ("UPDATE", "indexed", {"id": 1, "code": "y", "v": "b"}, {"code": "x"}),
        ("DELETE", "whole", None, {"id": 1, "v": "b"}),
        ("DELETE", "indexed", None, {"code": "y"}),
    ]
    assert [(e["op"], e["row"]) for e in catch_up(tmp_path, only, bare).payloads()] == [("INSERT", {"id": 1, "v": "a"})]


def test_a_large_value_that_is_not_sent_is_listed_as_missing(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE docs (id int PRIMARY KEY, n int, doc text); ALTER TABLE docs ALTER doc SET STORAGE EXTERNAL;
        INSERT INTO docs VALUES (1, 1, repeat('x', 5000))""",
    )
    source = events_of(postgres.url(database), tables="docs")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "UPDATE docs SET n = 2")
    postgres.execute(database, "ALTER TABLE docs REPLICA IDENTITY FULL")
    postgres.execute(database, "UPDATE docs SET n = 3")
    first, second = catch_up(tmp_path, log, source).payloads()
    assert first == {"op": "UPDATE", "table": "docs", "row": {"id": 1, "n": 2}, "old": None, "missing": ["doc"]}
    whole = "x" * 5000
    assert second == {
        "op": "UPDATE",
        "table": "docs",
        "row": {"id": 1, "n": 3, "doc": whole},
        "old": {"id": 1, "n": 2, "doc": whole},
    }


def test_tables_change_while_they_are_followed(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    source = events_of(orders, tables="orders")
    log = catch_up(tmp_path, Log(), source)
    for statement in (
        "INSERT INTO orders VALUES (2, 'a', 1)",
        "ALTER TABLE orders ADD COLUMN vip boolean DEFAULT true",
        "INSERT INTO orders VALUES (3, 'b', 2)",
        "ALTER TABLE orders DROP COLUMN region",
        "ALTER TABLE orders RENAME COLUMN amount TO total",
        "ALTER TABLE orders ALTER COLUMN total TYPE text",
        "INSERT INTO orders VALUES (4, '3', false)",
        "ALTER TABLE orders RENAME TO purchases",
        "INSERT INTO purchases VALUES (5, '4', false)",
    ):
        postgres.execute(database, statement)
    postgres.execute(database, "ALTER TABLE purchases RENAME TO orders")
    catch_up(tmp_path, log, source)
    assert [event["row"] for event in log.payloads()] == [
        {"id": 2, "region": "a", "amount": 1},
        {"id": 3, "region": "b", "amount": 2, "vip": True},
        {"id": 4, "total": "3", "vip": False},
        {"id": 5, "total": "4", "vip": False},
    ]
    assert log.events()[-1]["channel"] == "pgcdc:purchases"


def test_several_tables_of_several_schemas(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE SCHEMA "Big Corp"; CREATE TABLE "Big Corp"."Items" (id int PRIMARY KEY);
        CREATE TABLE other (id int PRIMARY KEY)""",
    )
    some, every = events_of(orders, tables='orders, Big Corp."Items"'), events_of(orders, slot="all_of", tables="*")
    log, all_log = catch_up(tmp_path, Log(), some), catch_up(tmp_path, Log(), every)
    postgres.execute(
        database,
        """CREATE TABLE later (id int PRIMARY KEY);
        INSERT INTO orders VALUES (7); INSERT INTO "Big Corp"."Items" VALUES (8); INSERT INTO other VALUES (9);
        INSERT INTO later VALUES (10); TRUNCATE orders, other""",
    )
    catch_up(tmp_path, log, some)
    assert [(e["channel"], e["operation"]) for e in log.events()] == [
        ("pgcdc:orders", "INSERT"),
        ("pgcdc:Big Corp.Items", "INSERT"),
        ("pgcdc:orders", "TRUNCATE"),
    ]
    catch_up(tmp_path, all_log, every)
    assert [e["channel"] for e in all_log.events()] == [
        "pgcdc:orders",
        "pgcdc:Big Corp.Items",
        "pgcdc:other",
        "pgcdc:later",
        "pgcdc:orders",
        "pgcdc:other",
    ]


def test_a_transaction_is_never_split(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    source = events_of(orders, tables="orders")
    log = catch_up(tmp_path, Log(), source)
    with postgres.connect(database) as one, postgres.connect(database) as two:
        one.execute("BEGIN")
        one.execute("INSERT INTO orders SELECT n FROM generate_series(10, 45000) AS n")
        two.execute("INSERT INTO orders VALUES (100001)")
        one.execute("COMMIT")
        two.execute("INSERT INTO orders VALUES (100002)")
    catch_up(tmp_path, log, source)
    events = log.events()
    assert [e["payload"]["row"]["id"] for e in events] == [100001, *range(10, 45001), 100002]
    assert sum(len(xids) for xids in log.transactions()) == 3
    assert [e["transaction"]["seq"] for e in events[1:-1]] == list(range(1, 44992))


def test_times_never_decrease(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    source, log = events_of(orders, tables="orders"), Log()
    for number, now in ((10, START), (11, START + 5), (12, START + 2), (13, START + 9)):
        capture_of(tmp_path, source, now=lambda now=now: now).catch_up(log)  # type: ignore[misc]
        postgres.execute(database, f"INSERT INTO orders VALUES ({number})")
    catch_up(tmp_path, log, source)
    times = [round(e["created_at"].timestamp() * 1_000_000) - START for e in log.events()]
    assert times == [5, 5, 9, 9]


def test_changes_arrive_while_the_capture_runs(postgres: Postgres, database: str, orders: str, tmp_path: Path) -> None:
    log, capture = Log(), capture_of(tmp_path, events_of(orders, tables="orders"))
    with following(capture, log) as until:
        until(lambda: log.position is not None)
        for number in range(10, 13):
            postgres.execute(database, f"INSERT INTO orders VALUES ({number})")
            until(lambda number=number: len(log.events()) == number - 9)  # type: ignore[misc]
    assert capture.metrics()["rows_taken_total"] == 3
