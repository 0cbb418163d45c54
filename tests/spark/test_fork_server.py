"""A forked process is like one that was started: arguments, environment, folder, streams, exit code, end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.processes import wait_until
from tidegate.spark.fork_server import SOCKET, ForkServer
from tidegate.spark.session import WORKER_PYTHON

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux only")
LOOK = """
import json, os, sys
import pyspark.worker
seen = {"argv": sys.argv[1:], "name": __name__, "folder": os.getcwd(), "word": os.environ.get("WORD"),
        "gone": os.environ.get("HOME"), "read": sys.stdin.read(), "parent": os.getppid(), "path": sys.path,
        "hash": hash("word")}
print(json.dumps(seen))
print("a complaint", file=sys.stderr)
sys.exit(7)
"""
WAIT = """
import os, signal, time
open("started", "w").write(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    wait_until(lambda: Path(server.socket).exists(), "the server", 60)
    yield server
    server.stop()


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "wait.py").write_text(WAIT)
    return tmp_path


def start(module: str, folder: Path, socket: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"/x/pyspark.zip:{folder}", "WORD": "a b\nc"}
    chosen = {"TIDEGATE_PYTHON": sys.executable, SOCKET: socket, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        [WORKER_PYTHON, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**environment, **chosen},
    )


def look(folder: Path, socket: str) -> tuple[dict[str, object], str, int]:
    process = start("look", folder, socket, "one", "two words")
    out, err = process.communicate("some text", timeout=60)
    return json.loads(out), err, process.returncode


def test_a_forked_process_is_like_a_started_one(server: ForkServer, modules: Path) -> None:
    forked, started = look(modules, server.socket), look(modules, "/nowhere")
    assert forked[1:] == started[1:] == ("a complaint\n", 7)
    assert forked[0].pop("parent") == server.pid
    assert started[0].pop("parent") == os.getpid()
    for seen, _, _ in (forked, started):
        path = seen.pop("path")
        assert isinstance(path, list)
        assert path[0] == str(modules)
        assert not any(part.endswith("pyspark.zip") for part in path)
    assert forked[0] == started[0]
    assert forked[0]["argv"] == ["one", "two words"]
    assert forked[0]["read"] == "some text"


def test_a_process_ends_with_its_client(server: ForkServer, modules: Path) -> None:
    client = start("wait", modules, server.socket)
    started = modules / "started"
    wait_until(lambda: started.exists() and bool(started.read_text()), "the process", 60)
    child = int(started.read_text())
    assert child != client.pid
    client.terminate()
    client.communicate(timeout=60)
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "the end of the process", 60)


def test_processes_and_clients_that_end_together(server: ForkServer, modules: Path) -> None:
    """Clients that are killed while their processes end by themselves, many at a time."""
    for _ in range(10):
        clients = [start("look", modules, server.socket) for _ in range(4)]
        for client in clients:
            assert client.stdin is not None
            client.stdin.close()
            client.kill()
        for client in clients:
            client.wait(60)
    assert look(modules, server.socket)[2] == 7
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    wait_until(lambda: not children.read_text(), "the end of all processes", 60)


def test_an_error_is_printed(server: ForkServer, modules: Path) -> None:
    process = start("no_such_module", modules, server.socket)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "No module named" in err


def test_a_server_that_was_killed_is_done_without(modules: Path) -> None:
    server = ForkServer()
    wait_until(lambda: Path(server.socket).exists(), "the server", 60)
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    seen, _, code = look(modules, server.socket)
    assert (seen["read"], code) == ("some text", 7)
    server.stop()
    assert not Path(server.socket).parent.exists()


def test_the_server_ends_with_the_process_that_started_it(modules: Path) -> None:
    script = "import os; from tidegate.spark.fork_server import ForkServer; os.write(1, b'%d' % ForkServer().pid)"
    command = [sys.executable, "-c", f"{script}; os._exit(9)"]
    started = subprocess.run(command, capture_output=True, text=True, check=False)
    wait_until(lambda: not Path(f"/proc/{int(started.stdout)}").exists(), "the end of the server", 60)
