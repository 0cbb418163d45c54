"""`INTO WEBHOOK`, over real connections."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.connectors.pages import connectors
from tests.servers.processes import free_port
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.connectors.contract import Interrupted, SinkContext, SinkSpec
from tidegate.connectors.webhook.dead_letters import FILE, DeadLetters, Progress, dead_letters
from tidegate.connectors.webhook.options import PostOptions
from tidegate.connectors.webhook.posting import parse_retry_after, pause_after
from tidegate.connectors.webhook.sink import DeliveryError, WebhookSink
from tidegate.connectors.webhook.source import WebhookSource
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_schema
from tidegate.errors import Error
from tidegate.formats.events import Event, rows_of

VIEW: Schema = (Column("item", "string"), Column("total", "bigint"))
ROOT = Path(__file__).parents[2]


@dataclass
class Request:
    """A request that an endpoint received."""

    path: str
    headers: Any
    body: bytes
    connection: int

    @property
    def id(self) -> str:
        return str(self.headers["X-Tidegate-Id"])


Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Endpoint:
    """The web server that receives the requests; the test sets its answers."""

    answer: Callable[[Request], Answer] = lambda request: (200, {}, b"")
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    connections: int = 0

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            served.connections += 1
            self.number = served.connections

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            served.requests.append(Request(self.path, self.headers, body, self.number))
            status, headers, text = served.answer(served.requests[-1])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, served.port = True, server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield served
    server.shutdown()
    server.server_close()


def changes(step: int, *rows: tuple[str, int, str, int]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(VIEW)])
    return pa.table([columns[0], columns[1], [step] * len(rows), columns[2], columns[3]], schema=schema)


def numbered(step: int, count: int) -> pa.Table:
    return changes(step, *(("+I", 1, "pen", number) for number in range(count)))


def of_bus(step: int, *events: Event) -> pa.Table:
    rows = rows_of(events)
    head = {"op": ["+I"] * len(events), "weight": [1] * len(events), "step": [step] * len(events)}
    return pa.Table.from_arrays(
        [*(pa.array(values) for values in head.values()), *rows.columns], [*head, *rows.column_names]
    )


def build_sink(url: str, events: bool = False, **options: str) -> WebhookSink:
    all_options = {"url": url} | {name.replace("__", "."): text for name, text in options.items()}
    bag = Bag("WEBHOOK", [(name, text, None) for name, text in all_options.items()])
    spec = SinkSpec(
        "WEBHOOK", "out", EVENTS.columns if events else VIEW, all_options, reads=BUS if events else "totals"
    )
    sink = WebhookSink.build(spec, bag)
    bag.finish()
    return sink


@dataclass
class Clock:
    """A clock that the test moves."""

    time: float = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def open_sink(tmp_path: Path) -> Iterator[Callable[..., WebhookSink]]:
    sinks: list[WebhookSink] = []

    def open(url: str, owner: str = "db#out#0", clock: Clock | None = None, **options: Any) -> WebhookSink:
        sinks.append(build_sink(url, **options))
        sinks[-1].now = clock or sinks[-1].now
        sinks[-1].open(SinkContext("out", tmp_path / "out", owner))
        return sinks[-1]

    yield open
    for sink in sinks:
        sink.close()


OpenSink = Callable[..., WebhookSink]


def test_every_change_is_one_request_in_order(endpoint: Endpoint, open_sink: OpenSink) -> None:
    sink = open_sink(endpoint.url("/hook?x=1"), headers__Authorization="Bearer abc")
    assert sink.abilities.accepts == "changelog"
    sink.write(3, changes(3, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6), ("+I", 2, "ink", 1)))
    assert [json.loads(request.body) for request in endpoint.requests] == [
        {"step": 3, "op": "-U", "weight": -1, "row": {"item": "pen", "total": 5}},
        {"step": 3, "op": "+U", "weight": 1, "row": {"item": "pen", "total": 6}},
        {"step": 3, "op": "+I", "weight": 2, "row": {"item": "ink", "total": 1}},
    ]
    first = endpoint.requests[0]
    assert (first.path, first.headers["Content-Type"]) == ("/hook?x=1", "application/json")
    assert (first.headers["Authorization"], first.headers["X-Tidegate-Step"]) == ("Bearer abc", "3")
    assert [request.id for request in endpoint.requests] == ["db#out#0#3#0", "db#out#0#3#1", "db#out#0#3#2"]
    assert {request.connection for request in endpoint.requests} == {1}
    assert "X-Tidegate-Signature" not in first.headers
    assert sink.last_step() == 3


def test_events_are_posted_without_an_envelope(endpoint: Endpoint, open_sink: OpenSink) -> None:
    sink = open_sink(endpoint.url(), events=True)
    sink.write(1, of_bus(1, Event("e1", "pgcdc:orders", "INSERT", '{"row":{"id":1}}', "pg", 0)))
    assert [json.loads(request.body) for request in endpoint.requests] == [
        {
            "id": "e1",
            "channel": "pgcdc:orders",
            "operation": "INSERT",
            "payload": {"row": {"id": 1}},
            "source": "pg",
            "created_at": "1970-01-01T00:00:00Z",
            "transaction": None,
        }
    ]


def test_a_batch_is_an_array_of_a_step(endpoint: Endpoint, open_sink: OpenSink) -> None:
    sink = open_sink(endpoint.url(), batch="true", batch_rows="2")
    sink.write(1, numbered(1, 5))
    totals = [[each["row"]["total"] for each in json.loads(request.body)] for request in endpoint.requests]
    assert totals == [[0, 1], [2, 3], [4]]
    sink.write(2, numbered(2, 0))
    assert len(endpoint.requests) == 3


def test_a_body_is_signed(endpoint: Endpoint, open_sink: OpenSink) -> None:
    open_sink(endpoint.url(), secret="häh").write(1, numbered(1, 1))
    [request] = endpoint.requests
    expected = hmac.new("häh".encode(), request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Tidegate-Signature"] == f"sha256={expected}"


def test_a_user_in_the_url_is_sent_as_basic_authorization(endpoint: Endpoint, open_sink: OpenSink) -> None:
    open_sink(f"http://me:p%40ss@127.0.0.1:{endpoint.port}").write(1, numbered(1, 1))
    assert endpoint.requests[0].headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert endpoint.requests[0].path == "/"


def test_a_failed_request_is_retried_after_its_pause(endpoint: Endpoint, open_sink: OpenSink) -> None:
    answers = [503, 500, 200, 200]
    endpoint.answer = lambda request: (answers.pop(0), {}, b"busy")
    clock = Clock()
    sink = open_sink(endpoint.url(), clock=clock, backoff="2s")
    with pytest.raises(DeliveryError) as first:
        sink.write(1, numbered(1, 2))
    assert str(first.value) == f"127.0.0.1:{endpoint.port} answered 503 Service Unavailable: busy"
    assert 1.0 <= first.value.pause <= 2.0
    clock.time += first.value.pause / 2
    with pytest.raises(DeliveryError) as early:
        sink.write(1, numbered(1, 2))
    assert early.value.pause == pytest.approx(first.value.pause / 2)
    assert len(endpoint.requests) == 1
    clock.time += early.value.pause
    with pytest.raises(DeliveryError) as second:
        sink.write(1, numbered(1, 2))
    assert 2.0 <= second.value.pause <= 4.0
    clock.time += second.value.pause
    sink.write(1, numbered(1, 2))
    assert [request.id[-1] for request in endpoint.requests] == ["0", "0", "0", "1"]
    assert sink.last_step() == 1
    sink.write(1, numbered(1, 2))
    assert len(endpoint.requests) == 4


def test_retry_after_sets_the_pause(endpoint: Endpoint, open_sink: OpenSink) -> None:
    endpoint.answer = lambda request: (429, {"Retry-After": "77"}, b"")
    with pytest.raises(DeliveryError) as caught:
        open_sink(endpoint.url(), clock=Clock()).write(1, numbered(1, 1))
    assert caught.value.pause == 77.0


def test_an_unreachable_endpoint(open_sink: OpenSink) -> None:
    port = free_port()
    with pytest.raises(DeliveryError, match=f"127.0.0.1:{port} cannot be reached: Connection refused"):
        open_sink(f"http://127.0.0.1:{port}/").write(1, numbered(1, 1))


def test_an_endpoint_that_does_not_answer(endpoint: Endpoint, open_sink: OpenSink) -> None:
    release = threading.Event()
    endpoint.answer = lambda request: (200, {}, b"") if release.wait(30) else (500, {}, b"")
    with pytest.raises(DeliveryError, match="cannot be reached: it did not answer in time"):
        open_sink(endpoint.url(), timeout="100ms").write(1, numbered(1, 1))
    release.set()


def test_a_pipeline_that_ends_does_not_wait_for_an_answer(
    endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path
) -> None:
    """The request in flight is sent again after a restart, with the same id, and does not count as a failure."""
    release, reached = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        if len(endpoint.requests) == 2:
            reached.set()
            release.wait(30)
        return 200, {}, b""

    endpoint.answer = answer
    sink = open_sink(endpoint.url(), timeout="30s", max_retries="0")
    errors: list[BaseException] = []

    def write() -> None:
        try:
            sink.write(7, numbered(7, 3))
        except BaseException as problem:
            errors.append(problem)

    worker = threading.Thread(target=write)
    worker.start()
    assert reached.wait(30)
    context(sink).ending.set()
    sink.interrupt()
    worker.join(10)
    release.set()
    assert not worker.is_alive() and [type(each) for each in errors] == [Interrupted]
    with pytest.raises(Interrupted):
        sink.write(7, numbered(7, 3))
    assert sink.last_step() is None and dead_letters(tmp_path / "out") == []

    again = open_sink(endpoint.url())
    again.write(7, numbered(7, 3))
    assert [request.id[-4:] for request in endpoint.requests] == ["#7#0", "#7#1", "#7#1", "#7#2"]
    assert again.last_step() == 7


def context(sink: WebhookSink) -> SinkContext:
    assert sink._opened is not None
    return sink._opened.context


def test_a_connection_that_was_closed_is_reopened(endpoint: Endpoint, open_sink: OpenSink) -> None:
    sink = open_sink(endpoint.url())
    sink.write(1, numbered(1, 1))
    assert sink._opened is not None and sink._opened.poster._socket is not None
    sink._opened.poster._socket.shutdown(socket.SHUT_RDWR)
    sink.write(2, numbered(2, 1))
    assert [request.id for request in endpoint.requests] == ["db#out#0#1#0", "db#out#0#2#0"]
    assert endpoint.connections == 2


def test_a_rejected_request_becomes_a_dead_letter_and_the_next_one_follows(
    endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = lambda request: (400 if b'"total":1' in request.body else 200, {}, b"no total 1, s3cret")
    before = dt.datetime.now(dt.UTC)
    open_sink(endpoint.url(), secret="s3cret").write(4, numbered(4, 3))
    assert len(endpoint.requests) == 3
    [letter] = dead_letters(tmp_path / "out")
    assert before <= letter.pop("time") <= dt.datetime.now(dt.UTC)
    error = f"127.0.0.1:{endpoint.port} answered 400 Bad Request: no total 1, ***"
    assert letter == {
        "sink": "out",
        "step": 4,
        "id": "db#out#0#4#1",
        "status": 400,
        "error": error,
        "body": '{"step":4,"op":"+I","weight":1,"row":{"item":"pen","total":1}}',
    }
    assert caplog.messages == [f"sink out: {error}; rejected requests are in system.dead_letters"]


@pytest.mark.parametrize("status", [301, 401, 404, 410, 422])
def test_permanent_errors_are_not_retried(endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path, status: int) -> None:
    endpoint.answer = lambda request: (status, {"Location": "/other"}, b"")
    open_sink(endpoint.url()).write(1, numbered(1, 1))
    assert [letter["status"] for letter in dead_letters(tmp_path / "out")] == [status]
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_temporary_errors_are_retried(endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path, status: int) -> None:
    endpoint.answer = lambda request: (status, {}, b"")
    with pytest.raises(DeliveryError):
        open_sink(endpoint.url()).write(1, numbered(1, 1))
    assert dead_letters(tmp_path / "out") == []


@pytest.mark.parametrize(("retries", "requests"), [("0", 1), ("2", 3)])
def test_a_request_that_fails_too_often_becomes_a_dead_letter(
    endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path, retries: str, requests: int
) -> None:
    endpoint.answer = lambda request: (500 if request.id.endswith("#0") else 200, {}, b"")
    clock = Clock()
    sink = open_sink(endpoint.url(), clock=clock, max_retries=retries)
    for _ in range(requests - 1):
        with pytest.raises(DeliveryError):
            sink.write(1, numbered(1, 2))
        clock.time += 3600
    sink.write(1, numbered(1, 2))
    assert [request.id[-1] for request in endpoint.requests] == ["0"] * requests + ["1"]
    assert [letter["id"] for letter in dead_letters(tmp_path / "out")] == ["db#out#0#1#0"]
    assert sink.dead_letters == 1


def test_unlimited_retries_never_give_up(endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path) -> None:
    endpoint.answer = lambda request: (500, {}, b"")
    clock = Clock()
    sink = open_sink(endpoint.url(), clock=clock, max_retries="unlimited", max_backoff="3s")
    for _ in range(100):
        with pytest.raises(DeliveryError) as caught:
            sink.write(1, numbered(1, 1))
        assert caught.value.pause <= 3.0
        clock.time += caught.value.pause
    assert len(endpoint.requests) == 100
    assert dead_letters(tmp_path / "out") == []


KILLED = """
import sys
from pathlib import Path
from tests.connectors.test_webhook import build_sink, numbered
from tidegate.connectors.contract import SinkContext
url, folder = sys.argv[1:]
sink = build_sink(url)
sink.open(SinkContext("out", Path(folder), "db#out#0"))
sink.write(1, numbered(1, 5))
sink.write(2, numbered(2, 40))
"""


def test_after_a_kill_only_the_request_in_flight_is_repeated(
    endpoint: Endpoint, open_sink: OpenSink, tmp_path: Path
) -> None:
    reached, release = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        if request.id.endswith("#2#23") and not release.is_set():
            reached.set()
            release.wait(30)
        return 200, {}, b""

    endpoint.answer = answer
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, endpoint.url(), str(tmp_path / "out")], cwd=ROOT, env={**os.environ}
    )
    try:
        assert reached.wait(60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    release.set()
    sink = open_sink(endpoint.url())
    assert sink.last_step() == 1
    sink.write(2, numbered(2, 40))
    places = [request.id.removeprefix("db#out#0#") for request in endpoint.requests]
    first = [f"1#{number}" for number in range(5)] + [f"2#{number}" for number in range(24)]
    assert places == first + [f"2#{number}" for number in range(23, 40)]


def test_progress_of_a_dropped_sink_does_not_count(endpoint: Endpoint, open_sink: OpenSink) -> None:
    open_sink(endpoint.url()).write(7, numbered(7, 2))
    other = open_sink(endpoint.url(), owner="db#out#9")
    assert other.last_step() is None
    other.write(7, numbered(7, 1))
    assert endpoint.requests[-1].id == "db#out#9#7#0"


def test_a_dead_letter_that_is_recorded_twice_is_one(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path)
    for error in ("first", "again"):
        letters.put("out", 1, "a", None, error, "{}")
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"sink": "out", "st')
    assert [letter["error"] for letter in dead_letters(tmp_path)] == ["again"]
    DeadLetters(tmp_path).put("out", 1, "b", 500, "other", "ä\n")
    assert [(letter["id"], letter["body"]) for letter in dead_letters(tmp_path)] == [("a", "{}"), ("b", "ä\n")]
    assert dead_letters(tmp_path / "nowhere") == []


def test_progress_belongs_to_one_step_and_one_owner(tmp_path: Path) -> None:
    progress = Progress(tmp_path, "a longer owner")
    progress.keep(12, 34)
    progress.close()
    assert (Progress(tmp_path, "a longer owner").of(12), Progress(tmp_path, "a longer owner").of(13)) == (34, 0)
    other = Progress(tmp_path, "b")
    assert other.of(12) == 0
    other.keep(12, 1)
    assert (Progress(tmp_path, "b").of(12), Progress(tmp_path, "a longer owner").of(12)) == (1, 0)


def test_pauses_double_up_to_max_backoff() -> None:
    options = PostOptions(url="http://x")
    assert [pause_after(failures, options, lambda: 0.0) for failures in (1, 2, 3, 7, 5000)] == [1, 2, 4, 60, 60]
    assert pause_after(3, options, lambda: 0.999) == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0.0),
        ("3", 3.0),
        ("99999999", 3600.0),
        ("-1", 0.0),
        ("soon", 0.0),
        ("Wed, 01 May 2024 12:00:30 GMT", 30.0),
        ("Wed, 01 May 2024 11:00:00 GMT", 0.0),
    ],
)
def test_values_of_retry_after(header: str | None, seconds: float) -> None:
    assert parse_retry_after(header, lambda: dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)) == seconds


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "ftp://x"}, "INVALID_OPTION: the url of a webhook is not one that can be posted to"),
        ({"url": "http://u:topsecret@"}, "INVALID_OPTION: the url of a webhook is not one that can be posted to"),
        ({"url": "http://x:99999/"}, "INVALID_OPTION: the url of a webhook is not one that can be posted to"),
        ({"secret": ""}, "INVALID_OPTION: the secret is empty"),
        ({"timestamp": "true"}, "INVALID_OPTION: timestamp needs a secret"),
        ({"max_retries": "-1"}, "INVALID_OPTION: option 'max_retries' cannot be '-1'"),
        ({"backoff": "0s"}, "INVALID_OPTION: backoff cannot be zero"),
        ({"headers__Content-Length": "1"}, "INVALID_OPTION: headers.Content-Length cannot be set"),
        ({"headers__X-Tidegate-Id": "1"}, "INVALID_OPTION: headers.X-Tidegate-Id cannot be set"),
        ({"headers__X": "a\r\nb"}, "INVALID_OPTION: headers.X cannot be a header"),
        ({"uri": "x"}, "UNKNOWN_OPTION: WEBHOOK has no option 'uri'"),
    ],
)
def test_invalid_options(options: dict[str, str], text: str) -> None:
    with pytest.raises(Error) as caught:
        build_sink(**{"url": "http://127.0.0.1/", **options})
    assert f"{caught.value.code}: {caught.value.message}" == text
    assert "topsecret" not in str(caught.value)


def test_the_statements_of_the_page_are_valid() -> None:
    alerts, every_order, payments = connectors("webhook.md").values()
    assert isinstance(alerts, WebhookSink) and isinstance(every_order, WebhookSink)
    assert (alerts.options.secret, alerts.options.headers) == ("from the endpoint's settings", {"X-Team": "sales"})
    assert (alerts.options.batch, every_order.options.batch) == (False, True)
    assert isinstance(payments, WebhookSource)
    assert (payments.options.path, payments.options.channel) == ("/payments", "payments")
