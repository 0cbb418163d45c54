"""`INTO SSE`: clients over real connections that connect, disconnect, lag and resume."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.connectors.pages import connectors
from tests.connectors.test_webhook import VIEW, changes, numbered, of_bus
from tests.servers.processes import free_port, wait_until
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.connectors.contract import SinkContext, SinkSpec
from tidegate.connectors.sse.hub import Behind, EventId, Hub, Item
from tidegate.connectors.sse.sink import SseSink
from tidegate.core.options import Bag
from tidegate.errors import Error
from tidegate.formats.events import Event


@dataclass
class Log:
    """The part of the step log that a sink uses; steps below `first` have been removed."""

    steps: dict[int, pa.Table] = field(default_factory=dict)
    first: int = 1

    def replay(self, after: int) -> Iterator[tuple[int, pa.Table]]:
        for step in sorted(self.steps):
            if step > after and step >= self.first:
                yield step, self.steps[step]

    def write(self, sink: SseSink, step: int, table: pa.Table) -> None:
        self.steps[step] = table
        sink.write(step, table)


def build_sink(events: bool = False, **options: str) -> SseSink:
    all_options = {"port": "0"} | options
    bag = Bag("SSE", [(name, text, None) for name, text in all_options.items()])
    spec = SinkSpec("SSE", "out", EVENTS.columns if events else VIEW, all_options, reads=BUS if events else "totals")
    sink = SseSink.build(spec, bag)
    bag.finish()
    return sink


OpenSink = Callable[..., SseSink]


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def open_sink(tmp_path: Path, log: Log) -> Iterator[OpenSink]:
    sinks: list[SseSink] = []

    def open(owner: str = "db#out#0", **options: Any) -> SseSink:
        sinks.append(build_sink(**options))
        sinks[-1].open(SinkContext("out", tmp_path / "out", owner, log.replay))
        return sinks[-1]

    yield open
    for sink in sinks:
        sink.close()


class Client:
    """Reads a stream as the standard defines it: fields, then an empty line."""

    def __init__(self, sink: SseSink, query: str = "", path: str = "/events", method: str = "GET", **headers: str):
        assert sink.port is not None
        self.connection = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path + query, headers=named)
        self.answer = self.connection.getresponse()
        self.last_id = ""
        self.comments = 0

    @property
    def status(self) -> int:
        return self.answer.status

    def block(self) -> dict[str, str] | None:
        """The fields up to the next empty line; None at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            if line == "\n":
                self.last_id = fields.get("id", self.last_id)
                return fields
            if line.startswith(":"):
                self.comments += 1
            else:
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
        return None

    def events(self, count: int) -> list[tuple[str, str, Any]]:
        """Reads `count` events: id, name and data."""
        received: list[tuple[str, str, Any]] = []
        while len(received) < count:
            block = self.block()
            assert block is not None, f"the stream ended after {received}"
            if "data" in block:
                received.append((block["id"], block["event"], json.loads(block["data"])))
        return received

    def ids(self, count: int) -> list[str]:
        return [id for id, _, _ in self.events(count)]

    def ready(self) -> Client:
        """Waits until the stream has started, so that it receives everything that is written from now on."""
        assert self.block() is not None
        return self

    def json(self) -> Any:
        return json.loads(self.answer.read())

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def order(id: str, channel: str) -> Event:
    return Event(id, channel, "INSERT", '{"row":{"id":1}}', "pg", 0)


