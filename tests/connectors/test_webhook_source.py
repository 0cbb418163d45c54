"""`FROM WEBHOOK`, over real connections."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.test_webhook import VIEW, build_sink, of_bus
from tests.servers.processes import free_port, wait_until
from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import CaptureContext, RejectedRow, Rows, SinkContext, SourceSpec
from tidegate.connectors.webhook.capture import RECENT, WebhookCapture
from tidegate.connectors.webhook.requests import objects
from tidegate.connectors.webhook.source import WebhookSource
from tidegate.core.options import Bag
from tidegate.errors import Error
from tidegate.formats.events import Event


class FakeIntake:
    """An insert log in memory."""

    def __init__(self, position: Any = None) -> None:
        self.stopped = threading.Event()
        self.position = position
        self.rows: list[dict[str, Any]] = []
        self.appends = 0
        self.hold: threading.Event | None = None
        self.failure: Exception | None = None

    def append(self, rows: list[Rows], position: Any, rejected: list[RejectedRow] = []) -> None:  # noqa: B006
        if self.hold is not None:
            assert self.hold.wait(30)
        if self.failure is not None:
            raise self.failure
        for relation, table, weight in rows:
            assert (relation, weight) == (BUS, 1)
            self.rows += table.to_pylist()
        self.position = json.loads(json.dumps(position))
        self.appends += 1

    @property
    def payloads(self) -> list[Any]:
        return [json.loads(row["payload"]) for row in self.rows]


def source(relation: str = "hooks", **options: str) -> WebhookSource:
    bag = Bag("WEBHOOK", [(name, text, None) for name, text in ({"port": "0"} | options).items()])
    created = WebhookSource.build(SourceSpec("WEBHOOK", relation, (), options), bag)
    bag.finish()
    return created


@dataclass
class HookServer:
    capture: WebhookCapture
    intake: FakeIntake

    def post(
        self, body: bytes | str, path: str = "/hooks", method: str = "POST", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.capture.port or 0, timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., HookServer]]:
    servers: list[HookServer] = []

    def start(*sources: WebhookSource, intake: FakeIntake | None = None) -> HookServer:
        first, *others = sources or (source(),)
        capture = first.capture(others, CaptureContext("db", tmp_path, lambda: 1_000_000))
        assert isinstance(capture, WebhookCapture)
        servers.append(HookServer(capture, intake or FakeIntake()))
        capture.catch_up(servers[-1].intake)
        return servers[-1]

    yield start
    for each in servers:
        each.capture.close()


Serve = Callable[..., HookServer]


def test_an_object_is_an_event(serve: Serve) -> None:
    hooks = serve(source(channel="in"))
    assert hooks.post(' {"amount": 1.50} ', Idempotency_Key="k1") == (200, {"taken": 1, "duplicates": 0})
    [row] = hooks.intake.rows
    assert (row["id"], row["channel"], row["operation"], row["source"]) == ("k1", "in", "INSERT", "hooks")
    assert row["payload"] == '{"amount": 1.50}'
    assert row["created_at"].timestamp() == 1.0


def test_an_array_is_several_events(serve: Serve) -> None:
    hooks = serve()
    assert hooks.post('[{"a":1}, {"a":[2, {}]}]') == (200, {"taken": 2, "duplicates": 0})
    assert hooks.post("[]") == (200, {"taken": 0, "duplicates": 0})
    assert hooks.intake.payloads == [{"a": 1}, {"a": [2, {}]}]
    assert hooks.intake.rows[0]["channel"] == "webhook:hooks"
    assert len({row["id"] for row in hooks.intake.rows}) == 2


def test_an_idempotency_key_is_accepted_once_even_after_a_restart(serve: Serve) -> None:
    hooks = serve()
    hooks.post('[{"a":1},{"a":2}]', Idempotency_Key="k")
    assert hooks.post('[{"a":1},{"a":2},{"a":3}]', Idempotency_Key="k") == (200, {"taken": 1, "duplicates": 2})
    assert [row["id"] for row in hooks.intake.rows] == ["k#0", "k#1", "k#2"]
    later = serve(intake=FakeIntake(hooks.intake.position))
    assert later.post('[{"a":1},{"a":2}]', X_Tidegate_Id="k") == (200, {"taken": 0, "duplicates": 2})
    assert later.intake.appends == 0
    assert hooks.capture.metrics() == {
        "webhook_requests_total": 2.0,
        "webhook_events_total": 3.0,
        "webhook_duplicates_total": 2.0,
        "webhook_refused_total": 0.0,
    }


def test_ids_are_remembered_up_to_a_number(serve: Serve) -> None:
    hooks = serve()
    hooks.post("{}", Idempotency_Key="first")
    hooks.post(json.dumps([{}] * RECENT), Idempotency_Key="many")
    assert len(hooks.intake.position["recent"]["hooks"]) == RECENT
    assert hooks.post("{}", Idempotency_Key="first") == (200, {"taken": 1, "duplicates": 0})
    assert hooks.post("{}", Idempotency_Key=f"many#{RECENT - 1}") == (200, {"taken": 0, "duplicates": 1})


def test_only_bodies_with_the_right_signature_are_accepted(serve: Serve) -> None:
    hooks = serve(source(secret="key"))
    good = "sha256=" + hmac.new(b"key", b"{}", hashlib.sha256).hexdigest()
    unauthorized = (401, {"error": "the header X-Tidegate-Signature does not have the signature of this body"})
    assert hooks.post("{}") == unauthorized
    assert hooks.post("{}", X_Tidegate_Signature=good.replace("a", "b")) == unauthorized
    assert hooks.post('{"a":1}', X_Tidegate_Signature=good) == unauthorized
    assert hooks.post("{}", X_Tidegate_Signature=good) == (200, {"taken": 1, "duplicates": 0})
    github = serve(source(secret="key", signature_header="X-Hub-Signature-256"))
    assert github.post("{}", X_Hub_Signature_256=good)[0] == 200


def sha256(content: bytes) -> str:
    return "sha256=" + hmac.new(b"key", content, hashlib.sha256).hexdigest()


def test_a_signed_timestamp_must_be_recent(serve: Serve) -> None:
    hooks = serve(source(secret="key"))

    def send(timestamp: str, signed: bytes, to: HookServer = hooks) -> tuple[int, dict[str, Any]]:
        return to.post("{}", X_Tidegate_Timestamp=timestamp, X_Tidegate_Signature=sha256(signed))

    now = str(int(time.time()))
    assert send(now, now.encode() + b".{}") == (200, {"taken": 1, "duplicates": 0})
    assert send(now, b"{}")[0] == 401, "the signature covers the timestamp"
    for wrong in (str(int(now) - 400), str(int(now) + 400), "soon", "9" * 5000):
        error = {"error": "the header X-Tidegate-Timestamp is not within 300 seconds of now"}
        assert send(wrong, wrong.encode() + b".{}") == (401, error)
    strict = serve(source(secret="key", max_age="1h"))
    assert strict.post("{}", X_Tidegate_Signature=sha256(b"{}")) == (
        401, {"error": "the header X-Tidegate-Timestamp is missing"}
    )  # fmt: skip
    old = str(int(now) - 400)
    assert send(old, old.encode() + b".{}", strict)[0] == 200


def test_pages_in_browsers_may_not_post_unless_they_are_allowed(serve: Serve) -> None:
    hooks, page = serve(), "https://app.example.com"
    forbidden = (403, {"error": f"pages of {page} may not post here"})
    assert hooks.post("{}", Origin=page) == forbidden
    for hostile in ("null", f"http://evil.example:{hooks.capture.port}", f"http://127.0.0.1:{hooks.capture.port}"):
        assert hooks.post("{}", Origin=hostile, Host="evil.example", Content_Type="text/plain")[0] == 403
    assert hooks.post("{}", Sec_Fetch_Site="cross-site")[0] == 403
    assert hooks.post("", method="OPTIONS", Origin=page) == (405, {"error": "/hooks takes POST"})
    assert hooks.intake.rows == []
    open_to = serve(source(cors=page))
    assert open_to.post("{}", Origin="null")[0] == 403
    assert open_to.post("{}", Origin=page)[0] == 200
    assert serve(source(cors="*")).post("{}", Origin="null")[0] == 200
    assert serve(source(secret="key")).post("{}", Origin=page, X_Tidegate_Signature=sha256(b"{}"))[0] == 200


def test_an_allowed_page_may_read_the_answer(serve: Serve) -> None:
    hooks = serve(source(cors="https://app.example.com"))
    for method, body, status in (("OPTIONS", "", 200), ("POST", "{}", 200), ("POST", "nonsense", 400)):
        connection = http.client.HTTPConnection("127.0.0.1", hooks.capture.port or 0, timeout=30)
        connection.request(method, "/hooks", body, {"Origin": "https://app.example.com"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (status, "https://app.example.com")
        connection.close()


@pytest.mark.parametrize("options", [{}, {"timestamp": "true"}])
def test_the_source_accepts_requests_of_the_sink(serve: Serve, tmp_path: Path, options: dict[str, str]) -> None:
    hooks = serve(source(secret="key", **({"max_age": "1m"} if options else {})))
    sink = build_sink(f"http://127.0.0.1:{hooks.capture.port}/hooks", secret="key", events=True, **options)
    sink.open(SinkContext("out", tmp_path, "db#out#0"))
    sink.write(1, of_bus(1, Event("e", "c", "INSERT", '{"a":1}', "s", 0)))
    assert [(row["id"], json.loads(row["payload"])["payload"]) for row in hooks.intake.rows] == [
        ("db#out#0#1#0", {"a": 1})
    ]
    sink.close()


NOT_JSON = "the body is not a JSON object or an array of objects: "


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"nonsense", "Expecting value: line 1 column 1 (char 0)"),
        (b"3", "there is no object at character 0"),
        (b'[{"a":1}, 2]', "there is no object at character 10"),
        (b'{"a":1} x', "something follows at character 7"),
        (b"[{},]", "a comma without an object behind it"),
        (b"[{} {}]", "neither , nor ] at character 4"),
        (b"[{}", "neither , nor ] at character 3"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deeply"),
    ],
)
def test_bodies_that_are_not_events(serve: Serve, body: bytes, reason: str) -> None:
    hooks = serve()
    assert hooks.post(body) == (400, {"error": NOT_JSON + reason})
    assert hooks.intake.rows == []


def test_requests_that_are_rejected(serve: Serve) -> None:
    hooks = serve(source(max_body="1kb"))
    assert hooks.post(b"\xff\xfe{}") == (400, {"error": "the body is not UTF-8"})
    assert hooks.post("{}", method="PUT") == (405, {"error": "/hooks takes POST"})
    assert hooks.post("{}", path="/other") == (404, {"error": "nothing is taken at /other"})
    too_long = "a request has at most 1024 bytes, this one has 2000"
    assert hooks.post(b"{" + b" " * 1998 + b"}") == (413, {"error": too_long})
    assert hooks.post("", method="GET", path="/health") == (200, {"status": "ok"})


def test_concurrent_requests_are_recorded_together(serve: Serve) -> None:
    hooks = serve()
    hooks.intake.hold = threading.Event()
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(hooks.post, json.dumps({"n": number})) for number in range(20)]
        wait_until(lambda: len(hooks.capture._waiting) >= 19, "nineteen requests that wait")
        hooks.intake.hold.set()
        assert [answer.result() for answer in answers] == [(200, {"taken": 1, "duplicates": 0})] * 20
    assert sorted(row["n"] for row in hooks.intake.payloads) == list(range(20))
    assert hooks.intake.appends <= 2


def test_a_request_that_could_not_be_recorded_is_sent_again(serve: Serve) -> None:
    hooks = serve()
    hooks.intake.failure = OSError("disk full")
    again = (503, {"error": "the events are not on record: send them again"})
    assert hooks.post("{}", Idempotency_Key="k") == again
    hooks.intake.failure = None
    with pytest.raises(OSError, match="disk full"):
        hooks.capture.catch_up(hooks.intake)
    assert hooks.post("{}", Idempotency_Key="k") == (200, {"taken": 1, "duplicates": 0})


def test_it_serves_until_it_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    capture = source(port=str(port)).capture([], CaptureContext("db", tmp_path, lambda: 0))
    assert isinstance(capture, WebhookCapture)
    for _ in range(2):
        intake = FakeIntake()
        following = threading.Thread(target=capture.follow, args=(intake,))
        following.start()
        wait_until(lambda: capture.port == port, "the server")
        assert HookServer(capture, intake).post('{"a":1}')[0] == 200
        intake.stopped.set()
        following.join(30)
        assert not following.is_alive()
        assert capture.port is None
        assert intake.payloads == [{"a": 1}]


def test_the_server_stays_up_between_catch_ups(serve: Serve) -> None:
    hooks = serve()
    port = hooks.capture.port
    hooks.post("{}")
    hooks.capture.catch_up(hooks.intake)
    assert hooks.capture.port == port
    hooks.intake.stopped.set()
    assert hooks.post("{}")[0] == 503
    assert len(hooks.intake.rows) == 1


def test_sources_on_one_port_need_different_paths(serve: Serve, tmp_path: Path) -> None:
    port = str(free_port())
    one, two = source("one", port=port, path="/one"), source("two", port=port, path="/two")
    assert one.session == two.session
    both = serve(one, two)
    both.post('{"n":1}', path="/one")
    both.post('{"n":2}', path="/two")
    assert [(row["source"], row["payload"]) for row in both.intake.rows] == [("one", '{"n":1}'), ("two", '{"n":2}')]
    with pytest.raises(Error) as caught:
        source("a", port=port).capture([source("b", port=port)], CaptureContext("db", tmp_path, lambda: 0))
    assert caught.value.message == "a and b both wait for events at /hooks"


def test_a_port_in_use_is_an_error(serve: Serve, tmp_path: Path) -> None:
    port = serve().capture.port
    capture = source(port=str(port)).capture([], CaptureContext("db", tmp_path, lambda: 0))
    with pytest.raises(Error) as caught:
        capture.catch_up(FakeIntake())
    assert caught.value.message == f"port {port} of 127.0.0.1 is in use"
    assert caught.value.hint == "choose another port, or stop who listens on it"


def test_invalid_sources() -> None:
    with pytest.raises(Error) as public:
        source(host="0.0.0.0")
    assert public.value.message == "on host 0.0.0.0 everybody in the network could connect"
    assert public.value.hint == "add secret = '...', or leave out host to listen on 127.0.0.1 only"
    assert source(host="0.0.0.0", secret="x").options.host == "0.0.0.0"
    with pytest.raises(Error) as columns:
        WebhookSource.build(SourceSpec("WEBHOOK", "hooks", VIEW), Bag("WEBHOOK", []))
    assert columns.value.message == "FROM WEBHOOK feeds the bus pgcdc_events, so it has no columns of its own"
    with pytest.raises(Error, match="option 'path' cannot be 'hooks'"):
        source(path="hooks")


def test_numbers_stay_as_they_were_written() -> None:
    assert objects('[{"a": 12345678901234567890.10},{"b":"\\u00e4"}]') == [
        '{"a": 12345678901234567890.10}',
        '{"b":"\\u00e4"}',
    ]
