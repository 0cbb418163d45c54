"""`INTO REDIS` against a real server: each step is written exactly once, also after crashes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.servers.processes import free_port
from tests.servers.redis import PASSWORD, Redis, redis_server
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.connectors.contract import SinkContext, SinkSpec
from tidegate.connectors.redis.client import Connection
from tidegate.connectors.redis.sink import RedisSink
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_schema
from tidegate.errors import Error, Span
from tidegate.formats.events import Event, rows_of

VIEW: Schema = (Column("item", "string"), Column("total", "bigint"))
PAIRS: Schema = (Column("region", "string"), Column("item", "string"))


def changes(step: int, *rows: tuple[Any, ...], columns: Schema = VIEW) -> pa.Table:
    """The rows (op, weight, values ...) of a step, as a sink receives them."""
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(columns)])
    records = [(op, weight, step, *values) for op, weight, *values in rows]
    return pa.table([list(column) for column in zip(*records, strict=True)] or [[]] * len(schema), schema=schema)


def build_sink(
    options: dict[str, str], columns: Schema = VIEW, key: tuple[str, ...] = (), reads: str = "totals"
) -> RedisSink:
    bag = Bag("REDIS", [(name, value, Span(3, 9)) for name, value in options.items()])
    sink = RedisSink.build(SinkSpec("REDIS", "out", columns, options, None, key, reads), bag)
    bag.finish()
    return sink


class Target:
    """A stream and a key prefix that no other test uses, and sinks that write there."""

    def __init__(self, server: Redis, folder: Path) -> None:
        self.server, self.folder, self.name = server, folder, f"totals-{uuid.uuid4().hex[:8]}"
        self.client = server.client()
        self.sinks: list[RedisSink] = []

    def open_sink(
        self, owner: str = "pipeline 1", key: tuple[str, ...] = (), columns: Schema = VIEW, **more: str
    ) -> RedisSink:
        reads = BUS if columns == EVENTS.columns else "totals"
        where = {"mode": "keys", "prefix": f"{self.name}:"} if key else {"stream": self.name}
        sink = build_sink({"url": self.server.url(), **where, **more}, columns, key, reads)
        self.sinks.append(sink)
        sink.open(SinkContext("out", self.folder, f"{owner} of {self.name}"))
        return sink

    def entries(self) -> list[dict[str, str]]:
        return [fields for _, fields in self.client.xrange(self.name)]

    def totals(self) -> list[int]:
        return [json.loads(entry["row"])["total"] for entry in self.entries()]

    def keys(self) -> dict[str, Any]:
        names = sorted(self.client.scan_iter(f"{self.name}:*"))
        return {key.removeprefix(f"{self.name}:"): json.loads(self.client.get(key)) for key in names}

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
        self.client.close()


@pytest.fixture
def target(redis: Redis, tmp_path: Path) -> Iterator[Target]:
    created = Target(redis, tmp_path)
    yield created
    created.close()


def test_a_change_is_an_entry_of_the_stream(target: Target) -> None:
    sink = target.open_sink()
    assert sink.abilities.accepts == "changelog"
    sink.write(3, changes(3, ("-U", -1, "pen", 5), ("+U", 1, "pen", None)))
    assert target.entries() == [
        {"op": "-U", "weight": "-1", "step": "3", "row": '{"item":"pen","total":5}'},
        {"op": "+U", "weight": "1", "step": "3", "row": '{"item":"pen","total":null}'},
    ]


def test_an_event_is_an_entry_with_its_own_fields(target: Target) -> None:
    sink = target.open_sink(columns=EVENTS.columns)
    events = rows_of(
        [
            Event("1", "pgcdc:orders", "INSERT", '{"row": {"id": 7}}', "shop", 1_714_564_803_250_000),
            Event("2", "pgcdc:orders", "DELETE", "{}", "shop", 1_714_564_804_000_000, '{"xid": 9}'),
        ]
    )
    head = {"op": ["+I"] * 2, "weight": [1, 1], "step": [4, 4]}
    sink.write(4, pa.table([*head.values(), *events.columns], names=[*head, *events.column_names]))
    first = {"id": "1", "channel": "pgcdc:orders", "operation": "INSERT", "payload": '{"row": {"id": 7}}'}
    second = {"id": "2", "channel": "pgcdc:orders", "operation": "DELETE", "payload": "{}"}
    assert target.entries() == [
        first | {"source": "shop", "created_at": "2024-05-01T12:00:03.25Z"},
        second | {"source": "shop", "created_at": "2024-05-01T12:00:04Z", "transaction": '{"xid": 9}'},
    ]


def test_a_key_holds_the_newest_row_or_is_deleted(target: Target) -> None:
    sink = target.open_sink(key=("item",))
    assert sink.abilities.accepts == "upsert"
    sink.write(1, changes(1, ("+I", 1, "pen", 5), ("+I", 1, "ink", 2), ("+I", 1, None, 1)))
    sink.write(2, changes(2, ("-D", -1, "ink", 2), ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    assert target.keys() == {"pen": {"item": "pen", "total": 6}, "\\N": {"item": None, "total": 1}}


def test_keys_of_several_columns_never_collide(target: Target) -> None:
    sink = target.open_sink(key=("region", "item"), columns=PAIRS)
    rows = [("a:b", "c"), ("a", "b:c"), ("a\\", "b"), ("\\N", None)]
    sink.write(1, changes(1, *(("+I", 1, *row) for row in rows), columns=PAIRS))
    assert sorted(target.keys()) == sorted(["a\\:b:c", "a:b\\:c", "a\\\\:b", "\\\\N:\\N"])


def test_a_repeated_step_is_written_once(target: Target) -> None:
    first = target.open_sink()
    assert first.last_step() is None
    for step in (1, 2, 2):
        first.write(step, changes(step, ("+I", 1, "pen", step)))
    assert first.last_step() == 2
    again = target.open_sink()
    assert again.last_step() == 2
    again.write(2, changes(2, ("+I", 1, "pen", 2)))
    again.write(3, changes(3, ("+I", 1, "pen", 3)))
    assert target.totals() == [1, 2, 3]


def test_a_stale_process_writes_nothing_twice(target: Target) -> None:
    old, new = target.open_sink(), target.open_sink()
    new.write(1, changes(1, ("+I", 1, "pen", 1)))
    old.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert target.totals() == [1]


def test_each_pipeline_has_its_own_last_step(target: Target) -> None:
    target.open_sink().write(5, changes(5, ("+I", 1, "pen", 5)))
    other = target.open_sink(owner="pipeline 2")
    assert other.last_step() is None
    other.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert target.totals() == [5, 1]


@pytest.mark.parametrize("parts", range(4))
def test_a_step_interrupted_between_its_parts_is_finished(
    target: Target, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    table = changes(7, *(("+I", 1, "pen", number) for number in range(10)))
    sink = target.open_sink()
    sink.part = 3
    remaining = [parts]

    def apply(*arguments: Any, really: Any = Connection.apply) -> None:
        if not remaining[0]:
            raise KeyboardInterrupt
        remaining[0] -= 1
        really(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Connection, "apply", apply)
        sink.write(7, table)
    assert len(target.totals()) == 3 * parts
    again = target.open_sink()
    again.part = 3
    assert again.last_step() is None
    again.write(7, table)
    assert target.totals() == list(range(10)) and again.last_step() == 7
    assert target.client.hgetall(f"tidegate:pipeline 1 of {target.name}") == {"step": "7"}


def test_a_stream_is_trimmed(target: Target) -> None:
    sink = target.open_sink(maxlen="100")
    sink.write(1, changes(1, *(("+I", 1, "pen", number) for number in range(1000))))
    assert 100 <= len(target.totals()) < 300 and target.totals()[-1] == 999


def test_a_large_step_is_written_in_parts(target: Target) -> None:
    target.open_sink().write(1, changes(1, *(("+I", 1, "pen", number) for number in range(12_345))))
    assert target.totals() == list(range(12_345))


def test_a_key_that_is_not_a_stream_is_rejected(target: Target) -> None:
    target.client.set(target.name, "text")
    with pytest.raises(Error) as caught:
        target.open_sink()
    assert str(caught.value) == (
        f"INVALID_OPTION: key {target.name} in Redis at {target.server.address}/0 is a string, not a stream\n"
        "  hint: choose another stream, or remove the key"
    )
    target.client.delete(target.name)
    sink = target.open_sink()
    target.client.set(target.name, "text")
    with pytest.raises(Error, match="is a string, not a stream"):
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
    target.client.delete(target.name)
    sink.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert target.totals() == [1]


@pytest.mark.server
def test_a_killed_server_continues_after_a_restart(tmp_path: Path) -> None:
    with redis_server(tmp_path, durable=True) as server:
        target = Target(server, tmp_path)
        sink = target.open_sink()
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        server.kill()
        with pytest.raises(OSError, match=f"^no Redis server answers at {server.address}/0: "):
            sink.write(2, changes(2, ("+I", 1, "pen", 2)))
        with pytest.raises(OSError, match="no Redis server answers at"):
            target.open_sink()
        server.start()
        sink.write(2, changes(2, ("+I", 1, "pen", 2)))
        assert target.totals() == [1, 2] and target.open_sink().last_step() == 2
        target.close()


@pytest.mark.server
def test_passwords_are_required_and_never_shown(tmp_path: Path) -> None:
    with redis_server(tmp_path, PASSWORD) as server:
        for options in ({"url": server.url()}, {"url": f"redis://:wr0ng-word@{server.address}"}):
            with pytest.raises(Error) as caught:
                build_sink({**options, "stream": "s"}).open(SinkContext("out", tmp_path, "one"))
            assert str(caught.value) == (
                f"PIPELINE_FAILED: Redis at {server.address}/0 rejected the user or the password\n"
                "  hint: check user and password"
            )
        for options in ({"url": server.url(), "password": PASSWORD}, {"url": f"redis://:{PASSWORD}@{server.address}"}):
            sink = build_sink({**options, "stream": "s"})
            sink.open(SinkContext("out", tmp_path, "one"))
            assert PASSWORD not in repr(sink.options)
            sink.close()


@pytest.mark.server
def test_the_error_for_missing_rights_has_the_acl_command(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        with server.client() as client:
            client.acl_setuser(
                "reader", True, passwords=["+pw"], keys=["s", "tidegate:*"], categories=["+@read", "+@connection"]
            )
        sink = build_sink({"url": server.url(), "user": "reader", "password": "pw", "stream": "s"})
        sink.open(SinkContext("out", tmp_path, "one"))
        with pytest.raises(Error) as caught:
            sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        assert caught.value.message.startswith(f"the user has too few rights in Redis at {server.address}/0: ")
        assert caught.value.hint == "ACL SETUSER reader ~s ~tidegate:* +@read +@write +@scripting +@connection"
        with server.client() as client:
            client.execute_command(*caught.value.hint.split())
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        sink.close()


@pytest.mark.server
def test_a_full_server_is_retried(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        target = Target(server, tmp_path)
        sink = target.open_sink()
        target.client.config_set("maxmemory", "1")
        with pytest.raises(OSError, match=f"^Redis at {server.address}/0 takes nothing now: "):
            sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        target.client.config_set("maxmemory", "0")
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        assert target.totals() == [1]
        target.close()


def test_an_unreachable_server_is_an_oserror(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(OSError) as away:
        build_sink({"url": f"redis://127.0.0.1:{port}", "stream": "s"}).open(SinkContext("out", tmp_path, "one"))
    assert str(away.value).startswith(f"no Redis server answers at 127.0.0.1:{port}/0: ")


@pytest.mark.parametrize(
    ("options", "key", "message"),
    [
        ({"stream": "s"}, (), "MISSING_OPTION: REDIS needs option 'url'\n  hint: add url = 'redis://localhost:6379/0'"),
        (
            {"url": "redis://h"},
            (),
            "MISSING_OPTION: REDIS needs option 'stream'\n  hint: add stream = 'totals'",
        ),
        (
            {"url": "redis://u:p w@h", "stream": "s"},
            (),
            "INVALID_OPTION: option 'url' is not the address of a Redis server\n"
            "  hint: expected 'redis://user:password@host:6379/0', or 'rediss://...' for TLS; a password with other"
            " signs than letters and digits goes into password = '...'",
        ),
        (
            {"url": "redis://u:p@h", "password": "q", "stream": "s"},
            (),
            "INVALID_OPTION: url has a user or a password too\n  hint: leave one out",
        ),
        (
            {"url": "redis://h", "mode": "keys"},
            (),
            "SINK_CANNOT_TAKE: REDIS in mode 'keys' replaces rows by their key, and totals shows none\n"
            "  hint: GROUP BY a key and SELECT it, or choose another mode",
        ),
        (
            {"url": "redis://h", "mode": "keys", "stream": "s"},
            ("item",),
            "INVALID_OPTION: mode 'keys' writes to a key for each row, not to a stream\n"
            "  hint: write prefix = '...' instead of stream",
        ),
        (
            {"url": "redis://h", "stream": "s", "maxlen": "0"},
            (),
            "INVALID_OPTION: option 'maxlen' cannot be '0'\n  hint: expected a whole number from 1",
        ),
    ],
)
def test_invalid_options(options: dict[str, str], key: tuple[str, ...], message: str) -> None:
    with pytest.raises(Error) as caught:
        build_sink(options, key=key)
    assert str(caught.value) == message


def test_the_default_prefix_is_the_name_of_the_view(redis: Redis) -> None:
    assert build_sink({"url": redis.url(), "mode": "keys"}, key=("item",)).options.prefix == "totals:"
