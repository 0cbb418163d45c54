"""Capturing partitions, inheritance, generated columns, row security, and tables that ALTER TABLE rewrites."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.capturing import Log, capture_of, catch_up, error_of, events_of, following, table_of
from tests.servers.postgres import PASSWORD, Postgres
from tidegate.connectors.postgres.replication import Stream
from tidegate.connectors.postgres.snapshot import Snapshot

METERS = """
CREATE TABLE meters (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE jan PARTITION OF meters FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE feb PARTITION OF meters FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
INSERT INTO meters VALUES (1, '2024-01-05', 'a'), (2, '2024-02-05', 'b')
"""


def query_rows(postgres: Postgres, database: str, query: str) -> list[tuple[Any, ...]]:
    with postgres.connect(database) as connection:
        return sorted(connection.execute(query).fetchall(), key=repr)


def test_a_partitioned_table_is_one_table(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, METERS)
    url, key = postgres.url(database), ("id", "day")
    table = table_of(url, "id int, day date, v string", key="id, day", table="meters")
    events = events_of(url, tables="meters")
    log = catch_up(tmp_path, Log(), table, events)

    def same() -> bool:
        catch_up(tmp_path, log, table, events)
        return log.table(key=key) == query_rows(postgres, database, "SELECT * FROM meters")

    postgres.execute(
        database,
        """UPDATE meters SET day = '2024-02-09' WHERE id = 1; INSERT INTO feb VALUES (3, '2024-02-06', 'c');
        UPDATE feb SET v = 'bb' WHERE id = 2; DELETE FROM meters WHERE id = 3""",
    )
    assert same()
    assert [(event["channel"], event["operation"]) for event in log.events()] == [
        ("pgcdc:meters", operation) for operation in ("DELETE", "INSERT", "INSERT", "UPDATE", "DELETE")
    ]
    for silent in (
        "CREATE TABLE mar PARTITION OF meters FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');"
        " INSERT INTO meters VALUES (4, '2024-03-03', 'd')",
        "TRUNCATE feb",
        "ALTER TABLE meters DETACH PARTITION mar",
        "INSERT INTO mar VALUES (5, '2024-03-04', 'e'); ALTER TABLE meters ATTACH PARTITION mar"
        " FOR VALUES FROM ('2024-03-01') TO ('2024-04-01')",
        "DROP TABLE jan",
        "TRUNCATE meters",
    ):
        postgres.execute(database, silent)
        assert same(), silent
    assert log.table(key=key) == []


def test_a_partition_with_a_weaker_replica_identity_is_an_error(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    """PostgreSQL would declare a full old row, and send NULL for the columns that the partition does not log."""
    postgres.execute(database, f"{METERS}; ALTER TABLE meters REPLICA IDENTITY FULL")
    source = events_of(postgres.url(database), tables="meters")
    assert error_of(lambda: catch_up(tmp_path, Log(), source)) == (
        "PIPELINE_FAILED: table public.meters tells its old rows by all columns, but its partition public.jan by (id,"
        " day): PostgreSQL would send NULL for what is missing\n"
        "  detail: a partition does not get the replica identity of its table by itself\n"
        "  hint: ALTER TABLE public.jan REPLICA IDENTITY FULL; then start again"
    )
    postgres.execute(database, "ALTER TABLE jan REPLICA IDENTITY FULL; ALTER TABLE feb REPLICA IDENTITY FULL")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "DELETE FROM meters WHERE id = 1")
    assert catch_up(tmp_path, log, source).payloads()[0]["old"] == {"id": 1, "day": "2024-01-05", "v": "a"}


def test_a_publication_of_partitions_one_by_one(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, METERS)
    postgres.execute(database, "CREATE PUBLICATION parts FOR TABLE meters; CREATE PUBLICATION every FOR ALL TABLES")
    for name in ("parts", "every"):
        source = events_of(postgres.url(database), tables="meters", publication=name)
        assert error_of(lambda source=source: catch_up(tmp_path, Log(), source)) == (  # type: ignore[misc]
            f"PIPELINE_FAILED: publication {name} at 127.0.0.1:{postgres.port}/{database} does not have public.meters,"
            " or only its partitions one by one\n"
            f"  hint: ALTER PUBLICATION {name} SET (publish_via_partition_root = true); and if it has not got it:"
            f" ALTER PUBLICATION {name} ADD TABLE public.meters; then start again"
        )
    postgres.execute(database, "ALTER PUBLICATION every SET (publish_via_partition_root = true)")
    source = events_of(postgres.url(database), tables="meters", publication="every")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "INSERT INTO meters VALUES (7, '2024-01-07', 'g')")
    assert [event["channel"] for event in catch_up(tmp_path, log, source).events()] == ["pgcdc:meters"]


def test_inheriting_tables_are_ignored(postgres: Postgres, database: str, tmp_path: Path) -> None:
    """They have no key, so PostgreSQL would reject their updates if they were published as well."""
    postgres.execute(
        database,
        """CREATE TABLE parent (id int PRIMARY KEY, v text); CREATE TABLE child () INHERITS (parent);
        INSERT INTO parent VALUES (1, 'p'); INSERT INTO child VALUES (2, 'c')""",
    )
    url = postgres.url(database)
    table = table_of(url, "id int, v string", table="parent")
    events = events_of(url, tables="parent", snapshot="initial")
    log = catch_up(tmp_path, Log(), table, events)
    postgres.execute(database, "UPDATE child SET v = 'cc'; UPDATE parent SET v = 'pp'; DELETE FROM child")
    catch_up(tmp_path, log, table, events)
    assert log.table() == [(1, "pp")]
    assert [payload["row"] for payload in log.payloads()] == [{"id": 1, "v": "p"}, {"id": 1, "v": "pp"}]


def test_generated_columns_are_not_sent(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE g (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, twice int GENERATED ALWAYS AS (n * 2)
        STORED, n int); INSERT INTO g (n) VALUES (1)""",
    )
    url = postgres.url(database)
    events, table = events_of(url, tables="g", snapshot="initial"), table_of(url, "id int, n int", table="g")
    log = catch_up(tmp_path, Log(), events, table)
    postgres.execute(database, "INSERT INTO g (n) VALUES (5)")
    catch_up(tmp_path, log, events, table)
    assert [payload["row"] for payload in log.payloads()] == [{"id": 1, "n": 1}, {"id": 2, "n": 5}]
    assert log.table() == [(1, 1), (2, 5)]
    assert error_of(lambda: catch_up(tmp_path, Log(), table_of(url, "id int, Twice int", table="g"))) == (
        "PIPELINE_FAILED: column twice of table public.g is generated, and PostgreSQL does not send such values\n"
        "  hint: leave Twice out of the columns of customers, and compute it in a view"
    )


