"""`INTO POSTGRES` against a real server: each step is written exactly once, also after crashes."""

from __future__ import annotations

import datetime as dt
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.postgres.sinks import KEY, Shop, build_sink, changes, one
from tests.servers.postgres import PASSWORD, USER, Postgres, postgres_server
from tests.servers.processes import free_port
from tidegate.catalog.bus import EVENTS
from tidegate.connectors.contract import SinkContext
from tidegate.core.schema import Column, Schema
from tidegate.errors import Error
from tidegate.formats.events import Event, rows_of


@pytest.fixture
def shop(postgres: Postgres, database: str) -> Iterator[Shop]:
    created = Shop(postgres, database)
    yield created
    created.close()


def test_an_upsert_leaves_the_newest_row_of_each_key(shop: Shop) -> None:
    sink = shop.open_sink(KEY)
    assert sink.abilities.accepts == "upsert"
    sink.write(1, changes(1, ("+I", 1, "pen", 5), ("+I", 1, "ink", 2), ("+I", 1, "cap", 1)))
    sink.write(2, changes(2, ("-D", -1, "ink", 2), ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    assert shop.rows() == [("cap", 1), ("pen", 6)]
    assert shop.types() == {"item": "text", "total": "bigint"}
    assert shop.rows("SELECT owner, step FROM tidegate_steps") == [("pipeline 1", 2)]


def test_the_last_of_several_changes_of_a_key_counts(shop: Shop) -> None:
    sink = shop.open_sink(KEY)
    sink.write(1, changes(1, ("+I", 1, "pen", 1), ("+I", 1, "ink", 1)))
    sink.write(
        2,
        changes(
            2,
            ("-U", -1, "pen", 1),
            ("-U", -1, "ink", 1),
            ("-D", -1, "cap", 1),
            ("+U", 1, "pen", 2),
            ("+U", 1, "pen", 3),
        ),
    )
    assert shop.rows() == [("pen", 3)]


def test_null_is_a_value_of_a_key(shop: Shop) -> None:
    columns: Schema = (Column("region", "string"), Column("item", "string"), Column("total", "bigint"))
    sink = shop.open_sink(("region", "item"), columns)
    first = [("eu", None, 1), (None, None, 2), (None, "pen", 3), ("eu", "pen", 4)]
    sink.write(1, changes(1, *(("+I", 1, *row) for row in first), columns=columns))
    later = [("-D", -1, "eu", None, 1), ("-D", -1, "eu", "pen", 4), ("-U", -1, None, None, 2), ("+U", 1, None, None, 9)]
    sink.write(2, changes(2, *later, columns=columns))
    assert shop.rows() == [(None, "pen", 3), (None, None, 9)]


def test_a_key_without_nulls_is_a_primary_key(shop: Shop) -> None:
    sink = shop.open_sink(KEY, (Column("item", "string", nullable=False), Column("total", "bigint")))
    sink.write(1, one(1))
    assert shop.rows("SELECT contype::text FROM pg_constraint WHERE conrelid = 'revenue'::regclass") == [("p",)]


def test_null_in_a_not_null_key_is_an_error(shop: Shop) -> None:
    shop.run("CREATE TABLE revenue (item text UNIQUE, total bigint)")
    sink = shop.open_sink(KEY)
    with pytest.raises(Error) as caught:
        sink.write(1, one(1, None))
    assert str(caught.value) == (
        "PIPELINE_FAILED: a row has NULL in its key item, which no unique index of table public.revenue takes for a"
        ' value\n  hint: CREATE UNIQUE INDEX ON "public"."revenue" ("item") NULLS NOT DISTINCT (from PostgreSQL 15 on;'
        " a primary key has to go first), or leave such rows out of the view"
    )
    assert shop.rows() == [] and shop.rows("SELECT * FROM tidegate_steps") == []
    shop.run('CREATE UNIQUE INDEX ON "public"."revenue" ("item") NULLS NOT DISTINCT')
    sink.write(1, one(1, None))
    sink.write(2, one(2, None))
    assert shop.rows() == [(None, 2)]


def test_a_table_with_key_columns_only(shop: Shop) -> None:
    columns: Schema = (Column("item", "string"),)
    sink = shop.open_sink(KEY, columns)
    sink.write(1, changes(1, ("+I", 1, "pen"), ("+I", 1, "ink"), columns=columns))
    sink.write(2, changes(2, ("+I", 1, "pen"), ("-D", -1, "ink"), columns=columns))
    assert shop.rows("SELECT * FROM revenue") == [("pen",)]


def test_rows_are_appended_as_often_as_their_weight_says(shop: Shop) -> None:
    sink = shop.open_sink()
    assert sink.abilities.accepts == "append"
    sink.write(3, changes(3, ("+I", 2, "pen", 5), ("+I", 1, None, None)))
    assert shop.rows() == [("pen", 5), ("pen", 5), (None, None)]
    with pytest.raises(Error) as caught:
        sink.write(4, changes(4, ("-D", -1, "pen", 5)))
    assert str(caught.value) == (
        "SINK_CANNOT_TAKE: sink out appends rows, but step 4 takes rows back\n  hint: write mode = 'changelog'"
    )
    assert shop.rows("SELECT step FROM tidegate_steps") == [(3,)]


def test_a_changelog_contains_every_change(shop: Shop) -> None:
    sink = shop.open_sink(KEY, mode="changelog")
    assert sink.abilities.accepts == "changelog"
    sink.write(3, changes(3, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    assert shop.rows("SELECT op, weight, step, item, total FROM revenue") == [
        ("-U", -1, 3, "pen", 5),
        ("+U", 1, 3, "pen", 6),
    ]


def test_events_are_appended_with_their_payload_as_json(shop: Shop) -> None:
    sink = shop.open_sink(columns=EVENTS.columns)
    events = rows_of(
        [
            Event("1", "pgcdc:orders", "INSERT", '{"row": {"id": 7}}', "shop", 1_714_564_803_250_000, '{"xid": 9}'),
            Event("2", "news", "INSERT", "no JSON \\ at all", "shop", 1_714_564_804_000_000),
        ]
    )
    head = {"op": ["+I"] * 2, "weight": [1, 1], "step": [4, 4]}
    sink.write(4, pa.table([*head.values(), *events.columns], names=[*head, *events.column_names]))
    query = "SELECT id, channel, payload, created_at, transaction FROM revenue ORDER BY id"
    time = dt.datetime(2024, 5, 1, 12, 0, 3, 250_000, dt.UTC)
    assert shop.rows(query) == [
        ("1", "pgcdc:orders", {"row": {"id": 7}}, time, {"xid": 9}),
        ("2", "news", "no JSON \\ at all", time + dt.timedelta(microseconds=750_000), None),
    ]
    assert shop.types()["payload"] == shop.types()["transaction"] == "jsonb"


def test_a_repeated_step_is_written_once(shop: Shop) -> None:
    first = shop.open_sink()
    assert first.last_step() is None
    for step in (1, 2, 2):
        first.write(step, one(step))
    assert first.last_step() == 2
    again = shop.open_sink()
    assert again.last_step() == 2
    again.write(2, one(2))
    again.write(3, one(3))
    assert shop.rows() == [("pen", 1), ("pen", 2), ("pen", 3)]


def test_a_stale_process_writes_nothing_twice(shop: Shop) -> None:
    old, new = shop.open_sink(), shop.open_sink()
    new.write(1, one(1))
    old.write(1, one(1))
    assert shop.rows() == [("pen", 1)]


def test_a_step_without_changes_writes_nothing(shop: Shop) -> None:
    shop.open_sink().write(1, changes(1))
    assert shop.rows("SELECT * FROM tidegate_steps") == []


def test_each_pipeline_has_its_own_last_step(shop: Shop) -> None:
    shop.open_sink(steps_table="public.numbers").write(5, one(5))
    other = shop.open_sink(owner="pipeline 2", steps_table="public.numbers")
    assert other.last_step() is None
    other.write(1, one(1))
    assert shop.rows("SELECT owner, step FROM numbers ORDER BY 1") == [("pipeline 1", 5), ("pipeline 2", 1)]


def test_a_session_that_the_server_ended_is_reopened(shop: Shop) -> None:
    sink = shop.open_sink(KEY)
    sink.write(1, one(1))
    shop.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'"
        " AND datname = current_database()"
    )
    sink.write(2, one(2))
    assert shop.rows() == [("pen", 2)]


@pytest.mark.server
def test_a_killed_server_continues_after_a_restart(tmp_path: Path) -> None:
    with postgres_server(tmp_path) as server:
        shop = Shop(server, "postgres")
        sink = shop.open_sink(KEY)
        sink.write(1, one(1))
        server.kill()
        for _ in range(2):
            with pytest.raises(OSError, match=f"no PostgreSQL server answers at {re.escape(shop.place)}: "):
                sink.write(2, one(2))
        server.start()
        sink.write(2, one(2))
        assert shop.rows() == [("pen", 2)] and shop.open_sink(KEY).last_step() == 2
        shop.close()


def test_an_unreachable_server_is_an_oserror() -> None:
    port = free_port()
    with pytest.raises(OSError) as away:
        build_sink({"url": f"postgresql://127.0.0.1:{port}/shop", "table": "t"}).open(SinkContext("out", Path(), "one"))
    assert str(away.value).startswith(f"no PostgreSQL server answers at 127.0.0.1:{port}/shop: ")


def test_a_wrong_password_is_an_error_that_does_not_show_it(shop: Shop) -> None:
    error = shop.open_error(url=shop.server.url(shop.database, "wr0ng-word"))
    assert error == (
        f"PIPELINE_FAILED: PostgreSQL at {shop.place} rejected the connection: password authentication failed for user"
        f' "{USER}"\n  hint: check the user, the password and the name of the database, then start again'
    )
    assert PASSWORD not in repr(shop.open_sink().options)


WRITER = """
import sys
from tests.postgres.sinks import KEY, Shop, changes
from tests.servers.postgres import Postgres
sink = Shop(Postgres.at(sys.argv[1]), sys.argv[2]).open_sink(KEY if sys.argv[3] == "upsert" else ())
print("ready", flush=True)
for step in range((sink.last_step() or 0) + 1, 100_000):
    sink.write(step, changes(step, *(("+I", 1, f"{step}-{row}", step) for row in range(500))))
    print(step, flush=True)
"""


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_kill_at_any_moment_neither_loses_nor_repeats_a_step(shop: Shop, mode: str) -> None:
    for life in range(2):
        command = [sys.executable, "-c", WRITER, shop.server.address, shop.database, mode]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            for _ in range(5 + 4 * life):
                assert process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
    last = shop.open_sink(KEY if mode == "upsert" else ()).last_step() or 0
    assert last >= 14
    query = "SELECT total, count(*), count(DISTINCT item) FROM revenue GROUP BY total ORDER BY total"
    assert shop.rows(query) == [(step, 500, 500) for step in range(1, last + 1)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_sinks_can_write_concurrently(shop: Shop, mode: str) -> None:
    """They start at the same time, so any of them may create the table, and write to the same one."""
    problems = list[BaseException]()

    def work(number: int) -> None:
        try:
            sink = shop.open_sink(KEY if mode == "upsert" else (), owner=f"pipeline {number}", mode=mode)
            for step in range(1, 21):
                sink.write(step, one(step, f"item {number}"))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    steps = [(f"item {number}", step) for number in range(4) for step in (range(1, 21) if mode == "append" else [20])]
    assert shop.rows() == steps
    assert shop.rows("SELECT DISTINCT step, COUNT(*) FROM tidegate_steps GROUP BY step") == [(20, 4)]
