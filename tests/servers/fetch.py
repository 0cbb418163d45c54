"""What the servers are made of, fetched once with Maven into a folder that all clones share. `python -m
tests.servers.fetch` fetches everything."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

POMS = Path(__file__).parent
CACHE = Path.home() / ".cache" / "tidegate"


class FetchError(Exception):
    """Something that tests need cannot be had."""


def server_files(name: str) -> Path:
    """The folder with the jars of a server, by the name of its pom."""
    pom = POMS / f"{name}.xml"
    return _fetched(pom, CACHE / "servers" / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}")


def kafka_jars() -> Path:
    """The folder with the jars of Spark's Kafka connector, for the PySpark that is installed."""
    spark = version("pyspark")
    return _fetched(POMS / "spark-kafka.xml", CACHE / "jars" / spark, [f"-Dspark.version={spark}"])


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time, on this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetched(pom: Path, target: Path, settings: list[str] | None = None) -> Path:
    """`target` is there completely or not at all, however many ask for it at once."""
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
    done = subprocess.run([maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchError(f"{pom.name}: Maven could not fetch it\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _unpack(folder: Path) -> None:
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        archive.unlink()


def main() -> None:
    try:
        server_files("kafka")
        server_files("registry")
        kafka_jars()
    except FetchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
