"""Jars of the servers, fetched once with Maven into a folder that all clones share. `python -m tests.servers fetch`
fetches everything."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

POMS = Path(__file__).parent
CACHE = Path.home() / ".cache" / "tidegate"


class FetchError(Exception):
    """Something that the tests need cannot be fetched."""


def server_files(name: str) -> Path:
    """The folder with the jars of a server; `name` is that of its pom."""
    pom = POMS / f"{name}.xml"
    return _fetch(pom, CACHE / "servers" / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}")


def kafka_jars() -> Path:
    """The folder with the jars of Spark's Kafka connector, for the installed PySpark."""
    spark = version("pyspark")
    return _fetch(POMS / "spark-kafka.xml", CACHE / "jars" / spark, [f"-Dspark.version={spark}"])


def class_archive() -> Path | None:
    """The path of a class data sharing archive with the classes that Spark loads for a small pipeline: with it a JVM
    needs a third less CPU until its first step. It is valid for one Java and the jars of one environment; None without
    Java."""
    java, pyspark = shutil.which("java"), find_spec("pyspark")
    if java is None or pyspark is None or pyspark.origin is None:
        return None
    jars = Path(pyspark.origin).parent / "jars"
    inputs = "\n".join(
        [str(jars), *(f"{path} {path.stat().st_mtime_ns}" for path in [Path(java).resolve(), *sorted(jars.iterdir())])]
    )
    return Path(sys.prefix) / "classes" / f"{hashlib.sha256(inputs.encode()).hexdigest()[:16]}.jsa"


def make_class_archive() -> None:
    """Runs a small pipeline in a JVM that stores its loaded classes when it exits. Without the archive the tests only
    take longer, so a Java that cannot write one is no error."""
    target = class_archive()
    if target is None:
        raise FetchError("Java 17 or newer is needed")
    with locked(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return
        for outdated in target.parent.glob("*.jsa"):
            outdated.unlink()
        print(f"storing Spark's classes in {target} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            archive = Path(folder) / target.name
            environment = {**os.environ, "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={archive}"}
            command = [sys.executable, "-m", "tests.servers.small_pipeline"]
            completed = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
            if completed.returncode or not archive.exists():
                print("this Java did not store them: the tests' JVMs will start without", file=sys.stderr)
                return
            archive.replace(target)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock that one process of this machine can have at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(pom: Path, target: Path, settings: list[str] | None = None) -> Path:
    """Fetches into `target` unless it exists. It is complete or absent, also if several processes fetch at once."""
    if target.exists():
        return target
    with locked(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            files = Path(folder) / "files"
            _copy_dependencies(pom, files, settings or [])
            _unpack(files)
            files.rename(target)
    return target


def _copy_dependencies(pom: Path, target: Path, settings: list[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise FetchError(f"{pom.name}: Maven is needed once to fetch it: install maven (Debian: apt install maven)")
    print(f"fetching {pom.stem} into {CACHE} ...", file=sys.stderr, flush=True)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", *settings]
    completed = subprocess.run([maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False)
    if completed.returncode:
        raise FetchError(f"{pom.name}: Maven could not fetch it\n{completed.stdout[-2000:]}{completed.stderr[-2000:]}")


def _unpack(folder: Path) -> None:
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        archive.unlink()


def fetch_everything() -> None:
    server_files("kafka")
    server_files("registry")
    kafka_jars()
    make_class_archive()