def test_changes_are_sent_as_events_with_ids(open_sink: OpenSink) -> None:
    sink = open_sink()
    assert sink.abilities.accepts == "changelog"
    client = Client(sink).ready()
    assert (client.status, client.answer.headers["Content-Type"]) == (200, "text/event-stream")
    sink.write(4, changes(4, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    assert client.events(2) == [
        ("4-0", "-U", {"step": 4, "op": "-U", "weight": -1, "row": {"item": "pen", "total": 5}}),
        ("4-1", "+U", {"step": 4, "op": "+U", "weight": 1, "row": {"item": "pen", "total": 6}}),
    ]
    assert sink.last_step() == 4
    sink.write(4, numbered(4, 9))
    sink.write(5, numbered(5, 1))
    assert client.ids(1) == ["5-0"]


def test_events_of_the_bus_have_the_name_of_their_channel(open_sink: OpenSink) -> None:
    sink = open_sink(events=True)
    all_of_them, orders = Client(sink).ready(), Client(sink, "?channels=pgcdc:orders*,other?").ready()
    sink.write(1, of_bus(1, order("a", "pgcdc:users"), order("b", "pgcdc:orders_eu"), order("c", "other")))
    sink.write(2, of_bus(2, order("d", "other1"), order("e", "pgcdc:orders")))
    assert [(id, name) for id, name, _ in all_of_them.events(5)] == [
        ("1-0", "pgcdc:users"),
        ("1-1", "pgcdc:orders_eu"),
        ("1-2", "other"),
        ("2-0", "other1"),
        ("2-1", "pgcdc:orders"),
    ]
    received = orders.events(3)
    assert [(id, name) for id, name, _ in received] == [
        ("1-1", "pgcdc:orders_eu"),
        ("2-0", "other1"),
        ("2-1", "pgcdc:orders"),
    ]
    assert (received[0][2]["id"], received[0][2]["payload"]) == ("b", {"row": {"id": 1}})


def test_a_client_continues_after_its_last_event_id(open_sink: OpenSink) -> None:
    sink = open_sink()
    for step in range(1, 5):
        sink.write(step, numbered(step, 3))
    assert Client(sink, Last_Event_ID="2-1").ids(7) == ["2-2", "3-0", "3-1", "3-2", "4-0", "4-1", "4-2"]
    assert Client(sink, Last_Event_ID="3").ids(3) == ["4-0", "4-1", "4-2"]
    assert Client(sink, "?after=4-0").ids(2) == ["4-1", "4-2"]
    assert len(Client(sink, "?after=0").ids(12)) == 12


def test_events_that_left_memory_are_read_from_the_step_log(open_sink: OpenSink, log: Log) -> None:
    sink = open_sink(keep="4")
    for step in range(1, 6):
        log.write(sink, step, numbered(step, 3))
    every = [f"{step}-{number}" for step in range(1, 6) for number in range(3)]
    client = Client(sink, Last_Event_ID="1-0")
    assert client.ids(14) == every[1:]
    log.write(sink, 6, numbered(6, 1))
    assert client.ids(1) == ["6-0"]
    assert Client(sink, "?after=0").ids(15) == every


def test_a_restart_loses_nothing(open_sink: OpenSink, log: Log) -> None:
    first = open_sink()
    client = Client(first).ready()
    log.write(first, 1, numbered(1, 2))
    assert client.ids(1) == ["1-0"]
    first.close()
    log.write(second := open_sink(), 2, numbered(2, 2))
    assert second.last_step() == 2
    assert Client(second, Last_Event_ID=client.last_id).ids(3) == ["1-1", "2-0", "2-1"]


def test_a_client_without_an_event_yet_resumes_at_its_position(open_sink: OpenSink, log: Log) -> None:
    sink = open_sink()
    log.write(sink, 1, numbered(1, 2))
    client = Client(sink).ready()
    assert client.last_id == "1-1"
    client.close()
    log.write(sink, 2, numbered(2, 1))
    assert Client(sink, Last_Event_ID="1-1").ids(1) == ["2-0"]
    sink.close()
    later = Client(again := open_sink()).ready()
    assert later.last_id == "2"
    log.write(again, 3, numbered(3, 1))
    again.close()
    assert Client(open_sink(), Last_Event_ID="2").ids(1) == ["3-0"]


def test_a_step_that_the_sink_has_not_applied_is_not_sent(open_sink: OpenSink, log: Log) -> None:
    """The log may contain a step that was not committed and is computed again."""
    log.write(sink := open_sink(), 1, numbered(1, 2))
    sink.close()
    log.steps[2] = numbered(2, 5)
    again = open_sink()
    client = Client(again, Last_Event_ID="1-0")
    assert client.ids(1) == ["1-1"]
    log.write(again, 2, numbered(2, 1))
    assert client.ids(1) == ["2-0"]
    log.write(again, 3, numbered(3, 1))
    assert client.ids(1) == ["3-0"]


def test_lost_events_are_reported_as_a_gap(open_sink: OpenSink, log: Log) -> None:
    sink = open_sink(keep="2")
    for step in range(1, 7):
        log.write(sink, step, numbered(step, 1))
    log.first = 4
    gap = ("3", "gap", {"after": "2-0", "goes_on_after": "3"})
    assert [(id, name) for id, name, _ in Client(sink, Last_Event_ID="4-0").events(2)] == [("5-0", "+I"), ("6-0", "+I")]
    received = Client(sink, Last_Event_ID="2-0").events(4)
    assert received[0] == gap
    assert [id for id, _, _ in received[1:]] == ["4-0", "5-0", "6-0"]
    log.first = 7
    assert Client(sink, Last_Event_ID="2-0").events(2)[0] == (
        "4-0", "gap", {"after": "2-0", "goes_on_after": "4-0"}
    )  # fmt: skip


def test_an_id_of_another_database_is_reported_as_a_gap(open_sink: OpenSink) -> None:
    sink = open_sink()
    sink.write(1, numbered(1, 1))
    client = Client(sink, Last_Event_ID="99-3")
    assert client.events(1) == [("1-0", "gap", {"after": "99-3", "goes_on_after": "1-0"})]
    sink.write(2, numbered(2, 1))
    assert client.ids(1) == ["2-0"]


def test_a_client_that_does_not_read_does_not_delay_others(open_sink: OpenSink, log: Log) -> None:
    sink = open_sink(keep="100")
    lazy = Client(sink).ready()
    clients = [Client(sink).ready() for _ in range(10)]
    expected = [f"{step}-{number}" for step in range(1, 31) for number in range(40)]
    ids: list[list[str]] = [[] for _ in clients]

    def read_ids(index: int) -> None:
        ids[index] = clients[index].ids(len(expected))

    threads = [threading.Thread(target=read_ids, args=(index,)) for index in range(len(clients))]
    for thread in threads:
        thread.start()
    for step in range(1, 31):
        log.write(sink, step, numbered(step, 40))
    for thread in threads:
        thread.join(60)
    assert ids == [expected] * len(clients)
    assert lazy.ids(len(expected)) == expected


def test_a_quiet_stream_has_heartbeats(open_sink: OpenSink) -> None:
    client = Client(open_sink(heartbeat="20ms")).ready()
    for _ in range(3):
        assert client.block() == {}
    assert client.comments == 3


def test_a_client_with_a_filter_advances_its_position(open_sink: OpenSink) -> None:
    sink = open_sink(events=True, heartbeat="20ms")
    client = Client(sink, "?channels=none").ready()
    sink.write(1, of_bus(1, order("a", "some")))
    while client.last_id != "1-0":
        assert "data" not in (client.block() or {})


def test_a_token_is_required(open_sink: OpenSink) -> None:
    sink = open_sink(token="s3cret")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}):
        client = Client(sink, **headers)
        assert (client.status, client.json()) == (401, {"error": "a bearer token is needed"})
        assert client.answer.headers["WWW-Authenticate"] == "Bearer"
    assert Client(sink, Authorization="Bearer s3cret").ready().status == 200
    health = Client(sink, path="/health")
    assert (health.status, health.json()) == (200, {"status": "ok", "step": None})


