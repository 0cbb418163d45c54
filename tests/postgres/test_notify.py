"""Notifications as events."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.capturing import START, Log, following
from tests.servers.postgres import PASSWORD, Postgres, postgres_server
from tidegate.connectors.contract import Capture, CaptureContext, SourceSpec
from tidegate.connectors.postgres.notify import NotifySource
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.errors import Error


def build_source(columns: Schema = (), **options: str) -> NotifySource:
    bag = Bag("NOTIFY", [(name, value, None) for name, value in options.items()])
    source = NotifySource.build(SourceSpec("NOTIFY", "calls", columns, options), bag)
    bag.finish()
    return source


def capture(folder: Path, **options: str) -> Capture:
    return build_source(**options).capture((), CaptureContext("owner", folder, lambda: START))


def listening(postgres: Postgres, database: str, channels: int) -> bool:
    with postgres.connect(database) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%%'"
            " AND state = 'idle'"
        ).fetchone()
    return row == (channels,)


def test_each_notification_is_an_event(postgres: Postgres, database: str, tmp_path: Path) -> None:
    log, runs = Log(), capture(tmp_path, url=postgres.url(database), channels='orders, The "Other"')
    runs.catch_up(log)
    assert log.entries == []
    with following(runs, log) as until:
        until(lambda: listening(postgres, database, 1))
        postgres.execute(
            database, """NOTIFY orders, '{"amount": 1.50}'; NOTIFY "The ""Other""\", 'hello'; NOTIFY orders"""
        )
        postgres.execute(database, "NOTIFY others, 'unheard'")
        until(lambda: len(log.events()) == 3)
    with following(runs, log) as until:
        until(lambda: listening(postgres, database, 1))
        postgres.execute(database, "NOTIFY orders, '7'")
        until(lambda: len(log.events()) == 4)
    assert [(e["id"], e["channel"], e["operation"], e["payload"], e["source"]) for e in log.events()] == [
        ("calls-1", "orders", "INSERT", {"amount": 1.5}, "calls"),
        ("calls-2", 'The "Other"', "INSERT", {"payload": "hello"}, "calls"),
        ("calls-3", "orders", "INSERT", {"payload": ""}, "calls"),
        ("calls-4", "orders", "INSERT", 7, "calls"),
    ]
    assert runs.metrics() == {"rows_taken_total": 4.0}


@pytest.mark.server
def test_a_server_that_goes_away(tmp_path: Path) -> None:
    with postgres_server(tmp_path) as server:
        runs, log = capture(tmp_path, url=server.url(), channels="orders"), Log()
        with pytest.raises(OSError, match=r"^the connection to PostgreSQL at .* broke"), following(runs, log) as until:
            until(lambda: listening(server, "postgres", 1))
            server.kill()
            until(lambda: False)
        log.stopped.clear()
        with pytest.raises(OSError, match=r"^no PostgreSQL server answers at ") as caught:
            runs.follow(log)
        assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            (Column("id", "bigint"),),
            {"channels": "a"},
            "NOT_SUPPORTED: NOTIFY gives events, so calls has no columns of its own\n"
            "  hint: CREATE SOURCE calls FROM NOTIFY (...), and read pgcdc_events",
        ),
        ((), {}, "MISSING_OPTION: NOTIFY needs option 'channels'\n  hint: add channels = 'orders, payments'"),
        (
            (),
            {"channels": "a,,b"},
            "INVALID_OPTION: option 'channels' cannot be 'a,,b'\n"
            "  hint: expected names such as 'orders, payments', of at most 63 bytes each",
        ),
    ],
)
def test_invalid_options(columns: Schema, options: dict[str, str], message: str) -> None:
    with pytest.raises(Error) as caught:
        build_source(columns, url="postgresql://db.example/shop", **options)
    assert str(caught.value) == message
