"""Spark's own Kafka connector: on the session, in a folder of jars, or downloaded as a Spark package."""

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
    """Return the connector of a Spark version for `spark.jars.packages`."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def folder(version: str) -> Path:
    """Return the folder of jars: TIDEGATE_JARS, else the user's cache."""
    setting = os.environ.get(FOLDER)
    return Path(setting) if setting else Path.home() / ".cache" / "tidegate" / "jars" / version


def in_folder(jar_folder: Path) -> list[Path]:
    """Return all jars of a folder if the connector is complete there, else none."""
    jars = sorted(jar_folder.glob("*.jar"))
    return jars if all(any(jar.name.startswith(f"{name}-") for jar in jars) for name in NEEDED) else []


def ensure(spark: SparkSession) -> None:
    """Add the connector to a session, if it does not have it; each session needs it."""
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
    """True if the session can read Kafka. No broker is contacted."""
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
    """The error for a missing connector."""
    return make(
        "CONNECTOR_JARS",
        name="KAFKA",
        jars=package(version),
        detail=f"it is neither on the Spark session nor in {folder(version)}, and could not be fetched",
        hint=f"put the jars ({', '.join(NEEDED)}) into a folder and set {FOLDER} to it, or start Spark with"
        f" spark.jars.packages = {package(version)}",
    )
