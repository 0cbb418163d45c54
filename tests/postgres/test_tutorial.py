"""docs/tutorial.md as a new user goes through it, at a real server.

```sh your own  variables of the user: those of the test's server
```sh           runs; a `text` block right below is what it prints
```sh shows     runs until it prints the block below
```sh stays     runs in a terminal of its own; `text tail` and `text events` blocks are what it prints in time
```sh ends      runs after Ctrl-C in all terminals that have something running
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
from tests.servers.processes import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PATIENCE = 180
_BLOCK = re.compile(r"^```(?P<info>(?:sh|text)[^\n]*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Postgres]:
    (tmp_path / "server").mkdir()
    with postgres_server(tmp_path / "server") as found:
        yield found


class Reader:
    """Someone who does what the page says, in a folder of their own."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        asked = {"PGHOST": "localhost", "PGPORT": str(server.port), "PGUSER": USER, "PGPASSWORD": PASSWORD}
        self.environment = {**os.environ, **asked, "PATH": programs, "XDG_STATE_HOME": str(folder / "state")}
        self.folder, self.server = folder, server
        self.open: list[subprocess.Popen[bytes]] = []
        self.said = ""

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
        found = subprocess.run(
            ["bash", "-ec", body],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert found.returncode == 0, f"{body}\n{found.stdout}\n{found.stderr}"
        self.said = _clean(found.stdout)

    def show(self, body: str, expected: str) -> None:
        def shown() -> bool:
            try:
                self.run(body)
            except AssertionError as problem:
                self.said = str(problem)
            return self.said == _clean(expected)

        try:
            wait_until(shown, "the result", PATIENCE)
        except Exception:
            assert self.said == _clean(expected)
            raise

    def stay(self, body: str) -> None:
        with self.output(len(self.open)).open("wb") as file:
            command = ["bash", "-c", f"exec {body}"]
            self.open.append(
                subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=file, stderr=subprocess.STDOUT)
            )
        if " listen " in body:
            wait_until(lambda: self._slots() == 2, "the slot", PATIENCE)

    def _slots(self) -> int:
        with self.server.connect() as connection:
            found = connection.execute("SELECT COUNT(*) FROM pg_replication_slots WHERE active").fetchone()
        return 0 if found is None else found[0]

    def end_and_run(self, body: str) -> None:
        self.end()
        self.run(body)

    def end(self) -> None:
        """Ctrl-C, and a prompt that comes back without an error."""
        for number, process in enumerate(self.open):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE) == 0, self.output(number).read_text()

    def compare(self, body: str) -> None:
        assert self.said == _clean(body)

    def tail(self, body: str) -> None:
        """All of these changes, in whatever steps."""
        wanted = {line.split(maxsplit=1)[1] for line in body.splitlines()}

        def there() -> bool:
            lines = self.output(len(self.open) - 1).read_text().splitlines()
            return wanted <= {line.split(maxsplit=1)[-1] for line in lines}

        wait_until(there, f"the tail to say {wanted}", PATIENCE)

    def events(self, body: str) -> None:
        """All of these events; `...` stands for anything."""
        wanted = [json.loads(line.replace(", ...}", "}")) for line in body.splitlines()]

        def there() -> bool:
            lines = [line for line in self.output(len(self.open) - 1).read_text().splitlines() if line.startswith("{")]
            told = [json.loads(line) for line in lines]
            return all(any(_fits(one, event) for event in told) for one in wanted)

        wait_until(there, "the events", PATIENCE)

    def output(self, number: int) -> Path:
        return self.folder / f"terminal-{number}"


def _clean(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def _fits(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_fits(value, found.get(name)) for name, value in wanted.items())
    return wanted in ("...", found)


def test_from_a_table_to_a_live_revenue_view(tmp_path: Path, server: Postgres) -> None:
    folder = tmp_path / "user"
    folder.mkdir()
    reader = Reader(folder, server)
    blocks = [(found["info"], found["body"]) for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
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
