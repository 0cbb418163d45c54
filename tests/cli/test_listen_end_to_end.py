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
from tidegate.cli.listening.merging import completed, merged
from tidegate.cli.listening.run import prepare
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
def prepared(tmp_path: Path, spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Gets ready to listen to a database, up to where it would say that it does."""
    with tidegate.connect(tmp_path / "data", spark=spark) as db:

        def prepare_for(url: str) -> None:
            config = merged(read_config(Path("listen.yaml"), FILE, {"DATABASE_URL": url}), Config())
            declare(db, definitions(completed(config)))
            prepare(db, threading.Event())

        yield prepare_for


def test_a_wrong_password_is_told_at_once(server: Postgres, prepared: Callable[[str], None]) -> None:
    with pytest.raises(tidegate.Error) as refused:
        prepared(server.url(password="wr0ng-word"))
    assert str(refused.value) == (
        f"PIPELINE_FAILED: PostgreSQL at {server.address}/postgres refused the connection:"
        ' password authentication failed for user "tidegate"\n'
        "  hint: check the user, the password and the name of the database, then start again"
    )


def test_a_server_that_is_away_is_tried_again(
    prepared: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    prepared(f"postgresql://app@127.0.0.1:{port}/shop")
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.endswith(": it is tried again\n")
    assert f"127.0.0.1:{port}" in said.err
