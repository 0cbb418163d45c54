"""What relies on things that Spark does not document: file layouts, property names, error texts, JVM calls. The layout
of a checkpoint is also known to storage/generations.py, which opens folders without Spark.

Each assumption has a test in tests/spark/test_compat.py, which runs on every supported version of PySpark. What breaks
with a new version breaks there first, and is mended here.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAMING = "org.apache.spark.sql.execution.streaming"
ROCKSDB_PROVIDER = f"{STREAMING}.state.RocksDBStateStoreProvider"
FILE_SYSTEM_CHECKPOINTS = f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"

NO_OFFSET = "-"
"""What a line of an offset file says of a source that has not been read yet."""

_BATCH_PROPERTY = "streaming.sql.batchId"
_WORKER_DID_NOT_START = "worker failed to connect back"


@dataclass(frozen=True)
class PlannedBatch:
    """One file of Spark's offset log: when the batch was planned, and the offset of every source after it."""

    planned_ms: int
    offsets: tuple[str, ...]


def read_planned_batch(checkpoint: Path, batch: int) -> PlannedBatch:
    """Read the offset log's entry of a batch. Its lines: version, metadata as JSON, then one offset per source."""
    _, metadata, *offsets = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return PlannedBatch(int(json.loads(metadata)["batchTimestampMs"]), tuple(offsets))


def source_log(checkpoint: Path, index: int) -> Path:
    """The folder that Spark keeps for a source, by its place in the query's union."""
    return checkpoint / "sources" / str(index)


def batch_of_task() -> int:
    """The micro-batch that the running task belongs to."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty(_BATCH_PROPERTY) or 0)


def read_map_state(spark: SparkSession, checkpoint: Path, operator: int, variable: str) -> DataFrame:
    """The entries of a map state of one transformWithState operator: struct columns key, user_map_key, user_map_value.

    In a process that has run no query yet, the state reader fails unless `spark.streams` was touched.
    """
    _ = spark.streams
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
    return reader.load(str(checkpoint))


def is_worker_start_failure(text: str) -> bool:
    """True for the failure of a query whose Python worker did not connect in time, as on a machine under load."""
    return _WORKER_DID_NOT_START in text


def has_active_context() -> bool:
    """True if a Spark application runs in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


class YoungCollector:
    """Stands in for the module `gc` in PySpark's daemon, which runs a full collection after every task."""

    @staticmethod
    def collect() -> int:
        return gc.collect(1)


def use_young_collector() -> None:
    """Let workers collect the young generation only after a task. Call it before the daemon forks."""
    import pyspark.daemon

    gc.collect()
    gc.freeze()
    vars(pyspark.daemon)["gc"] = YoungCollector


class AnalysisSession:
    """A JVM session that is used for nothing but analysis: no Python round trip and no DataFrame per question."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm
        self._session: Any = spark._jsparkSession.newSession()
        for key, value in settings.items():
            self._session.conf().set(key, value)

    def empty_frame(self, fields: Sequence[Mapping[str, Any]]) -> Any:
        """A JVM frame without rows. Fields are as in the JSON of a StructType."""
        struct = json.dumps({"type": "struct", "fields": list(fields)})
        parsed = self._jvm.org.apache.spark.sql.types.DataType.fromJson(struct)
        return self._session.createDataFrame(self._jvm.java.util.ArrayList(), parsed)

    def select(self, frame: Any, expressions: Sequence[str]) -> Any:
        """A JVM frame of expressions over another, analysed."""
        return frame.selectExpr(self._jvm.PythonUtils.toSeq(list(expressions)))

    def sql(self, text: str) -> Any:
        """The JVM frame of a query, analysed."""
        return self._session.sql(text)

    def function_names(self) -> tuple[str, ...]:
        """The names of all built-in functions."""
        listed = self._session.sessionState().functionRegistry().listFunction().mkString("\n")
        names = (name.split(".")[-1] for name in str(listed).splitlines())
        return tuple(sorted({name for name in names if name.isidentifier()}))


def fields_of(frame: Any) -> list[dict[str, Any]]:
    """The columns of a JVM frame, as in the JSON of a StructType."""
    fields: list[dict[str, Any]] = json.loads(frame.schema().json())["fields"]
    return fields
