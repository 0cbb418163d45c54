"""One Spark session for all tests of a worker: starting one takes seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Many short-lived JVMs on two cores: compiling for the long run would cost them a third of their time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with two threads, as a pipeline sets it up for itself."""
    from tidegate.spark.session import connect

    session = connect("local[2]", {"spark.driver.memory": "2g"}, tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
