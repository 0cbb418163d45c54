"""`INTO REDIS` against a real server: each step once, whatever happens in between."""

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
    """(op, weight, values ...) of a step, as a pipeline hands them to a sink."""
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(columns)])
    filled = [(op, weight, step, *values) for op, weight, *values in rows]
    return pa.table([list(column) for column in zip(*filled, strict=True)] or [[]] * len(schema), schema=schema)


def built(given: dict[str, str], columns: Schema = VIEW, key: tuple[str, ...] = (), reads: str = "totals") -> RedisSink:
    bag = Bag("REDIS", [(name, value, Span(3, 9)) for name, value in given.items()])
    made = RedisSink.build(SinkSpec("REDIS", "out", columns, given, None, key, reads), bag)
    bag.finish()
    return made


class Place:
    """A stream and a prefix that no other test has, and sinks that write there."""

    def __init__(self, server: Redis, folder: Path) -> None:
        self.server, self.folder, self.name = server, folder, f"totals-{uuid.uuid4().hex[:8]}"
        self.client = server.client()
        self.sinks: list[RedisSink] = []

    def opened(
        self, owner: str = "pipeline 1", key: tuple[str, ...] = (), columns: Schema = VIEW, **more: str
    ) -> RedisSink:
        reads = BUS if columns == EVENTS.columns else "totals"
        where = {"mode": "keys", "prefix": f"{self.name}:"} if key else {"stream": self.name}
        sink = built({"url": self.server.url(), **where, **more}, columns, key, reads)
        self.sinks.append(sink)
        sink.open(SinkContext("out", self.folder, f"{owner} of {self.name}"))
        return sink

    def entries(self) -> list[dict[str, str]]:
        return [fields for _, fields in self.client.xrange(self.name)]

    def totals(self) -> list[int]:
        return [json.loads(entry["row"])["total"] for entry in self.entries()]

    def keys(self) -> dict[str, Any]:
        found = sorted(self.client.scan_iter(f"{self.name}:*"))
        return {key.removeprefix(f"{self.name}:"): json.loads(self.client.get(key)) for key in found}

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
        self.client.close()


@pytest.fixture
def place(redis: Redis, tmp_path: Path) -> Iterator[Place]:
    made = Place(redis, tmp_path)
    yield made
    made.close()


def test_a_change_is_an_entry_of_the_stream(place: Place) -> None:
    sink = place.opened()
    assert sink.abilities.accepts == "changelog"
    sink.write(3, changes(3, ("-U", -1, "pen", 5), ("+U", 1, "pen", None)))
    assert place.entries() == [
        {"op": "-U", "weight": "-1", "step": "3", "row": '{"item":"pen","total":5}'},
        {"op": "+U", "weight": "1", "step": "3", "row": '{"item":"pen","total":null}'},
    ]


def test_an_event_is_an_entry_with_its_own_fields(place: Place) -> None:
    sink = place.opened(columns=EVENTS.columns)
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
    assert place.entries() == [
        first | {"source": "shop", "created_at": "2024-05-01T12:00:03.25Z"},
        second | {"source": "shop", "created_at": "2024-05-01T12:00:04Z", "transaction": '{"xid": 9}'},
    ]