def test_requests_that_are_rejected(open_sink: OpenSink) -> None:
    sink = open_sink(max_clients="1")
    bad = Client(sink, Last_Event_ID="abc")
    assert (bad.status, bad.json()) == (400, {"error": "an event id is like 12-0, not abc"})
    filtered = Client(sink, "?channels=x")
    assert (filtered.status, filtered.json()) == (400, {"error": "only events of the bus have channels"})
    elsewhere = Client(sink, path="/")
    assert (elsewhere.status, elsewhere.json()) == (404, {"error": "events are at /events"})
    post = Client(sink, method="POST")
    assert (post.status, post.json()) == (405, {"error": "/events takes GET or OPTIONS"})
    first = Client(sink).ready()
    second = Client(sink)
    assert (second.status, second.json()) == (503, {"error": "too many clients"})
    assert first.status == 200


def test_other_origins_are_allowed_by_cors(open_sink: OpenSink) -> None:
    sink = open_sink(cors="https://app.example.com", token="t")
    preflight = Client(sink, method="OPTIONS")
    assert preflight.status == 200
    assert preflight.answer.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
    assert "Authorization" in preflight.answer.headers["Access-Control-Allow-Headers"]
    unauthorized = Client(sink)
    assert (unauthorized.status, unauthorized.answer.headers["Access-Control-Allow-Origin"]) == (
        401,
        "https://app.example.com",
    )
    assert "Access-Control-Allow-Origin" not in Client(open_sink()).answer.headers


def test_pages_may_not_read_a_stream_without_a_token(open_sink: OpenSink) -> None:
    sink = open_sink(max_clients="1")
    for origin in ("null", "https://evil.example", f"http://localhost:{sink.port}"):
        assert Client(sink, Origin=origin).status == 403
    assert Client(sink, Sec_Fetch_Site="cross-site").status == 403
    renamed = Client(sink, Host="evil.example")
    assert renamed.status == 421
    assert renamed.json() == {"error": "the Host header says 'evil.example', this is 127.0.0.1"}
    assert Client(sink, Host=f"localhost:{sink.port}").ready().status == 200
    page = "https://app.example.com"
    open_to = open_sink(cors=page)
    assert Client(open_to, Origin="https://evil.example").status == 403
    assert Client(open_to, Origin=page, Host="proxy.example").ready().status == 200
    protected = open_sink(token="s3cret")
    assert Client(protected, Origin="null", Host="evil.example").status == 401


def test_streams_end_with_the_sink(open_sink: OpenSink) -> None:
    sink = open_sink()
    port, client = sink.port or 0, Client(sink).ready()
    sink.close()
    assert client.block() is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert sink.port is None


def test_a_client_that_disconnects_frees_its_slot(open_sink: OpenSink) -> None:
    sink = open_sink(max_clients="1", heartbeat="20ms")
    Client(sink).ready().close()
    wait_until(lambda: Client(sink).status == 200, "room for another client")


