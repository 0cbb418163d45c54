"""Tables that follow a PostgreSQL table, change by change."""

from __future__ import annotations

import hashlib
import random
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from tests.postgres.capturing import Log, capture_of, catch_up, error_of, events_of, following, table_of
from tests.servers.postgres import Postgres
from tidegate.connectors.postgres import snapshot

COLUMNS = "id bigint, name string, credit decimal(10,2)"


@pytest.fixture
def customers(postgres: Postgres, database: str) -> str:
    postgres.execute(
        database,
        """CREATE TABLE customers (id int PRIMARY KEY, "Name" text, credit numeric, extra text);
        INSERT INTO customers VALUES (1, 'ann', 1.5), (2, 'bob', NULL)""",
    )
    return postgres.url(database)


def test_a_table_equals_its_origin(postgres: Postgres, database: str, customers: str, tmp_path: Path) -> None:
    source = table_of(customers, COLUMNS, table="customers")
    log = catch_up(tmp_path, Log(), source)
    assert log.table() == [(1, "ann", Decimal("1.50")), (2, "bob", None)]
    postgres.execute(
        database,
        """INSERT INTO customers VALUES (3, 'cid', 3); UPDATE customers SET credit = 2 WHERE id = 1;
        UPDATE customers SET id = 20 WHERE id = 2; DELETE FROM customers WHERE id = 3;
        INSERT INTO customers VALUES (3)""",
    )
    catch_up(tmp_path, log, source)
    assert log.table() == [(1, "ann", Decimal("2.00")), (20, "bob", None), (3, None, None)]
    weights = log.entries[-1][0][0][1].select(["id", "__w"]).to_pylist()
    assert [tuple(row.values()) for row in weights] == [(3, 1), (1, 1), (2, -1), (20, 1), (3, -1), (3, 1)]
    postgres.execute(
        database, "INSERT INTO customers VALUES (4); TRUNCATE customers; INSERT INTO customers VALUES (5, 'eve')"
    )
    catch_up(tmp_path, log, source)
    assert [(table.num_rows, weight) for _, table, weight in log.entries[-1][0]] == [(0, 0), (1, 1)]
    assert log.table() == [(5, "eve", None)]
    assert log.rejected() == []


def test_the_snapshot_of_an_empty_table_is_recorded_too(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, "CREATE TABLE customers (id int PRIMARY KEY)")
    log = catch_up(tmp_path, Log(), table_of(postgres.url(database), "id int", table="customers"))
    assert [(name, table.num_rows, weight) for name, table, weight in log.entries[0][0]] == [("customers", 0, 1)]


def test_rows_that_do_not_fit_are_rejected_and_removed(
    postgres: Postgres, database: str, customers: str, tmp_path: Path
) -> None:
    source = table_of(customers, "id smallint, name string not null, credit decimal(10,2)", table="customers")
    postgres.execute(database, "INSERT INTO customers VALUES (3, 'cid', 'NaN')")
    log = catch_up(tmp_path, Log(), source)
    assert log.table() == [(1, "ann", Decimal("1.50")), (2, "bob", None)]
    postgres.execute(
        database,
        """UPDATE customers SET "Name" = NULL WHERE id = 1; UPDATE customers SET credit = 3 WHERE id = 3;
        INSERT INTO customers VALUES (70000, 'far', 1); DELETE FROM customers WHERE id = 70000;
        DELETE FROM customers WHERE id = 2""",
    )
    catch_up(tmp_path, log, source)
    assert log.table() == [(3, "cid", Decimal("3.00"))]
    assert log.rejected() == [
        (
            "customers",
            "MALFORMED_ROW",
            "credit: 'NaN' is not a DECIMAL(10,2)",
            '{"id":3,"name":"cid","credit":"NaN"}',
        ),
        (
            "customers",
            "MALFORMED_ROW",
            "name is NULL, but the column is NOT NULL",
            '{"id":1,"name":null,"credit":1.5}',
        ),
        (
            "customers",
            "MALFORMED_ROW",
            "id: '70000' is not a SMALLINT",
            '{"id":70000,"name":"far","credit":1}',
        ),
    ]


