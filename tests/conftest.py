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
# Tests start many JVMs on two cores. Those that live for seconds do without the optimizing compiler; the one that all
# tests of a worker share compiles the hottest methods only. Compiling as usual takes up to half of their time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
SHARED_JVM = (
    "-XX:TieredStopAtLevel=4 -XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=3000"
    " -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with two threads, as a pipeline sets it up for itself."""
    from tidegate.spark.session import connect

    config = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": SHARED_JVM}
    session = connect("local[2]", config, tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
