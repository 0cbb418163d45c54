"""One Spark session for all tests of a worker, one broker and one schema registry for all workers: starting them takes
seconds. Topics and subjects of a test need names of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.fetch import class_archive

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Without the optimizing compiler: with it, up to half of the JVM's time is compilation of code that runs a few times
# (measured on packs of specs: 104 s of CPU with it, 74 s without). A few packs fill the 48 MB that compiled code has by
# default: it is then dropped and compiled again.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xmn900m"
)
pytest_plugins = ["tests.tiers"]
_CLASSES = class_archive()
if _CLASSES is not None and _CLASSES.exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={_CLASSES}")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers import Broker


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with the jars of Spark's Kafka connector. TIDEGATE_JARS names another one: a PySpark whose connector
    cannot be fetched runs the tests that do not read Kafka."""
    from tests.servers import kafka_jars

    named = os.environ.get("TIDEGATE_JARS")
    return Path(named) if named else kafka_jars()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker that many tests use: none of them may stop it."""
    from tests.servers import Broker, shared

    folder = of_all_workers(tmp_path_factory, "kafka")
    with shared(folder, lambda: Broker(folder), lambda made: made.address) as address:
        yield Broker.at(address)


@pytest.fixture(scope="session")
def registry_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a schema registry answers to Confluent's API."""
    from tests.servers import Registry, shared

    folder = of_all_workers(tmp_path_factory, "registry")
    with shared(folder, lambda: Registry(folder), lambda made: made.url) as url:
        yield url


def of_all_workers(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that is the same for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Iterator[SparkSession]:
    """Spark with two threads, as a pipeline sets it up for itself, with the connectors that it needs jars for.
    Expressions are interpreted: compiling them takes longer than the few rows of a test. Operators that sort or group
    allocate pages of 64 MB by default, for any number of rows."""
    os.environ.setdefault("TIDEGATE_JARS", str(kafka_jars))
    from tidegate.spark.session import connect
    from tidegate.testing.spec.engine import INTERPRETED

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    session = connect("local[2]", {"spark.driver.memory": "2g", "spark.buffer.pageSize": "1m", **INTERPRETED}, log)
    yield session
    session.stop()