def test_a_key_holds_the_newest_row_or_is_gone(place: Place) -> None:
    sink = place.opened(key=("item",))
    assert sink.abilities.accepts == "upsert"
    sink.write(1, changes(1, ("+I", 1, "pen", 5), ("+I", 1, "ink", 2), ("+I", 1, None, 1)))
    sink.write(2, changes(2, ("-D", -1, "ink", 2), ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    assert place.keys() == {"pen": {"item": "pen", "total": 6}, "\\N": {"item": None, "total": 1}}


def test_keys_of_several_columns_are_never_the_same(place: Place) -> None:
    sink = place.opened(key=("region", "item"), columns=PAIRS)
    rows = [("a:b", "c"), ("a", "b:c"), ("a\\", "b"), ("\\N", None)]
    sink.write(1, changes(1, *(("+I", 1, *row) for row in rows), columns=PAIRS))
    assert sorted(place.keys()) == sorted(["a\\:b:c", "a:b\\:c", "a\\\\:b", "\\\\N:\\N"])


def test_a_repeated_step_is_there_once(place: Place) -> None:
    first = place.opened()
    assert first.last_step() is None
    for step in (1, 2, 2):
        first.write(step, changes(step, ("+I", 1, "pen", step)))
    assert first.last_step() == 2
    again = place.opened()
    assert again.last_step() == 2
    again.write(2, changes(2, ("+I", 1, "pen", 2)))
    again.write(3, changes(3, ("+I", 1, "pen", 3)))
    assert place.totals() == [1, 2, 3]


def test_a_process_that_was_believed_dead_writes_nothing_again(place: Place) -> None:
    old, new = place.opened(), place.opened()
    new.write(1, changes(1, ("+I", 1, "pen", 1)))
    old.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert place.totals() == [1]


def test_sinks_of_other_pipelines_have_steps_of_their_own(place: Place) -> None:
    place.opened().write(5, changes(5, ("+I", 1, "pen", 5)))
    other = place.opened(owner="pipeline 2")
    assert other.last_step() is None
    other.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert place.totals() == [5, 1]


@pytest.mark.parametrize("applied", range(4))
def test_a_step_broken_off_between_its_parts_is_finished(
    place: Place, monkeypatch: pytest.MonkeyPatch, applied: int
) -> None:
    table = changes(7, *(("+I", 1, "pen", number) for number in range(10)))
    sink = place.opened()
    sink.part = 3
    left = [applied]

    def apply(*arguments: Any, really: Any = Connection.apply) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        really(*arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Connection, "apply", apply)
        sink.write(7, table)
    assert len(place.totals()) == 3 * applied
    again = place.opened()
    again.part = 3
    assert again.last_step() is None
    again.write(7, table)
    assert place.totals() == list(range(10)) and again.last_step() == 7
    assert place.client.hgetall(f"tidegate:pipeline 1 of {place.name}") == {"step": "7"}


def test_a_stream_is_cut(place: Place) -> None:
    sink = place.opened(maxlen="100")
    sink.write(1, changes(1, *(("+I", 1, "pen", number) for number in range(1000))))
    assert 100 <= len(place.totals()) < 300 and place.totals()[-1] == 999


def test_a_large_step_goes_in_parts(place: Place) -> None:
    place.opened().write(1, changes(1, *(("+I", 1, "pen", number) for number in range(12_345))))
    assert place.totals() == list(range(12_345))


def test_a_key_that_is_no_stream_is_refused(place: Place) -> None:
    place.client.set(place.name, "text")
    with pytest.raises(Error) as refused:
        place.opened()
    assert str(refused.value) == (
        f"INVALID_OPTION: key {place.name} in Redis at {place.server.address}/0 is a string, not a stream\n"
        "  hint: choose another stream, or remove the key"
    )
    place.client.delete(place.name)
    sink = place.opened()
    place.client.set(place.name, "text")
    with pytest.raises(Error, match="is a string, not a stream"):
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
    place.client.delete(place.name)
    sink.write(1, changes(1, ("+I", 1, "pen", 1)))
    assert place.totals() == [1]


@pytest.mark.server
def test_a_server_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with redis_server(tmp_path, durable=True) as server:
        place = Place(server, tmp_path)
        sink = place.opened()
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        server.kill()
        with pytest.raises(OSError, match=f"^no Redis server answers at {server.address}/0: "):
            sink.write(2, changes(2, ("+I", 1, "pen", 2)))
        with pytest.raises(OSError, match="no Redis server answers at"):
            place.opened()
        server.start()
        sink.write(2, changes(2, ("+I", 1, "pen", 2)))
        assert place.totals() == [1, 2] and place.opened().last_step() == 2
        place.close()


@pytest.mark.server
def test_passwords_are_asked_for_and_never_shown(tmp_path: Path) -> None:
    with redis_server(tmp_path, PASSWORD) as server:
        for given in ({"url": server.url()}, {"url": f"redis://:wr0ng-word@{server.address}"}):
            with pytest.raises(Error) as refused:
                built({**given, "stream": "s"}).open(SinkContext("out", tmp_path, "one"))
            assert str(refused.value) == (
                f"PIPELINE_FAILED: Redis at {server.address}/0 rejected the user or the password\n"
                "  hint: check user and password"
            )
        for given in ({"url": server.url(), "password": PASSWORD}, {"url": f"redis://:{PASSWORD}@{server.address}"}):
            sink = built({**given, "stream": "s"})
            sink.open(SinkContext("out", tmp_path, "one"))
            assert PASSWORD not in repr(sink.options)
            sink.close()


@pytest.mark.server
def test_a_user_with_too_few_rights_is_told_which(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        with server.client() as client:
            client.acl_setuser(
                "reader", True, passwords=["+pw"], keys=["s", "tidegate:*"], categories=["+@read", "+@connection"]
            )
        sink = built({"url": server.url(), "user": "reader", "password": "pw", "stream": "s"})
        sink.open(SinkContext("out", tmp_path, "one"))
        with pytest.raises(Error) as refused:
            sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        assert refused.value.message.startswith(f"the user has too few rights in Redis at {server.address}/0: ")
        assert refused.value.hint == "ACL SETUSER reader ~s ~tidegate:* +@read +@write +@scripting +@connection"
        with server.client() as client:
            client.execute_command(*refused.value.hint.split())
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        sink.close()


@pytest.mark.server
def test_a_full_server_is_tried_again_later(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        place = Place(server, tmp_path)
        sink = place.opened()
        place.client.config_set("maxmemory", "1")
        with pytest.raises(OSError, match=f"^Redis at {server.address}/0 takes nothing now: "):
            sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        place.client.config_set("maxmemory", "0")
        sink.write(1, changes(1, ("+I", 1, "pen", 1)))
        assert place.totals() == [1]
        place.close()


def test_nobody_there_is_no_error_of_the_users(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(OSError) as away:
        built({"url": f"redis://127.0.0.1:{port}", "stream": "s"}).open(SinkContext("out", tmp_path, "one"))
    assert str(away.value).startswith(f"no Redis server answers at 127.0.0.1:{port}/0: ")


@pytest.mark.parametrize(
    ("given", "key", "said"),
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
def test_options_that_cannot_be(given: dict[str, str], key: tuple[str, ...], said: str) -> None:
    with pytest.raises(Error) as refused:
        built(given, key=key)
    assert str(refused.value) == said


def test_the_prefix_is_the_name_of_the_view_unless_told(redis: Redis) -> None:
    assert built({"url": redis.url(), "mode": "keys"}, key=("item",)).options.prefix == "totals:"
