"""The Spark session and the settings that matter (measured: a stateful Python step takes 0.2 s with them, 0.5 s
without). A user's own session is never changed: ours is a new session over the same context.

Spark talks to workers over Unix sockets. On TCP, Spark's small writes wait for an acknowledgement that Linux delays by
40 ms, once per Python task: more than a third of what a level of a small step cost.

Arrow batches are bounded by their rows. With a bound on bytes too (64 MB, Spark's own) Spark adds up the sizes of all
columns after every row, which takes three times as long as handing the rows to Python does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import errors
from tidegate.core.secrets import is_secret, remember
from tidegate.spark import compat, fork_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "25000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.checkpointFileManagerClass": compat.FILE_SYSTEM_CHECKPOINTS,
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
OF_HADOOP = "spark.hadoop."
WORKER_PYTHON = Path(__file__).with_name("worker-python")
STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.driver.memory": "3g",
    "spark.executor.killOnFatalError.depth": "0",
    "spark.python.daemon.module": "tidegate.spark.daemon",
}


def connect(master: str | None, config: Mapping[str, str], log: Path | None) -> SparkSession:
    """A new Spark application, or the one that runs in this process already."""
    check_java()
    from pyspark.sql import SparkSession

    from tidegate.spark.local_files import set_permissions_without_processes

    compat.forget_lost_context()
    compat.print_no_tracebacks()
    if compat.has_active_context():
        return session_of(SparkSession.builder.getOrCreate(), config)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master or "local[*]").appName("tidegate")
    secrets = {key: value for key, value in config.items() if _is_credential(key)}
    for key, value in {**STATIC, **SETTINGS, **config}.items():
        if key not in secrets:
            builder = builder.config(key, value)
    with _stderr_to(log), _quick_workers(master):
        session = builder.getOrCreate()
    for key, value in secrets.items():
        remember(key, value)
        compat.set_for_file_systems(session, key.removeprefix(OF_HADOOP), value)
    session.sparkContext.setLogLevel("ERROR")
    if compat.runs_tasks_once(session):
        set_permissions_without_processes(session)
    return session_of(session, config)


def session_of(session: SparkSession, config: Mapping[str, str]) -> SparkSession:
    """A new session beside the user's, with our settings."""
    own = session.newSession()
    for key, value in {**SETTINGS, **config}.items():
        compat.set_unless_static(own, key, value)
    return own


def java_version() -> int | None:
    """The major version of the Java that Spark would run, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return None
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(1\.)?(\d+)', text)
    return int(match[2]) if match else None


def check_java() -> None:
    """Raise an error with instructions unless Java 17 or newer is installed."""
    version = java_version()
    if version is None or version < 17:
        raise errors.make("JAVA_MISSING", found="no Java" if version is None else f"Java {version}")


def _is_credential(key: str) -> bool:
    """True for settings of file systems that are secret, such as keys of S3 and of accounts of Azure. PySpark passes
    settings to the JVM on its command line, which all users of a machine can see, so these are set afterwards."""
    if not key.startswith(OF_HADOOP):
        return False
    words = key.split(".")
    return any(is_secret(".".join(words[:count])) for count in range(1, len(words) + 1))


@contextmanager
def _quick_workers(master: str | None) -> Iterator[None]:
    """Start workers on this machine through `worker-python`, forked where that is possible, if they run the same Python
    as this process."""
    python = os.environ["PYSPARK_PYTHON"]
    same_python = _same_environment(python, sys.executable)
    if same_python and (master or "local").startswith("local") and os.access(WORKER_PYTHON, os.X_OK):
        os.environ |= {"PYSPARK_PYTHON": str(WORKER_PYTHON), "TIDEGATE_PYTHON": shutil.which(python) or python}
        if (server := fork_server.address()) is not None:
            os.environ[fork_server.SOCKET] = server
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = python


def _same_environment(python: str, other: str) -> bool:
    """True if two commands start the Python of one environment: `python` and `python3` of the same folder."""
    first, second = shutil.which(python), shutil.which(other)
    return first is not None and second is not None and Path(first).parent.resolve() == Path(second).parent.resolve()


class _stderr_to:
    """Sends the file descriptor behind stderr to a log file while the JVM starts, so that the JVM inherits that one:
    Spark's noise goes to the data folder, never to the user's terminal."""

    def __init__(self, log: Path | None) -> None:
        self._log = log

    def __enter__(self) -> None:
        sys.stderr.flush()
        self._saved = os.dup(2)
        self._saved_out = os.dup(1)
        target = os.open(str(self._log or os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, 2)
        os.dup2(target, 1)
        os.close(target)

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved, 2)
        os.dup2(self._saved_out, 1)
        os.close(self._saved)
        os.close(self._saved_out)