def test_row_security_that_would_hide_rows_is_an_error(postgres: Postgres, database: str, tmp_path: Path) -> None:
    guest, where = f"guest_{database}", f"127.0.0.1:{postgres.port}/{database}"
    postgres.execute(
        database,
        f"""CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2);
        ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY odd ON t USING (id % 2 = 1);
        CREATE ROLE {guest} LOGIN REPLICATION PASSWORD '{PASSWORD}'; GRANT SELECT ON t TO {guest};
        CREATE PUBLICATION mine FOR TABLE t""",
    )
    theirs = postgres.url(database).replace("tidegate:", f"{guest}:")
    source = table_of(theirs, "id int", table="t", publication="mine")
    assert error_of(lambda: catch_up(tmp_path, Log(), source)) == (
        f"PIPELINE_FAILED: {guest} may not read public.t at {where}:"
        ' query would be affected by row-level security policy for table "t"\n'
        f"  hint: as a superuser: ALTER ROLE {guest} BYPASSRLS; then start again"
    )
    postgres.execute(database, f"ALTER ROLE {guest} BYPASSRLS")
    assert catch_up(tmp_path, Log(), source).table() == [(1,), (2,)]
    postgres.execute(database, f"DROP OWNED BY {guest}")


REWRITES = (
    "ALTER TABLE t ALTER v TYPE int",
    "ALTER TABLE t ALTER v TYPE int USING v * 100",
    "ALTER TABLE t DROP v; ALTER TABLE t ADD v numeric DEFAULT 9",
    "ALTER TABLE t DROP w; ALTER TABLE t ADD w text",
)


@pytest.fixture
def values(postgres: Postgres, database: str) -> str:
    postgres.execute(
        database,
        """CREATE TABLE t (id int PRIMARY KEY, v numeric, w text); INSERT INTO t VALUES (1, 1.5, 'a'), (2, 2.5, 'b')""",
    )
    return postgres.url(database)


def rows_of(postgres: Postgres, database: str) -> Sequence[tuple[Any, ...]]:
    cent = Decimal("0.01")
    rows = query_rows(postgres, database, "SELECT id, v, w FROM t")
    return sorted([(at, Decimal(v).quantize(cent), w) for at, v, w in rows], key=repr)


@pytest.mark.parametrize("statement", REWRITES)
def test_a_table_that_alter_table_rewrites_is_read_again(
    postgres: Postgres, database: str, values: str, tmp_path: Path, statement: str
) -> None:
    """PostgreSQL sends no changes for a rewrite."""
    source = table_of(values, "id int, v decimal(10,2), w string", table="t")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, f"{statement}; INSERT INTO t (id, v) VALUES (3, 3)")
    catch_up(tmp_path, log, source)
    assert log.table() == rows_of(postgres, database)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD more float DEFAULT random()",
        "ALTER TABLE t ALTER w TYPE varchar",
        "ALTER TABLE t ALTER w SET DEFAULT 'c'",
        "VACUUM FULL t",
    ],
)
def test_a_table_that_alter_table_does_not_rewrite_is_not_read_again(
    postgres: Postgres, database: str, values: str, tmp_path: Path, statement: str
) -> None:
    source = table_of(values, "id int, v decimal(10,2), w string", table="t")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, statement)
    assert len(catch_up(tmp_path, log, source).entries) == 1


