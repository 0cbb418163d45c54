"""Forks Spark's Python processes from one that has imported what they need.

Spark starts several Python processes for every query, each of which would spend 0.2 to 0.4 s on imports. On Linux, a
pipeline that runs on this machine starts this server beside its JVM. The Python of that JVM is `worker-python`, which
asks the server for a process through `fork_client.py`. The process has the folder, the environment and the standard
streams of its client. It is terminated when its client is, and the server ends with the process that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple, NoReturn

from tidegate.core.signals import shield_from_interrupt
from tidegate.spark import compat

SOCKET = "TIDEGATE_FORK_SERVER"
"""The variable with the path of the server's socket."""
PRELOADED = (*compat.WORKER_MODULES, "tidegate.spark.feed", "tidegate.spark.level", "tidegate.spark.lowering")
STREAMS = 3
STOP_SECONDS = 5


class ForkServer:
    """The server, as the process that starts it sees it."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="tidegate-")
        self.socket = str(Path(self._folder) / "fork")
        fixed = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"), "PYTHONUNBUFFERED": "YES"}
        single = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with shield_from_interrupt():
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, self.socket],
                stdin=subprocess.PIPE,
                env={**os.environ, **fixed, **single},
            )
        self.pid = self._process.pid
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the server."""
        atexit.unregister(self.stop)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


_server: ForkServer | None = None


def address() -> str | None:
    """The socket of this process's server, which is started if there is none; None where it cannot run."""
    global _server
    if not sys.platform.startswith("linux"):
        return None
    if _server is None:
        _server = ForkServer()
    return _server.socket


def serve(path: str) -> None:
    """Fork a process for every client until standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as waiting:
        for module in PRELOADED:
            importlib.import_module(module)
        gc.collect()
        gc.freeze()
        listener.bind(path)
        listener.listen(64)
        waiting.register(sys.stdin, selectors.EVENT_READ)
        waiting.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    _accept(listener, waiting)
                else:
                    _ended(key, waiting)


def _accept(listener: socket.socket, waiting: selectors.BaseSelector) -> None:
    client, _ = listener.accept()
    try:
        request, streams = _receive(client)
    except (OSError, ValueError):
        client.close()
        return
    child = os.fork()
    if child == 0:
        waiting.close()
        listener.close()
        client.close()
        _become(request, streams)
    for stream in streams:
        os.close(stream)
    forked = _Forked(child, os.pidfd_open(child), client)
    waiting.register(client, selectors.EVENT_READ, forked)
    waiting.register(forked.descriptor, selectors.EVENT_READ, forked)


class _Forked(NamedTuple):
    """A process and its client. The descriptor names the process even if its number is in use again."""

    number: int
    descriptor: int
    client: socket.socket


def _ended(key: selectors.SelectorKey, waiting: selectors.BaseSelector) -> None:
    """If a process has ended, its client receives the exit code. If a client was killed, its process is terminated."""
    forked: _Forked = key.data
    if key.fileobj is forked.client:
        if forked.client.fileno() >= 0:
            waiting.unregister(forked.client)
            forked.client.close()
            signal.pidfd_send_signal(forked.descriptor, signal.SIGTERM)
        return
    _, status = os.waitpid(forked.number, 0)
    waiting.unregister(forked.descriptor)
    os.close(forked.descriptor)
    if forked.client.fileno() >= 0:
        waiting.unregister(forked.client)
        with contextlib.suppress(OSError):
            forked.client.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
        forked.client.close()


def _receive(client: socket.socket) -> tuple[bytes, list[int]]:
    """What a client sends: the length, the request, and its standard streams."""
    client.settimeout(10)
    data, streams, _, _ = socket.recv_fds(client, 65536, STREAMS)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = client.recv(65536)
        if not more:
            break
        data += more
    if len(streams) != STREAMS or len(data) != 4 + int.from_bytes(data[:4], "big"):
        for stream in streams:
            os.close(stream)
        raise ValueError("incomplete request")
    client.settimeout(None)
    return data[4:], streams


def _become(request: bytes, streams: list[int]) -> NoReturn:
    """Run a module in this process, as `python -m` would."""
    code = 1
    try:
        folder, arguments, environment = request.split(b"\1")
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        sys.path[0] = os.getcwd()
        os.environb.clear()
        os.environb.update(dict(entry.split(b"=", 1) for entry in environment.split(b"\0")))
        search = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        sys.path[:0] = [part for part in search if part not in sys.path]
        _, module, *rest = (argument.decode() for argument in arguments.split(b"\0"))
        sys.argv = [module, *rest]
        warnings.filterwarnings("ignore", ".*found in sys.modules after import of package.*", RuntimeWarning)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