def test_large_values_that_are_not_sent_are_looked_up(postgres: Postgres, database: str, tmp_path: Path) -> None:
    big, other = "x" * 5000, "y" * 5000
    postgres.execute(
        database,
        f"""CREATE TABLE docs (id int, kind text, n int, doc text, PRIMARY KEY (id, kind));
        ALTER TABLE docs ALTER doc SET STORAGE EXTERNAL;
        INSERT INTO docs SELECT n, 'a', 0, '{big}' FROM generate_series(1, 6) AS n""",
    )
    source = table_of(postgres.url(database), "kind string, id int, doc string, n int", key="id, kind", table="docs")
    log = catch_up(tmp_path, Log(), source)
    for statement in (
        "UPDATE docs SET n = n + 1",
        f"UPDATE docs SET n = n + 1, doc = '{other}' WHERE id = 2",
        "UPDATE docs SET n = n + 1 WHERE id = 2",
        "UPDATE docs SET n = n + 1 WHERE id = 3; DELETE FROM docs WHERE id = 3",
        "UPDATE docs SET kind = 'b' WHERE id = 4",
        "UPDATE docs SET kind = 'c' WHERE id = 4",
        f"INSERT INTO docs VALUES (7, 'a', 1, '{other}'); UPDATE docs SET n = 2 WHERE id = 7",
        "UPDATE docs SET doc = NULL WHERE id = 5",
    ):
        postgres.execute(database, statement)
    catch_up(tmp_path, log, source)
    with postgres.connect(database) as connection:
        origin = connection.execute("SELECT kind, id, doc, n FROM docs").fetchall()
    assert log.table("customers", ("id", "kind")) == sorted(origin, key=repr)
    assert {row[:2]: (row[2] or "")[:1] for row in origin} == {
        ("a", 1): "x",
        ("a", 2): "y",
        ("c", 4): "x",
        ("a", 5): "",
        ("a", 6): "x",
        ("a", 7): "y",
    }


