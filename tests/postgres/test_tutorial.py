"""docs/tutorial.md, executed like a new user would, against a real server.

```sh your own  the user's variables; skipped, the test sets those of its server
```sh           runs; a `text` block right below is its output
```sh shows     is repeated until it prints the block below
```sh stays     keeps running in its own terminal; `text tail` and `text events` blocks are lines that it prints
```sh ends      runs after Ctrl-C in all terminals in which something runs
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.postgres import PASSWORD, USER, Postgres, postgres_server
from tests.servers.processes import end_with_tests, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PATIENCE = 180
_BLOCK = re.compile(r"^```(?P<info>(?:sh|text)[^\n]*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Postgres]:
    (tmp_path / "server").mkdir()
    with postgres_server(tmp_path / "server") as running:
        yield running


class Reader:
    """A reader who follows the page in an empty folder."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"PGHOST": "localhost", "PGPORT": str(server.port), "PGUSER": USER, "PGPASSWORD": PASSWORD}
        self.environment = {**os.environ, **variables, "PATH": programs, "XDG_STATE_HOME": str(folder / "state")}
        self.folder, self.server = folder, server
        self.open: list[subprocess.Popen[bytes]] = []
        self.printed = ""

    def do(self, info: str, body: str) -> None:
        steps: dict[str, Callable[[str], None]] = {
            "sh": self.run,
            "sh your own": lambda _: None,
            "sh stays": self.stay,
            "sh ends": self.end_and_run,
            "text": self.compare,
            "text tail": self.tail,
            "text events": self.events,
        }
        steps[info](body)

    def run(self, body: str) -> None:
        completed = subprocess.run(
            ["bash", "-ec", body],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert completed.returncode == 0, f"{body}\n{completed.stdout}\n{completed.stderr}"
        self.printed = _clean(completed.stdout)

    def show(self, body: str, expected: str) -> None:
        def is_shown() -> bool:
            try:
                self.run(body)
            except AssertionError as problem:
                self.printed = str(problem)
            return self.printed == _clean(expected)

        try:
            wait_until(is_shown, "the result", PATIENCE)
        except Exception:
            assert self.printed == _clean(expected)
            raise

    def stay(self, body: str) -> None:
        with self.output(len(self.open)).open("wb") as file:
            command = ["bash", "-c", f"exec {body}"]
            self.open.append(
                subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=file, stderr=subprocess.STDOUT)
            )
        end_with_tests(self.open[-1].pid)
        if " listen " in body:
            wait_until(lambda: self._slots() == 2, "the slot", PATIENCE)

    def _slots(self) -> int:
        with self.server.connect() as connection:
            row = connection.execute("SELECT COUNT(*) FROM pg_replication_slots WHERE active").fetchone()
        return 0 if row is None else row[0]

    def end_and_run(self, body: str) -> None:
        self.end()
        self.run(body)

    def end(self) -> None:
        """Presses Ctrl-C in all terminals; every process must exit without an error."""
        for number, process in enumerate(self.open):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE) == 0, self.output(number).read_text()

    def compare(self, body: str) -> None:
        assert self.printed == _clean(body)

    def tail(self, body: str) -> None:
        """Waits for all of these changes, in any steps."""
        changes = {line.split(maxsplit=1)[1] for line in body.splitlines()}

        def arrived() -> bool:
            lines = self.output(len(self.open) - 1).read_text().splitlines()
            return changes <= {line.split(maxsplit=1)[-1] for line in lines}

        wait_until(arrived, f"the tail to say {changes}", PATIENCE)

    def events(self, body: str) -> None:
        """Waits for all of these events; `...` matches anything."""
        expected = [json.loads(line.replace(", ...}", "}")) for line in body.splitlines()]

        def arrived() -> bool:
            lines = [line for line in self.output(len(self.open) - 1).read_text().splitlines() if line.startswith("{")]
            events = [json.loads(line) for line in lines]
            return all(any(_fits(one, event) for event in events) for one in expected)

        wait_until(arrived, "the events", PATIENCE)

    def output(self, number: int) -> Path:
        return self.folder / f"terminal-{number}"


def _clean(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def _fits(expected: Any, event: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(event, dict) and all(_fits(value, event.get(name)) for name, value in expected.items())
    return expected in ("...", event)


def test_from_a_table_to_a_live_revenue_view(tmp_path: Path, server: Postgres) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    reader = Reader(folder, server)
    blocks = [(match["info"], match["body"]) for match in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    try:
        for at, (info, body) in enumerate(blocks):
            if info == "sh shows":
                reader.show(body, blocks[at + 1][1])
            else:
                reader.do(info, body)
    finally:
        for process in reader.open:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert sorted(path.name for path in folder.iterdir()) == [f"terminal-{n}" for n in range(len(reader.open))]
