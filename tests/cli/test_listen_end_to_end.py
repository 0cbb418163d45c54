"""`tidegate listen` at a real database: only events and results of views on stdout; it goes on where it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tests.servers.postgres import Postgres, postgres_server
from tests.servers.processes import free_port, wait_until
from tidegate.cli.listening.config import Config
from tidegate.cli.listening.declaring import declare
from tidegate.cli.listening.merging import complete_config, merge
from tidegate.cli.listening.run import catch_up, prepare
from tidegate.cli.listening.sections import read_config
from tidegate.cli.listening.statements import definitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIDEGATE = Path(sys.executable).parent / "tidegate"
FILE = """\
postgres: {url: ${DATABASE_URL}, tables: orders}
views:
  revenue:
    query: |
      SELECT payload.row.region AS region, COUNT(*) AS orders, SUM(payload.row.amount) AS total
      FROM pgcdc_events
      WHERE operation = 'INSERT'
      GROUP BY payload.row.region
      TUMBLING WINDOW 1s
adapters: {stdout: {channels: "*"}}
metrics_port: 0
data: data
"""


class Listening:
    """A `tidegate listen` with its output in files."""

    def __init__(self, folder: Path, url: str, *arguments: str) -> None:
        self.out, self.err = folder / "out", folder / "err"
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(
                [str(TIDEGATE), "listen", "--config", "listen.yaml", *arguments],
                stdout=out, stderr=err, cwd=folder, env=os.environ | {"DATABASE_URL": url}, start_new_session=True,
            )  # fmt: skip

    def events(self) -> list[dict[str, Any]]:
        """What was printed: whole lines, each one event."""
        return [json.loads(line) for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def changes(self) -> list[tuple[str, Any]]:
        return [(each["operation"], each["payload"]) for each in self.events() if each["operation"] != "VIEW_RESULT"]

    def results(self) -> list[dict[str, Any]]:
        return [each["payload"] for each in self.events() if each["channel"] == "pgcdc:_view:revenue"]

    def wait_for(self, what: str) -> str:
        """Waits until this is said on stderr; all that was."""
        wait_until(lambda: what in self.err.read_text() or self.process.poll() is not None, what, 300)
        assert self.process.poll() is None, self.err.read_text()
        return self.err.read_text()

    def end(self) -> int:
        """What Ctrl-C on a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(120)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("server")) as server:
        server.execute("postgres", "CREATE TABLE orders (id BIGINT PRIMARY KEY, region TEXT, amount NUMERIC(10,2))")
        yield server


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Listening]]:
    """Those that a test starts; none of them outlives it."""
    found: list[Listening] = []
    yield found
    for each in found:
        each.kill()


def test_from_a_table_to_stdout(tmp_path: Path, server: Postgres, started: list[Listening]) -> None:
    (tmp_path / "listen.yaml").write_text(FILE)
    first = Listening(tmp_path, server.url())
    started.append(first)
    said = first.wait_for("Ctrl-C ends it")
    page = re.search(r"metrics: (\S+)", said)
    assert page is not None
    assert said.replace(page[1], "PAGE") == (
        "listening to postgres (orders)\n"
        "  views: revenue\n"
        "  to stdout: *\n"
        f"  data: {tmp_path}/data\n"
        "  metrics: PAGE\n"
        "  Ctrl-C ends it\n"
    )
    server.execute("postgres", "INSERT INTO orders VALUES (1, 'north', 10.50), (2, 'south', 1), (3, 'north', 2.25)")
    wait_until(lambda: len(first.results()) >= 2, "the results of a window", 120)
    assert [operation for operation, _ in first.changes()] == ["INSERT"] * 3
    found = {each["region"]: (each["orders"], each["total"]) for each in first.results()}
    assert found == {"north": (2, 12.75), "south": (1, 1)}
    with urllib.request.urlopen(page[1], timeout=30) as answer:
        assert "tidegate_view_windows_emitted_total" in answer.read().decode()
    assert first.end() == 0
    assert first.err.read_text() == said

    server.execute("postgres", "UPDATE orders SET amount = 3 WHERE id = 2; DELETE FROM orders WHERE id = 1")
    second = Listening(tmp_path, server.url(), "--once")
    started.append(second)
    assert second.process.wait(300) == 0, second.err.read_text()
    assert [(operation, (payload["row"] or payload["old"])["id"]) for operation, payload in second.changes()] == [
        ("UPDATE", 2),
        ("DELETE", 1),
    ]
    assert second.err.read_text() == ""


