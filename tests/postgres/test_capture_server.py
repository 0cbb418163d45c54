"""Captures that crash, or whose server goes away, is restored, or lacks slots, publications or privileges."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres.capturing import Log, capture_of, catch_up, error_of, events_of, following, table_of
from tests.servers.postgres import PASSWORD, SETTINGS, Postgres, postgres_server
from tests.servers.processes import free_port, wait_until
from tidegate.connectors.postgres import replication
from tidegate.connectors.postgres.replication import parse_lsn
from tidegate.connectors.postgres.slot import Slot, Watch, default_name

COLUMNS = "id int, n int"
ANEW = "DROP and CREATE customers again: a table is then read as a whole, events go on from now"


@pytest.fixture
def url(postgres: Postgres, database: str) -> str:
    postgres.execute(database, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
    return postgres.url(database)


def slot_of(database: str) -> str:
    return default_name("owner", database)


def content(server: Postgres, database: str, table: str = "t") -> list[tuple[object, ...]]:
    with server.connect(database) as connection:
        return sorted(connection.execute(f"SELECT id, n FROM {table}").fetchall(), key=repr)


def test_a_crash_around_the_append_neither_loses_nor_repeats_changes(
    postgres: Postgres, database: str, url: str, tmp_path: Path
) -> None:
    """What the server sends again is already recorded, and skipped."""
    source, events = table_of(url, COLUMNS, table="t"), events_of(url, "all", tables="t")
    log = catch_up(tmp_path, Log(), source, events)

    def crash() -> None:
        raise KeyboardInterrupt

    for number in range(2, 6):
        postgres.execute(database, f"INSERT INTO t VALUES ({number}, 0); UPDATE t SET n = n + 1")
        before = number % 2 == 0
        log.before, log.after = (crash, lambda: None) if before else (lambda: None, crash)
        with pytest.raises(KeyboardInterrupt):
            catch_up(tmp_path, log, source, events)
        log.before = log.after = lambda: None
        catch_up(tmp_path, log, source, events)
        assert log.table() == content(postgres, database)
    assert [(p["op"], p["row"]["id"]) for p in log.payloads()].count(("INSERT", 5)) == 1
    assert len(log.payloads()) == 4 + 2 + 3 + 4 + 5
    assert len({event["id"] for event in log.events()}) == len(log.events())


def test_crashes_at_random_moments_under_load(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    chance, stop = random.Random(11), threading.Event()

    def load() -> None:
        with postgres.connect(database) as connection:
            for number in range(10, 100_000):
                if stop.is_set():
                    return
                connection.execute(
                    f"INSERT INTO t VALUES ({number}, 0); UPDATE t SET n = n + 1 WHERE id % 7 = {number % 7};"
                    f" DELETE FROM t WHERE id = {number - 40}"
                )

    source, events, log = table_of(url, COLUMNS, table="t"), events_of(url, "all", tables="t"), Log()
    catch_up(tmp_path, log, source, events)
    writer = threading.Thread(target=load)
    writer.start()
    try:
        for _ in range(10):
            remaining = [chance.randrange(4)]

            def crash(remaining: list[int] = remaining) -> None:
                remaining[0] -= 1
                if remaining[0] < 0:
                    raise KeyboardInterrupt

            log.before, log.after = (crash, lambda: None) if chance.random() < 0.5 else (lambda: None, crash)
            with pytest.raises(KeyboardInterrupt), following(capture_of(tmp_path, source, events), log) as until:
                until(lambda: False)
    finally:
        stop.set()
        writer.join()
    log.before = log.after = lambda: None
    catch_up(tmp_path, log, source, events)
    assert log.table() == content(postgres, database)
    ids = [event["id"] for event in log.events()]
    assert len(set(ids)) == len(ids)
    copy = {1: 1}
    for payload in log.payloads():
        if payload["op"] == "DELETE":
            del copy[payload["old"]["id"]]
        else:
            copy[payload["row"]["id"]] = payload["row"]["n"]
    assert sorted(copy.items(), key=repr) == log.table()


def test_the_server_is_restarted(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with postgres_server(tmp_path / "server") as server:
        server.execute("postgres", "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
        capture, log = capture_of(tmp_path, table_of(server.url(), COLUMNS, table="t")), Log()
        for number, end in ((2, server.stop), (3, server.kill)):
            with (
                pytest.raises(
                    OSError, match=f"^the connection to PostgreSQL at 127.0.0.1:{server.port}/postgres broke"
                ),
                following(capture, log) as until,
            ):
                until(lambda: log.position is not None)
                server.execute("postgres", f"INSERT INTO t VALUES ({number}, {number})")
                until(lambda number=number: (number, number) in log.table())  # type: ignore[misc]
                end()
                until(lambda: False)
            with pytest.raises(OSError, match=f"^no PostgreSQL server answers at 127.0.0.1:{server.port}/postgres: "):
                capture.follow(log)
            server.start()
        server.execute("postgres", "DELETE FROM t WHERE id = 1")
        log.stopped.clear()
        capture.catch_up(log)
        assert log.table() == [(2, 2), (3, 3)]


def test_only_recorded_changes_are_confirmed(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    """When rows are about to be recorded, their position has not been confirmed yet."""
    log, early = Log(), list[tuple[int, int]]()

    def check() -> None:
        if log.entries:
            confirmed, recorded = confirmed_lsn(postgres, database), parse_lsn(log.position["lsn"])
            if confirmed > recorded:
                early.append((confirmed, recorded))

    log.before = check
    with following(
        capture_of(tmp_path, table_of(url, COLUMNS, table="t"), events_of(url, "all", tables="t")), log
    ) as until:
        until(lambda: holder(postgres, database) is not None)
        for number in range(10, 40):
            postgres.execute(database, f"INSERT INTO t VALUES ({number}, 0)")
            postgres.execute(database, "UPDATE t SET n = n + 1")
        until(lambda: log.table() == content(postgres, database))
        until(lambda: confirmed_lsn(postgres, database) >= parse_lsn(log.position["lsn"]))
    assert len(log.entries) > 5 and not early


def confirmed_lsn(postgres: Postgres, database: str) -> int:
    """The position up to which the capture has confirmed changes."""
    query = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE database = current_database()"
    with postgres.connect(database) as connection:
        row = connection.execute(query).fetchone()
    return 0 if row is None else int(row[0])


def test_a_slot_that_another_session_drops(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    source = table_of(url, COLUMNS, table="t")
    log = catch_up(tmp_path, Log(), source)
    where, slot = f"127.0.0.1:{postgres.port}/{database}", slot_of(database)
    postgres.execute(database, f"SELECT pg_drop_replication_slot('{slot}')")
    lsn = log.position["lsn"]
    assert error_of(lambda: catch_up(tmp_path, log, source)) == (
        f"PIPELINE_FAILED: slot {slot} is gone from PostgreSQL at {where}\n"
        f"  detail: it was dropped; the changes since {lsn} are lost to customers\n"
        f"  hint: {ANEW}"
    )
    postgres.execute(database, "INSERT INTO t VALUES (2, 2)")
    postgres.execute(database, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    error = error_of(lambda: catch_up(tmp_path, log, source))
    assert error.splitlines()[0].startswith(f"PIPELINE_FAILED: slot {slot} at {where} has moved on to ")
    assert error.splitlines()[1].startswith("  detail: it was made anew, or something else has read it; the changes ")
    capture_of(tmp_path, source).drop_remote_state()
    assert catch_up(tmp_path, Log(), source).table() == [(1, 1), (2, 2)]


def test_a_server_that_was_restored(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    source = table_of(url, COLUMNS, table="t")
    log = catch_up(tmp_path, Log(), source)
    rows, position, rejected = log.entries[-1]
    log.entries.append((rows, position.replace(log.position["lsn"], "FFFF/0", 1), rejected))
    lines = error_of(lambda: catch_up(tmp_path, log, source)).splitlines()
    assert lines[0].startswith(f"PIPELINE_FAILED: PostgreSQL at 127.0.0.1:{postgres.port}/{database} is at 0/")
    assert lines[1].startswith("  detail: it was restored from an older backup, or it is another server; the changes")
    assert lines[2] == f"  hint: {ANEW}"


def test_a_publication_that_another_session_drops(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    postgres.execute(database, "CREATE PUBLICATION mine FOR TABLE t")
    source = table_of(url, COLUMNS, table="t", publication="mine")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "DROP PUBLICATION mine")
    postgres.execute(database, "INSERT INTO t VALUES (2, 2)")
    assert error_of(lambda: catch_up(tmp_path, log, source)) == (
        f"PIPELINE_FAILED: publication mine is gone from PostgreSQL at 127.0.0.1:{postgres.port}/{database}\n"
        f"  detail: the changes since {log.position['lsn']} cannot be told apart any more\n"
        f"  hint: {ANEW}"
    )


def test_a_slot_that_others_use(
    postgres: Postgres, database: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.connectors.postgres import capture as session

    monkeypatch.setattr(session, "_PATIENCE", 0.3)
    log, source = Log(), events_of(url, tables="t", slot=f"mine_{database}")
    with following(capture_of(tmp_path, source), log) as until:
        until(lambda: holder(postgres, database) is not None)
        pid = holder(postgres, database)
        where = f"127.0.0.1:{postgres.port}/{database}"
        assert error_of(lambda: catch_up(tmp_path / "other", Log(), source)) == (
            f"PIPELINE_FAILED: slot mine_{database} at {where} is in use by another process (of the server: {pid})\n"
            "  hint: stop what reads it, or write slot = '...' with a name of its own; or end it: SELECT"
            f" pg_terminate_backend({pid});"
        )
    postgres.execute(database, "CREATE PUBLICATION p FOR TABLE t")
    postgres.execute(database, f"SELECT pg_create_logical_replication_slot('{database}', 'test_decoding')")
    other_plugin = events_of(url, tables="t", slot=database)
    assert error_of(lambda: catch_up(tmp_path, Log(), other_plugin)) == (
        f"PIPELINE_FAILED: slot {database} at 127.0.0.1:{postgres.port}/{database} is one of test_decoding\n"
        "  hint: write slot = '...' with another name"
    )


def holder(postgres: Postgres, database: str) -> int | None:
    with postgres.connect(database) as connection:
        row = connection.execute(
            "SELECT active_pid FROM pg_replication_slots WHERE database = %s", (database,)
        ).fetchone()
    return None if row is None else row[0]


def test_missing_privileges(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    where, guest = f"127.0.0.1:{postgres.port}/{database}", f"guest_{database}"
    postgres.execute(database, f"CREATE ROLE {guest} LOGIN PASSWORD '{PASSWORD}'")
    theirs = url.replace("tidegate:", f"{guest}:")
    assert error_of(lambda: catch_up(tmp_path, Log(), events_of(postgres.url(database, "x-word"), tables="t"))) == (
        f"PIPELINE_FAILED: PostgreSQL at {where} rejected the connection:"
        ' password authentication failed for user "tidegate"\n'
        "  hint: check the user, the password and the name of the database, then start again"
    )
    name = slot_of(database)
    assert error_of(lambda: catch_up(tmp_path, Log(), events_of(theirs, tables="t"))) == (
        f"PIPELINE_FAILED: {guest} may not publish changes at {where}: permission denied for database {database}\n"
        "  hint: as the owner of the tables or a superuser:"
        f" CREATE PUBLICATION {name} FOR TABLE public.t WITH (publish_via_partition_root = true); then start again"
    )
    postgres.execute(database, f"CREATE PUBLICATION {name} FOR TABLE public.t WITH (publish_via_partition_root = true)")
    assert error_of(lambda: catch_up(tmp_path, Log(), events_of(theirs, tables="t"))) == (
        f"PIPELINE_FAILED: PostgreSQL at {where} does not let {guest} follow changes:"
        " must be superuser or replication role to start walsender\n"
        f"  hint: as a superuser: ALTER ROLE {guest} REPLICATION; then start again"
    )
    postgres.execute(database, f"ALTER ROLE {guest} REPLICATION")
    assert error_of(lambda: catch_up(tmp_path, Log(), table_of(theirs, COLUMNS, table="t"))) == (
        f"PIPELINE_FAILED: {guest} may not read public.t at {where}: permission denied for table t\n"
        f"  hint: as its owner: GRANT SELECT ON public.t TO {guest}; then start again"
    )
    postgres.execute(database, f"GRANT SELECT ON t TO {guest}")
    assert catch_up(tmp_path, Log(), table_of(theirs, COLUMNS, table="t")).table() == [(1, 1)]
    postgres.execute(database, f"DROP OWNED BY {guest}")


def test_tables_that_cannot_be_followed(postgres: Postgres, database: str, url: str, tmp_path: Path) -> None:
    where = f"127.0.0.1:{postgres.port}/{database}"
    postgres.execute(
        database,
        "CREATE VIEW v AS SELECT * FROM t; CREATE TABLE bare (id int, n int); CREATE PUBLICATION p FOR TABLE bare",
    )

    def error_for(source: Callable[[], object]) -> str:
        return error_of(lambda: catch_up(tmp_path, Log(), source()))  # type: ignore[arg-type]

    assert error_for(lambda: events_of(url, tables="sales.nope")) == (
        f"PIPELINE_FAILED: there is no table sales.nope at {where}\n"
        "  hint: create it, or correct table = 'sales.nope'; names are written as the database spells them"
    )
    assert error_for(lambda: events_of(url, tables="v")) == (
        f"PIPELINE_FAILED: v at {where} is not a table, so it has no changes to follow\n"
        "  hint: follow the tables that it reads"
    )
    assert error_for(lambda: events_of(url, tables="bare")) == (
        "PIPELINE_FAILED: table public.bare has no replica identity: PostgreSQL would refuse every UPDATE and DELETE of"
        " it once it is published\n"
        "  hint: ALTER TABLE public.bare REPLICA IDENTITY FULL; or give it a primary key. If rows only ever come:"
        " CREATE PUBLICATION inserts FOR TABLE public.bare WITH (publish = 'insert'); and write"
        " publication = 'inserts'"
    )
    assert error_for(lambda: table_of(url, COLUMNS, key="n", table="t")) == (
        "PIPELINE_FAILED: customers has the key (n), but table public.t tells its old rows by (id)\n"
        "  hint: PRIMARY KEY (id) in customers, or ALTER TABLE public.t REPLICA IDENTITY FULL; then start again"
    )
    assert error_for(lambda: events_of(url, tables="bare, t", publication="p")) == (
        f"PIPELINE_FAILED: publication p at {where} does not have public.t\n"
        "  hint: ALTER PUBLICATION p ADD TABLE public.t; then start again"
    )
    assert error_for(lambda: events_of(url, tables="*", publication="p")) == (
        f"PIPELINE_FAILED: publication p at {where} is not for all tables\n"
        "  hint: name the tables in tables = '...', or leave out publication to have one made"
    )
    postgres.execute(database, 'CREATE PUBLICATION "some" FOR TABLE t WITH (publish = $$insert, update$$)')
    assert error_for(lambda: table_of(url, COLUMNS, table="t", publication="some")) == (
        "PIPELINE_FAILED: publication some leaves out delete, truncate, so public.t could not be followed exactly\n"
        "  hint: ALTER PUBLICATION \"some\" SET (publish = 'insert, update, delete, truncate'); then start again"
    )


def test_no_free_replication_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server").mkdir()
    monkeypatch.setitem(SETTINGS, "max_replication_slots", "1")
    with postgres_server(tmp_path / "server") as server:
        server.execute("postgres", "CREATE TABLE t (id int PRIMARY KEY)")
        catch_up(tmp_path, Log(), events_of(server.url(), tables="t"))
        assert error_of(lambda: catch_up(tmp_path, Log(), events_of(server.url(), tables="t", slot="second"))) == (
            f"PIPELINE_FAILED: PostgreSQL at 127.0.0.1:{server.port}/postgres has no room for another slot:"
            " all replication slots are in use\n"
            "  hint: raise max_replication_slots and restart the server, or drop a slot that is not needed: SELECT"
            " pg_drop_replication_slot('...');"
        )


def test_no_server(tmp_path: Path) -> None:
    port = free_port()
    capture = capture_of(tmp_path, events_of(f"postgresql://app:{PASSWORD}@127.0.0.1:{port}/shop", tables="t"))
    with pytest.raises(OSError) as caught:
        capture.catch_up(Log())
    assert str(caught.value).startswith(f"no PostgreSQL server answers at 127.0.0.1:{port}/shop: ")
    assert PASSWORD not in str(caught.value)


def test_a_server_that_removed_wal_of_the_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server").mkdir()
    with postgres_server(tmp_path / "server") as server:
        server.execute("postgres", "ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'")
        server.execute("postgres", "SELECT pg_reload_conf(); CREATE TABLE t (id int PRIMARY KEY, n int)")
        source = table_of(server.url(), COLUMNS, table="t")
        log = catch_up(tmp_path, Log(), source)
        with server.connect() as connection:
            for _ in range(5):
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1")
            connection.execute("CHECKPOINT")
        where = f"127.0.0.1:{server.port}/postgres"
        lines = error_of(lambda: catch_up(tmp_path, log, source)).splitlines()
        assert lines[0] == f"PIPELINE_FAILED: slot {slot_of('postgres')} at {where} has lost changes"
        why = "the server gave it up, because it held back more WAL than max_slot_wal_keep_size"
        assert lines[1].startswith(f"  detail: {why}; the changes since ")
        assert lines[2] == f"  hint: {ANEW}"
        capture_of(tmp_path, source).drop_remote_state()
        server.stop()
        monkeypatch.setitem(SETTINGS, "wal_level", "replica")
        server.start()
        assert error_of(lambda: catch_up(tmp_path, Log(), source)) == (
            f"PIPELINE_FAILED: PostgreSQL at {where} has wal_level = replica, which keeps too little to follow"
            " changes\n"
            "  hint: as a superuser: ALTER SYSTEM SET wal_level = logical; then restart the server"
        )


def test_a_slot_that_retains_too_much_wal_is_logged(
    postgres: Postgres, database: str, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = events_of(url, tables="t", max_slot_lag="1kb")
    log = catch_up(tmp_path, Log(), source)
    postgres.execute(database, "INSERT INTO t SELECT n FROM generate_series(10, 2000) AS n")
    capture = capture_of(tmp_path, source)
    caplog.clear()
    capture.catch_up(log)
    slot = f"slot {slot_of(database)} at 127.0.0.1:{postgres.port}/{database} holds back "
    [message] = caplog.messages
    assert message.startswith(slot) and message.endswith(
        "of WAL: more than max_slot_lag = 1 kB, and the server's disk may fill; let the pipeline catch up, or drop what"
        " is not needed"
    )
    figures = capture.metrics()
    assert figures["rows_taken_total"] == 1991
    assert 0 <= figures["slot_lag_bytes"] < figures["slot_retained_bytes"]


def test_a_slot_that_is_about_to_be_invalidated_is_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(1 << 30, events_of(url, tables="t").server)
    place = events_of(url, tables="t").server.place
    for retained, status in ((10 << 20, "reserved"), (90 << 20, "reserved"), (95 << 20, "unreserved"), (1, "reserved")):
        watch.look(Slot("ours", 0, 0, None, status, retained, 0, 100 << 20))
    assert caplog.messages == [
        f"slot ours at {place} holds back 90 MB of WAL: the server gives it up at max_slot_wal_keep_size = 100 MB, and"
        " changes would be lost; let the pipeline catch up, or raise that setting"
    ]


def test_an_idle_table_holds_no_wal(
    postgres: Postgres, database: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.connectors.postgres import following as pace

    monkeypatch.setattr(pace, "IDLE", 0.05)
    postgres.execute(database, "CREATE TABLE busy (id int)")
    source, log = events_of(url, tables="t"), Log()

    with following(capture_of(tmp_path, source), log) as until:
        until(lambda: confirmed_lsn(postgres, database) > 0)
        first = confirmed_lsn(postgres, database)
        postgres.execute(database, "INSERT INTO busy SELECT n FROM generate_series(1, 2000) AS n")
        until(lambda: confirmed_lsn(postgres, database) > first + 100_000)
    assert len(log.entries) == 1
    postgres.execute(database, "INSERT INTO t VALUES (7, 7)")
    assert len(catch_up(tmp_path, log, source).events()) == 1


def test_slot_and_publication_go_with_the_relations_unless_named_by_the_user(
    postgres: Postgres, database: str, url: str, tmp_path: Path
) -> None:
    def remote_state() -> tuple[list[str], list[str]]:
        with postgres.connect(database) as connection:
            slots = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
            publications = connection.execute("SELECT pubname FROM pg_publication ORDER BY 1")
            return [row[0] for row in slots.fetchall()], [row[0] for row in publications.fetchall()]

    name = slot_of(database)
    source = events_of(url, tables="t")
    catch_up(tmp_path, Log(), source)
    assert remote_state() == ([name], [name])
    capture_of(tmp_path, source).drop_remote_state()
    assert remote_state() == ([], [])
    with pytest.raises(OSError, match="broke"), following(capture_of(tmp_path, source), Log()) as until:
        until(lambda: holder(postgres, database) is not None)
        capture_of(tmp_path, source).drop_remote_state()
        until(lambda: False)
    assert remote_state() == ([], [])
    postgres.execute(database, "CREATE PUBLICATION mine FOR TABLE t")
    named_source = events_of(url, tables="t", publication="mine", slot=f"mine_{database}")
    log = catch_up(tmp_path, Log(), named_source)
    capture_of(tmp_path, named_source).drop_remote_state()
    assert remote_state() == ([], ["mine"])
    postgres.execute(database, f"SELECT pg_create_logical_replication_slot('mine_{database}', 'pgoutput')")
    postgres.execute(database, "INSERT INTO t VALUES (5, 5)")
    catch_up(tmp_path, log, named_source)
    assert [payload["row"]["id"] for payload in log.payloads()] == [5]
    capture_of(tmp_path, named_source).drop_remote_state()
    assert remote_state() == ([f"mine_{database}"], ["mine"])


def test_a_capture_that_waits_for_open_transactions_says_so_and_can_be_stopped(
    postgres: Postgres,
    database: str,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Creating a slot waits for open transactions."""
    monkeypatch.setattr(replication, "_NOTE", 0.1)
    log = Log()
    with postgres.connect(database) as other:
        other.execute("BEGIN; INSERT INTO t VALUES (50, 50)")
        with following(capture_of(tmp_path, events_of(url, tables="t")), log):
            wait_until(lambda: "waits" in caplog.text, "the note")
        assert log.entries == []
    assert caplog.messages == [
        f"slot {slot_of(database)} at 127.0.0.1:{postgres.port}/{database} waits for transactions that are open at the"
        " server to end; they are in SELECT pid, state, xact_start, query FROM pg_stat_activity WHERE backend_xid"
        " IS NOT NULL"
    ]