def test_large_values_under_load_are_consistent_with_their_row(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    """After every append each document matches its digest; at the end the table equals its origin."""
    postgres.execute(
        database,
        """CREATE TABLE docs (id int PRIMARY KEY, n int, doc text, digest text);
        ALTER TABLE docs ALTER doc SET STORAGE EXTERNAL;
        INSERT INTO docs SELECT n, 0, repeat('a', 3000), md5(repeat('a', 3000)) FROM generate_series(1, 30) AS n""",
    )
    source = table_of(postgres.url(database), "id int, n int, doc string, digest string", table="docs")
    log, whole = Log(), list[bool]()

    def check() -> None:
        for _, table, _ in log.entries[-1][0]:
            rows = [row for row in table.to_pylist() if row["__w"] > 0]
            whole.extend(hashlib.md5(row["doc"].encode()).hexdigest() == row["digest"] for row in rows)

    def load(seed: int) -> None:
        chance = random.Random(seed)
        with postgres.connect(database) as connection:
            for _ in range(300):
                at, text = chance.randrange(1, 40), f"repeat('{chance.choice('bcde')}', 3000)"
                same = f"UPDATE docs SET n = n + 1 WHERE id = {at}"
                statements = (
                    same,
                    same,
                    same,
                    f"UPDATE docs SET doc = {text}, digest = md5({text}) WHERE id = {at}",
                    f"DELETE FROM docs WHERE id = {at}",
                    f"INSERT INTO docs VALUES ({at}, 0, {text}, md5({text})) ON CONFLICT DO NOTHING",
                    f"UPDATE docs SET id = {at + 100 * (seed + 1)} WHERE id = {at}"
                    f" AND NOT EXISTS (SELECT 1 FROM docs WHERE id = {at + 100 * (seed + 1)})",
                )
                connection.execute(chance.choice(statements))

    log.after = check
    writers = [threading.Thread(target=load, args=(seed,)) for seed in range(2)]
    with following(capture_of(tmp_path, source), log) as until:
        until(lambda: log.position is not None)
        for writer in writers:
            writer.start()
        until(lambda: not any(writer.is_alive() for writer in writers))
    catch_up(tmp_path, log, source)
    assert len(whole) > 30 and all(whole)
    with postgres.connect(database) as connection:
        origin = connection.execute("SELECT id, n, doc, digest FROM docs").fetchall()
    assert log.table() == sorted(origin, key=repr)


def test_a_large_key_that_is_not_sent(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE named (name text PRIMARY KEY, n int); ALTER TABLE named ALTER name SET STORAGE EXTERNAL;
        INSERT INTO named VALUES (repeat('x', 2500), 1)""",
    )
    url = postgres.url(database)
    table, events = table_of(url, "name string, n int", key="name", table="named"), events_of(url, tables="named")
    log = catch_up(tmp_path, Log(), table, events)
    postgres.execute(database, "UPDATE named SET n = 2")
    catch_up(tmp_path, log, table, events)
    assert log.table("customers", ("name",)) == [("x" * 2500, 2)]
    assert [(payload["row"], payload.get("missing")) for payload in log.payloads()] == [
        ({"name": "x" * 2500, "n": 2}, None)
    ]


def test_a_row_that_was_rejected_before_a_truncate_is_reported(
    postgres: Postgres, database: str, customers: str, tmp_path: Path
) -> None:
    source = table_of(customers, COLUMNS, table="customers")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "INSERT INTO customers VALUES (3, 'cid', 'NaN'); TRUNCATE customers")
    catch_up(tmp_path, log, source)
    assert (log.table(), len(log.rejected())) == ([], 1)


def test_tables_that_are_added_later_share_the_slot(
    postgres: Postgres, database: str, customers: str, tmp_path: Path
) -> None:
    events, first = events_of(customers, "all", tables="customers"), table_of(customers, COLUMNS, table="customers")
    log = catch_up(tmp_path, Log(), events)
    postgres.execute(
        database, "CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items VALUES (1, 'a'), (2, 'b')"
    )
    postgres.execute(database, "UPDATE customers SET credit = 7 WHERE id = 2")
    items = table_of(customers, "id int, v string", "items", table="items")
    catch_up(tmp_path, log, events, first, items)
    assert log.table() == [(1, "ann", Decimal("1.50")), (2, "bob", Decimal("7.00"))]
    assert log.table("items") == [(1, "a"), (2, "b")]
    assert [payload["op"] for payload in log.payloads()] == ["UPDATE"]
    postgres.execute(database, "DELETE FROM items WHERE id = 1; DELETE FROM customers WHERE id = 1")
    catch_up(tmp_path, log, events, first, items)
    assert {name for name, _, _ in log.entries[-1][0]} == {"pgcdc_events", "customers", "items"}
    assert (log.table(), log.table("items")) == ([(2, "bob", Decimal("7.00"))], [(2, "b")])
    assert [payload["table"] for payload in log.payloads()] == ["customers", "customers"]
    with postgres.connect(database) as connection:
        slots = connection.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
        assert slots.fetchone() == (1,)
    catch_up(tmp_path, log, first)
    assert set(log.position["tables"]) == {"customers"}
    catch_up(tmp_path, log, first, items)
    assert log.table("items") == [(2, "b")]


def test_a_recreated_table_is_read_again(postgres: Postgres, database: str, customers: str, tmp_path: Path) -> None:
    source = table_of(customers, COLUMNS, table="customers")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(
        database,
        """DROP TABLE customers; CREATE TABLE customers (id int PRIMARY KEY, name text, credit numeric);
        INSERT INTO customers VALUES (9, 'new', 9)""",
    )
    catch_up(tmp_path, log, source)
    postgres.execute(database, "INSERT INTO customers VALUES (10, 'newer', 10)")
    assert catch_up(tmp_path, log, source).table() == [(10, "newer", Decimal("10.00")), (9, "new", Decimal("9.00"))]


def test_columns_are_added_and_dropped(postgres: Postgres, database: str, customers: str, tmp_path: Path) -> None:
    source = table_of(customers, COLUMNS, table="customers")
    log = catch_up(tmp_path, Log(), source)
    for statement in (
        "ALTER TABLE customers DROP COLUMN extra",
        "ALTER TABLE customers ADD COLUMN more int",
        "ALTER TABLE customers ALTER COLUMN credit TYPE text",
        "INSERT INTO customers VALUES (3, 'cid', '3.25', 5)",
    ):
        postgres.execute(database, statement)
    assert catch_up(tmp_path, log, source).table()[2:] == [(3, "cid", Decimal("3.25"))]
    postgres.execute(database, "ALTER TABLE customers RENAME COLUMN credit TO credits")
    postgres.execute(database, "INSERT INTO customers VALUES (4, 'dan', '4', 5)")
    assert error_of(lambda: catch_up(tmp_path, log, source)) == (
        "PIPELINE_FAILED: table public.customers of customers has no column credit\n"
        "  detail: its columns are id, Name, credits, more\n"
        "  hint: did you mean credits? DROP and CREATE customers again"
    )
    assert len(log.table()) == 3


def test_an_interrupted_snapshot_begins_again(
    postgres: Postgres, database: str, customers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PIECE", 10)
    postgres.execute(database, "INSERT INTO customers SELECT n FROM generate_series(3, 100) AS n")
    source, log = table_of(customers, COLUMNS, table="customers"), Log()
    execute = snapshot.Snapshot._execute
    fetches = 0

    def interrupt(moment: snapshot.Snapshot, query: str, *parameters: object) -> object:
        nonlocal fetches
        fetches += query.startswith("FETCH")
        if fetches == 5:
            fetches += 1
            raise ConnectionResetError("cut off")
        return execute(moment, query, *parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot.Snapshot, "_execute", interrupt)
    with pytest.raises(ConnectionResetError):
        catch_up(tmp_path, log, source)
    assert log.entries == []
    postgres.execute(database, "DELETE FROM customers WHERE id < 50")
    assert [row[0] for row in sorted(catch_up(tmp_path, log, source).table())] == list(range(50, 101))
    assert len(log.entries) == 1


def test_a_snapshot_under_load_neither_loses_nor_repeats_rows(
    postgres: Postgres, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables change before, during and after their snapshot; one table is added later, while the others change."""
    monkeypatch.setattr(snapshot, "PIECE", 50)
    postgres.execute(
        database,
        """CREATE TABLE a (id int PRIMARY KEY, n int); CREATE TABLE b (id int PRIMARY KEY, n int);
        INSERT INTO a SELECT n, 0 FROM generate_series(1, 500) AS n; INSERT INTO b SELECT * FROM a""",
    )
    url, stop = postgres.url(database), threading.Event()

    def load() -> None:
        chance = random.Random(7)
        with postgres.connect(database) as connection:
            while not stop.is_set():
                name, at = chance.choice("ab"), chance.randrange(1, 700)
                statement = chance.choice(
                    (
                        f"INSERT INTO {name} VALUES ({at}, 1) ON CONFLICT (id) DO UPDATE SET n = {name}.n + 1",
                        f"UPDATE {name} SET n = n + 1 WHERE id = {at}",
                        f"DELETE FROM {name} WHERE id = {at}",
                        f"UPDATE {name} SET id = id + 1000 WHERE id = {at} AND NOT EXISTS"
                        f" (SELECT 1 FROM {name} WHERE id = {at} + 1000)",
                    )
                )
                connection.execute(statement)

    writer = threading.Thread(target=load)
    writer.start()
    try:
        one, two = (table_of(url, "id int, n int", name, table=name) for name in "ab")
        events = events_of(url, "all", tables="a", snapshot="initial")
        log = catch_up(tmp_path, Log(), one)
        catch_up(tmp_path, log, one, two)
        catch_up(tmp_path, log, one, two, events)
    finally:
        stop.set()
        writer.join()
    catch_up(tmp_path, log, one, two, events)
    with postgres.connect(database) as connection:
        for name in "ab":
            origin = connection.execute(f"SELECT id, n FROM {name}").fetchall()
            assert log.table(name) == sorted(origin, key=repr)
    content: dict[int, int] = {}
    for payload in log.payloads():
        old = payload["old"] or {}
        content.pop(old.get("id"), None)
        if payload["row"]:
            content[payload["row"]["id"]] = payload["row"]["n"]
    assert sorted(content.items(), key=repr) == log.table("a")


def test_values_in_other_text_forms(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE t (code char(5) PRIMARY KEY, ok boolean, at timestamptz, tags text[], raw bytea, doc jsonb);
        INSERT INTO t VALUES ('a', true, '2024-05-01 12:00+02', '{x,NULL}', '\\x01', '{"a": 1}')""",
    )
    columns = "code string, ok string, at timestamp, tags array<string>, raw binary, doc string"
    source = table_of(postgres.url(database), columns, key="code", table="t")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "INSERT INTO t SELECT 'b', false, at, tags, raw, doc FROM t; UPDATE t SET ok = NOT ok")
    (first, second) = catch_up(tmp_path, log, source).table("customers", ("code",))
    assert first[:2] == ("a", "false") and second[:2] == ("b", "true")
    assert first[2].isoformat() == "2024-05-01T10:00:00+00:00"
    assert first[3:] == second[3:] == (["x", None], b"\x01", '{"a": 1}')


def test_a_stopped_capture_continues_at_its_position(
    postgres: Postgres, database: str, customers: str, tmp_path: Path
) -> None:
    log, source = Log(), table_of(customers, COLUMNS, table="customers")
    with following(capture_of(tmp_path, source), log) as until:
        until(lambda: len(log.table()) == 2)
        postgres.execute(database, "INSERT INTO customers VALUES (3, 'cid', 3)")
        until(lambda: len(log.table()) == 3)
    postgres.execute(database, "DELETE FROM customers WHERE id = 1")
    with following(capture_of(tmp_path, source), log) as until:
        until(lambda: len(log.table()) == 2)


def test_two_keys_never_become_one(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE t (id numeric PRIMARY KEY, v numeric);
        INSERT INTO t VALUES (1.00, 0.005), (1.001, 2), (1.5000, 3), (123456789.5, 4)""",
    )
    source = table_of(postgres.url(database), "id decimal(10,2), v decimal(10,2)", table="t")
    log = catch_up(tmp_path, Log(), source)
    assert log.table() == [(Decimal("1.00"), Decimal("0.01")), (Decimal("1.50"), Decimal("3.00"))]
    assert [message for _, _, message, _ in log.rejected()] == [
        "id: '1.001' is not a DECIMAL(10,2)",
        "id: '123456789.5' is not a DECIMAL(10,2)",
    ]
    postgres.execute(database, "UPDATE t SET id = 1.25 WHERE id = 1.001; DELETE FROM t WHERE id = 123456789.5")
    assert [str(row[0]) for row in catch_up(tmp_path, log, source).table()] == ["1.00", "1.25", "1.50"]
