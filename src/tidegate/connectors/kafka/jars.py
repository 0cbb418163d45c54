"""Spark's own Kafka connector: found on the session, in a folder of jars, or fetched as Spark fetches packages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.quoting import literal
from tidegate.errors import Error, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "TIDEGATE_JARS"
NEEDED = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")


def package(version: str) -> str:
    """The connector of a Spark version, as `spark.jars.packages` names it."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def folder(version: str) -> Path:
    """Where jars are looked for: in the folder that the environment names, else in the user's cache."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else Path.home() / ".cache" / "tidegate" / "jars" / version


def in_folder(place: Path) -> list[Path]:
    """All jars of a folder, if the connector is complete there; else none."""
    jars = sorted(place.glob("*.jar"))
    return jars if all(any(jar.name.startswith(f"{name}-") for jar in jars) for name in NEEDED) else []


def ensure(spark: SparkSession) -> None:
    """Makes the connector known to a session. Sessions are apart in this: each has to be told."""
    if known(spark):
        return
    jars = in_folder(folder(spark.version))
    if jars:
        for jar in jars:
            spark.sql(f"ADD JAR {literal(str(jar))}")
    else:
        _fetch(spark)
    if not known(spark):
        raise missing(spark.version)


def known(spark: SparkSession) -> bool:
    """Whether the session can read Kafka. Nothing is read and no broker asked."""
    from pyspark.errors import AnalysisException

    try:
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", "-:1").option("subscribe", "-").load()
    except AnalysisException:
        return False
    return True


def _fetch(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        spark.sql(f"ADD JAR 'ivy://{package(spark.version)}'")
    except (PySparkException, Py4JError) as failure:
        raise missing(spark.version) from failure


def missing(version: str) -> Error:
    """What to do when there is no connector."""
    return make(
        "CONNECTOR_JARS",
        name="KAFKA",
        jars=package(version),
        detail=f"it is neither on the Spark session nor in {folder(version)}, and could not be fetched",
        hint=f"put the jars ({', '.join(NEEDED)}) into a folder and set {FOLDER} to it, or start Spark with"
        f" spark.jars.packages = {package(version)}",
    )