def test_a_table_that_is_rewritten_while_the_capture_runs(
    postgres: Postgres, database: str, values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.connectors.postgres import following as pace

    monkeypatch.setattr(pace, "IDLE", 0.05)
    log, runs = Log(), capture_of(tmp_path, table_of(values, "id int, v decimal(10,2), w string", table="t"))
    message = "^the rows of table public.t were written anew: they are read again$"
    with pytest.raises(OSError, match=message), following(runs, log) as until:
        until(lambda: len(log.table()) == 2)
        postgres.execute(database, "ALTER TABLE t ALTER v TYPE numeric USING v * 100")
        until(lambda: False)
    with following(runs, log) as until:
        until(lambda: log.table() == rows_of(postgres, database))


def test_a_replica_identity_that_changes(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE);
        INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')""",
    )
    source = table_of(postgres.url(database), "id int, code string", table="t")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key")
    postgres.execute(database, "INSERT INTO t VALUES (4, 'd')")
    postgres.execute(database, "UPDATE t SET id = 20 WHERE id = 2; DELETE FROM t WHERE id = 1")
    postgres.execute(database, "ALTER TABLE t REPLICA IDENTITY DEFAULT")
    assert error_of(lambda: catch_up(tmp_path, log, source)) == (
        "PIPELINE_FAILED: customers has the key (id), but table public.t told rows that changed by (code)\n"
        "  detail: its REPLICA IDENTITY was changed\n"
        "  hint: ALTER TABLE public.t REPLICA IDENTITY FULL, unless that is mended; then DROP and CREATE customers"
        " again: it is then read as a whole"
    )
    postgres.execute(database, "ALTER TABLE t REPLICA IDENTITY FULL")
    assert catch_up(tmp_path, log, source).table() == query_rows(postgres, database, "SELECT * FROM t")
    postgres.execute(database, "DELETE FROM t WHERE id = 3")
    assert catch_up(tmp_path, log, source).table() == query_rows(postgres, database, "SELECT * FROM t")


@pytest.mark.parametrize("primary", ["(id) INCLUDE (n)", "(id) DEFERRABLE"])
def test_which_columns_an_index_identifies_rows_by(
    postgres: Postgres, database: str, tmp_path: Path, primary: str
) -> None:
    """Columns of INCLUDE are not part of the replica identity, and a deferrable index cannot be one."""
    postgres.execute(database, f"CREATE TABLE t (id int, n int, PRIMARY KEY {primary})")
    error = error_of(
        lambda: catch_up(tmp_path, Log(), table_of(postgres.url(database), "id int, n int", key="n", table="t"))
    )
    identity = "by (id)" if "INCLUDE" in primary else "not at all"
    assert error.splitlines()[0] == (
        f"PIPELINE_FAILED: customers has the key (n), but table public.t tells its old rows {identity}"
    )


@pytest.mark.parametrize("type_", ["char(5)", "varchar(5)", '"char"', "bit(3)", "numeric(9,3)", "uuid", "timestamptz"])
def test_large_values_are_looked_up_by_keys_of_any_type(
    postgres: Postgres, database: str, tmp_path: Path, type_: str
) -> None:
    key = {"uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "timestamptz": "2024-05-01 12:00+02"}.get(type_, "101")
    postgres.execute(
        database,
        f"""CREATE TABLE t (id {type_} PRIMARY KEY, n int, doc text); ALTER TABLE t ALTER doc SET STORAGE EXTERNAL;
        INSERT INTO t VALUES ('{key[:1] if type_ == '"char"' else key}', 1, repeat('x', 5000))""",
    )
    source = table_of(postgres.url(database), "id string, n int, doc string", table="t")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "UPDATE t SET n = 2")
    assert [row[1:] for row in catch_up(tmp_path, log, source).table()] == [(2, "x" * 5000)]


def test_timeouts_of_the_server_do_not_end_a_long_snapshot(postgres: Postgres, database: str, values: str) -> None:
    """While a table is read, the connection that created the slot is idle in a transaction."""
    postgres.execute(
        database,
        f"""ALTER DATABASE {database} SET statement_timeout = '1s';
        ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '1s'""",
    )
    server = events_of(values, tables="t").server
    with contextlib.closing(Snapshot(server)) as moment, contextlib.closing(Stream(server, "test")) as stream:
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            assert moment._execute(f"SHOW {name}").fetchone() == ("0",)
            assert stream._run(f"SHOW {name}", threading.Event()).get_value(0, 0) == b"0"