def test_a_port_in_use_is_an_error(open_sink: OpenSink) -> None:
    port = open_sink().port
    with pytest.raises(Error) as caught:
        open_sink(port=str(port))
    assert caught.value.message == f"port {port} of 127.0.0.1 is in use"


def test_a_port_can_be_chosen_and_used_again(open_sink: OpenSink) -> None:
    port = free_port()
    for _ in range(2):
        sink = open_sink(port=str(port))
        assert Client(sink).ready().status == 200
        sink.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, "on host 0.0.0.0 everybody in the network could connect"),
        ({"port": "70000"}, "option 'port' cannot be '70000'"),
        ({"path": "events"}, "option 'path' cannot be 'events'"),
        ({"heartbeat": "0s"}, "heartbeat cannot be zero"),
        ({"token": "hémlig\n"}, "the token is not a line of ASCII"),
        ({"cors": "example.com"}, "option 'cors' cannot be 'example.com'"),
        ({"keep": "0"}, "option 'keep' cannot be '0'"),
    ],
)
def test_invalid_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(Error) as caught:
        build_sink(**options)
    assert caught.value.message == message


def test_a_hub_raises_behind_for_ids_that_it_no_longer_holds() -> None:
    hub = Hub(2, EventId.end_of(3))
    assert (str(hub.last), hub.after(EventId.end_of(3), 5)) == ("3", [])
    with pytest.raises(Behind):
        hub.after(EventId(3, 7), 5)
    items = [Item(EventId(4, number), "+I", "{}") for number in range(3)]
    hub.publish(items)
    assert hub.floor == EventId(4, 0)
    assert hub.after(EventId(4, 0), 1) == [items[1]]
    with pytest.raises(Behind):
        hub.after(EventId.end_of(3), 5)


def test_positions_as_text() -> None:
    assert [EventId.parse(text) for text in ("12-3", "12", "x", "1-", "-1", "")] == [
        EventId(12, 3), EventId.end_of(12), None, None, None, None
    ]  # fmt: skip
    assert EventId(12, 3) < EventId.end_of(12) < EventId(13, 0)


def test_a_hostile_filter_does_not_hold_up_others(open_sink: OpenSink) -> None:
    sink = open_sink(events=True)
    hostile, other = Client(sink, f"?channels={'*' * 900}X").ready(), Client(sink).ready()
    sink.write(1, of_bus(1, order("a", "a" * 1000), order("b", "X")))
    assert [id for id, _, _ in other.events(2)] == ["1-0", "1-1"]
    assert [id for id, _, _ in hostile.events(1)] == ["1-1"]
    long = Client(sink, f"?channels={'*' * 1001}")
    assert (long.status, long.json()) == (400, {"error": "channels has at most 1000 characters"})


NODE = """
const source = new EventSource(process.argv[1]);
source.addEventListener("+I", event => console.log(event.lastEventId + " " + event.data));
setInterval(() => {}, 1000);
"""


def _node_has_event_source() -> bool:
    node = shutil.which("node")
    if node is None:
        return False
    completed = subprocess.run(
        [node, "--experimental-eventsource", "-e", "process.exit(typeof EventSource === 'function' ? 0 : 1)"],
        capture_output=True,
    )
    return completed.returncode == 0


@pytest.mark.skipif(not _node_has_event_source(), reason="needs a Node with EventSource")
def test_event_source_of_browsers_reads_the_stream_and_reconnects(open_sink: OpenSink, log: Log) -> None:
    port = free_port()
    first = open_sink(port=str(port))
    reader = subprocess.Popen(
        ["node", "--no-warnings", "--experimental-eventsource", "-e", NODE, f"http://127.0.0.1:{port}/events?after=0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None
        log.write(first, 1, numbered(1, 2))
        lines = [reader.stdout.readline() for _ in range(2)]
        first.close()
        again = open_sink(port=str(port))
        log.write(again, 2, numbered(2, 2))
        lines += [reader.stdout.readline() for _ in range(2)]
    finally:
        reader.kill()
        reader.wait()
    assert [line.split()[0] for line in lines] == ["1-0", "1-1", "2-0", "2-1"]
    assert json.loads(lines[3].split(" ", 1)[1]) == {
        "step": 2, "op": "+I", "weight": 1, "row": {"item": "pen", "total": 1}
    }  # fmt: skip


def test_the_statements_of_the_page_are_valid() -> None:
    live, feed = connectors("sse.md").values()
    assert isinstance(live, SseSink) and isinstance(feed, SseSink)
    assert (live.options.port, live.options.path, feed.options.path) == (8080, "/events", "/feed")
    assert (feed.options.token, feed.options.cors) == ("for those who may", "https://app.example.com")
