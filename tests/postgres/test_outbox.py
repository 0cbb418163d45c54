"""Rows of an outbox table as events."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.postgres.capturing import START, Log, error_of, following
from tests.servers.postgres import PASSWORD, Postgres, postgres_server
from tidegate.connectors.contract import Capture, CaptureContext, SourceSpec
from tidegate.connectors.postgres.outbox import OutboxSource
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema

TABLE = """CREATE TABLE outbox (
    id bigserial PRIMARY KEY, channel text NOT NULL, operation text, payload jsonb, created_at timestamptz
)"""


def build_source(columns: Schema = (), **options: str) -> OutboxSource:
    bag = Bag("OUTBOX", [(name, value, None) for name, value in options.items()])
    source = OutboxSource.build(SourceSpec("OUTBOX", "sent", columns, options), bag)
    bag.finish()
    return source


def capture(folder: Path, url: str, **options: str) -> Capture:
    return build_source(url=url, **options).capture((), CaptureContext("owner", folder, lambda: START))


def remaining(postgres: Postgres, database: str, what: str = "count(*)", table: str = "outbox") -> object:
    with postgres.connect(database) as connection:
        row = connection.execute(f"SELECT {what} FROM {table}").fetchone()
    assert row is not None
    return row[0]


def test_rows_become_events_and_are_deleted(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, TABLE)
    postgres.execute(
        database,
        """INSERT INTO outbox (channel, operation, payload, created_at) VALUES
        ('orders', 'update', '{"a": 1}', '2024-05-01 12:00+02'), ('mails', 'MailSent', NULL, NULL),
        ('orders', NULL, '[1]', NULL)""",
    )
    log, runs = Log(), capture(tmp_path, postgres.url(database))
    runs.catch_up(log)
    assert [
        (e["id"], e["channel"], e["operation"], e["payload"], e["source"], e["transaction"]) for e in log.events()
    ] == [
        ("sent-1", "orders", "UPDATE", {"a": 1}, "sent", {"id": "1", "created_at": "2024-05-01T10:00:00Z"}),
        ("sent-2", "mails", "MailSent", None, "sent", {"id": "2"}),
        ("sent-3", "orders", "INSERT", [1], "sent", {"id": "3"}),
    ]
    assert remaining(postgres, database) == 0
    with following(runs, log) as until:
        postgres.execute(database, "INSERT INTO outbox (channel, payload) VALUES ('late', '{}')")
        until(lambda: len(log.events()) == 4)
    assert remaining(postgres, database) == 0
    assert runs.metrics() == {"rows_taken_total": 4.0}


def test_other_columns_and_rows_that_are_marked_instead_of_deleted(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    postgres.execute(
        database,
        """CREATE SCHEMA app; CREATE TABLE app."Box" (key uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            aggregatetype text, type text, body text, done timestamptz, n serial);
        INSERT INTO app."Box" (aggregatetype, type, body) VALUES ('order', 'OrderPaid', 'plain words')""",
    )
    options = {"table": "app.Box", "id_column": "key", "payload_column": "body", "keep": "true"}
    url, log = postgres.url(database), Log()
    assert error_of(lambda: capture(tmp_path, url, **options).catch_up(log)) == (
        f'PIPELINE_FAILED: outbox app."Box" at 127.0.0.1:{postgres.port}/{database} has no column processed_at\n'
        "  detail: its columns are key, aggregatetype, type, body, done, n\n"
        '  hint: ALTER TABLE app."Box" ADD COLUMN processed_at timestamptz; then start again'
    )
    runs = capture(tmp_path, url, **options, processed_column="done", created_at_column="n")
    runs.catch_up(log)
    runs.catch_up(log)
    (event,) = log.events()
    assert (event["channel"], event["operation"], event["payload"]) == (
        "order",
        "OrderPaid",
        {"payload": "plain words"},
    )
    assert remaining(postgres, database, "count(done)", 'app."Box"') == 1
    assert error_of(lambda: capture(tmp_path, url, table="app.Box").catch_up(log)) == (
        f'PIPELINE_FAILED: outbox app."Box" at 127.0.0.1:{postgres.port}/{database} has no column id\n'
        "  detail: its columns are key, aggregatetype, type, body, done, n\n"
        "  hint: say which one it is: id_column = '...'"
    )


def test_crashes_before_and_after_the_append(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, TABLE)
    log, runs = Log(), capture(tmp_path, postgres.url(database), batch_size="10")

    def crash() -> None:
        raise KeyboardInterrupt

    for number in range(6):
        postgres.execute(database, "INSERT INTO outbox (channel, payload) SELECT 'c', '1' FROM generate_series(1, 7)")
        log.before, log.after = (crash, lambda: None) if number % 2 else (lambda: None, crash)
        with pytest.raises(KeyboardInterrupt):
            runs.catch_up(log)
        log.before = log.after = lambda: None
        if number % 3 == 2:
            runs.catch_up(log)
    runs.catch_up(log)
    assert [event["transaction"]["id"] for event in log.events()] == [str(number) for number in range(1, 43)]
    assert remaining(postgres, database) == 0


def test_rows_of_open_transactions_are_not_lost(postgres: Postgres, database: str, tmp_path: Path) -> None:
    """A row with a smaller id can be committed after one with a larger id."""
    postgres.execute(database, TABLE)
    log, runs, count = Log(), capture(tmp_path, postgres.url(database), poll_interval="10ms", batch_size="5"), 40

    def write(first: int) -> None:
        with postgres.connect(database) as connection:
            for _ in range(first, first + count // 2):
                connection.execute("BEGIN; INSERT INTO outbox (channel) VALUES ('c'), ('c')")
                connection.execute("COMMIT")

    with following(runs, log) as until:
        writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        until(lambda: len(log.events()) == 2 * count)
    assert sorted(int(event["transaction"]["id"]) for event in log.events()) == list(range(1, 2 * count + 1))


def test_missing_privileges_and_tables(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(database, TABLE)
    where, guest = f"127.0.0.1:{postgres.port}/{database}", f"guest_{database}"
    postgres.execute(database, f"CREATE ROLE {guest} LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON outbox TO {guest}")
    url = postgres.url(database).replace("tidegate:", f"{guest}:")
    assert error_of(lambda: capture(tmp_path, url).catch_up(Log())) == (
        f"PIPELINE_FAILED: {guest} may not take rows out of outbox at {where}: permission denied for table outbox\n"
        f"  hint: as its owner: GRANT SELECT, UPDATE, DELETE ON outbox TO {guest}; then start again"
    )
    assert error_of(lambda: capture(tmp_path, url, table="nope").catch_up(Log())) == (
        f"PIPELINE_FAILED: there is no table nope at {where}\n"
        "  hint: create it, or correct table = 'nope'; names are written as the database spells them"
    )
    assert error_of(lambda: build_source((Column("id", "bigint"),), url=url)) == (
        "NOT_SUPPORTED: OUTBOX gives events, so sent has no columns of its own\n"
        "  hint: CREATE SOURCE sent FROM OUTBOX (...), and read pgcdc_events"
    )
    postgres.execute(database, f"DROP OWNED BY {guest}")


def test_an_id_of_any_type(postgres: Postgres, database: str, tmp_path: Path) -> None:
    postgres.execute(
        database,
        """CREATE TABLE outbox (id char(26) PRIMARY KEY, channel text, payload text);
        INSERT INTO outbox VALUES ('01HZX', 'c', '{}'), ('01HZY', 'c', '{}')""",
    )
    log, runs = Log(), capture(tmp_path, postgres.url(database))
    runs.catch_up(log)
    runs.catch_up(log)
    assert (len(log.events()), remaining(postgres, database)) == (2, 0)


def test_rows_that_cannot_be_deleted_are_not_recorded(postgres: Postgres, database: str, tmp_path: Path) -> None:
    """They would become events again and again."""
    postgres.execute(database, "CREATE TABLE outbox (id int, channel text, payload text)")
    postgres.execute(database, "INSERT INTO outbox VALUES (1, 'c', '{}'), (NULL, 'c', '{}')")
    log, runs = Log(), capture(tmp_path, postgres.url(database))
    assert error_of(lambda: runs.catch_up(log)) == (
        f"PIPELINE_FAILED: 2 rows of outbox at 127.0.0.1:{postgres.port}/{database} would be taken, but 1 deleted\n"
        "  detail: the id is not unique or is NULL, or a trigger, a rule or a policy of the table is in the way\n"
        "  hint: mend that, then start again; nothing was taken"
    )
    assert (log.entries, remaining(postgres, database)) == ([], 2)
    postgres.execute(database, "UPDATE outbox SET id = 2 WHERE id IS NULL")
    runs.catch_up(log)
    assert (len(log.events()), remaining(postgres, database)) == (2, 0)


@pytest.mark.server
def test_the_server_is_restarted(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with postgres_server(tmp_path / "server") as server:
        server.execute("postgres", TABLE)
        log, runs = Log(), capture(tmp_path, server.url(), poll_interval="10ms")
        for number, end in ((1, server.stop), (2, server.kill)):
            with pytest.raises(OSError, match="the connection to PostgreSQL"), following(runs, log) as until:
                server.execute("postgres", "INSERT INTO outbox (channel) VALUES ('c')")
                until(lambda number=number: len(log.events()) == number)  # type: ignore[misc]
                end()
                until(lambda: False)
            with pytest.raises(OSError, match=f"^no PostgreSQL server answers at 127.0.0.1:{server.port}/postgres: "):
                runs.follow(log)
            server.start()
        server.execute("postgres", "INSERT INTO outbox (channel) VALUES ('c')")
        log.stopped.clear()
        runs.catch_up(log)
        assert [event["channel"] for event in log.events()] == ["c"] * 3
        assert len({event["id"] for event in log.events()}) == 3
        assert remaining(server, "postgres") == 0