@pytest.fixture
def prepared(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Gets ready to listen to a database, up to where it would say that it does."""
    with tidegate.connect(tmp_path / "data", spark=spark) as db:

        def prepare_for(url: str) -> None:
            monkeypatch.setenv("DATABASE_URL", url)
            config = merge(read_config(Path("listen.yaml"), FILE, {"DATABASE_URL": url}), Config())
            declare(db, definitions(complete_config(config)))
            prepare(db, threading.Event())

        yield prepare_for


def test_a_wrong_password_is_told_at_once(server: Postgres, prepared: Callable[[str], None]) -> None:
    with pytest.raises(tidegate.Error) as refused:
        prepared(server.url(password="wr0ng-word"))
    assert str(refused.value) == (
        f"PIPELINE_FAILED: PostgreSQL at {server.address}/postgres rejected the connection:"
        ' password authentication failed for user "tidegate"\n'
        "  hint: check the user, the password and the name of the database, then start again"
    )


def once(folder: Path, spark: SparkSession, adapter: str) -> None:
    """What `--once` does with an event and one adapter."""
    text = f"sources: {{webhook: {{port: 0}}}}\nadapters:\n  {adapter}\n"
    with tidegate.connect(folder / "data", spark=spark) as db:
        config = complete_config(merge(read_config(Path("listen.yaml"), text, {}), Config()))
        declare(db, definitions(config))
        db.insert("pgcdc_events", [("1", "c", "INSERT", "{}", "s", None, None)])
        catch_up(db, threading.Event())


def test_once_fails_if_an_adapter_cannot_take_everything(tmp_path: Path, spark: SparkSession) -> None:
    port = free_port()
    with pytest.raises(tidegate.Error) as failed:
        once(tmp_path, spark, f"redis: {{url: 'redis://127.0.0.1:{port}/0', stream: s}}")
    said = str(failed.value)
    assert said.startswith("PIPELINE_FAILED: sink redis did not receive everything: no Redis server answers at 127.")
    assert said.endswith("\n  hint: the same command resumes from there")


def test_once_waits_until_a_webhook_is_through_with_its_attempts(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    once(tmp_path, spark, f"webhook: {{url: '{url}', max_retries: 2, backoff: 50ms}}")
    with tidegate.connect(tmp_path / "data", spark=spark, read_only=True) as db:
        assert db.query("SELECT sink, status FROM system.dead_letters").rows() == [("webhook_sink", None)]
    assert "rejected requests are in system.dead_letters" in caplog.text


def test_who_reads_stdout_may_leave(tmp_path: Path, server: Postgres) -> None:
    """As in `tidegate listen --stdout | head -1`: it ends, and says nothing of it."""
    (tmp_path / "listen.yaml").write_text(FILE.replace("metrics_port: 0\n", ""))
    with open(tmp_path / "err", "w+") as err:
        process = subprocess.Popen(
            [str(TIDEGATE), "listen", "--config", "listen.yaml"],
            stdout=subprocess.PIPE, stderr=err, cwd=tmp_path, env=os.environ | {"DATABASE_URL": server.url()},
            start_new_session=True,
        )  # fmt: skip
        try:
            wait_until(lambda: "Ctrl-C ends it" in (tmp_path / "err").read_text(), "the start", 300)
            said = (tmp_path / "err").read_text()
            server.execute("postgres", "INSERT INTO orders VALUES (91, 'east', 1)")
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["channel"] == "pgcdc:orders"
            process.stdout.close()
            server.execute("postgres", "INSERT INTO orders VALUES (92, 'east', 1)")
            assert process.wait(120) == 0
            assert (tmp_path / "err").read_text() == said
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def test_a_server_that_is_away_is_tried_again(
    prepared: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    prepared(f"postgresql://app@127.0.0.1:{port}/shop")
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.endswith(": retrying\n")
    assert f"127.0.0.1:{port}" in said.err
