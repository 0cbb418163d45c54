"""What relies on things that Spark does not document: property names, error texts, JVM calls. The files of a checkpoint
are read by storage/checkpoint.py, which needs no Spark.

Each assumption has a test in tests/spark/test_compat.py, which runs on every supported version of PySpark. What breaks
with a new version breaks there first, and is mended here.
"""

from __future__ import annotations

import gc
import json
import logging
import re
import socket
import socketserver
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

STREAMING = "org.apache.spark.sql.execution.streaming"
SPARKS_STATE = {
    "spark.sql.streaming.stateStore.providerClass": f"{STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of the state store of Spark in which folders of format 2 kept state."""
FIXED_AT_START = ("CANNOT_MODIFY_CONFIG", "CANNOT_MODIFY_STATIC_CONFIG")
FILE_SYSTEM_CHECKPOINTS = f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"

_BATCH_PROPERTY = "streaming.sql.batchId"
WORKER_MODULES = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
)
"""What Spark starts Python processes with for a query of ours."""
_DID_NOT_START = ("worker failed to connect back", "ExitCodeException exitCode=")


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
    for key, value in SPARKS_STATE.items():
        spark.conf.set(key, value)
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
    return reader.load(str(checkpoint))


def compile_java(jvm: Any, source: str) -> Any:
    """The compiler that Spark contains, with the classes of a source text."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler


class CatchingExpressions:
    """Makes columns that are NULL where an expression fails, with a subclass of the expression of Spark's `try_`
    functions. Spark's own has no name in SQL either.

    Spark evaluates common parts of several columns before the columns, where nothing is caught: switch
    `spark.sql.subexpressionElimination.enabled` off.
    """

    def __init__(self, session: SparkSession, source: str, name: str, jar: Path) -> None:
        self._jvm: Any = session._jvm
        self._gateway: Any = session.sparkContext._gateway
        compiler = compile_java(self._jvm, source)
        with zipfile.ZipFile(jar, "w") as archive:
            for each, code in compiler.getBytecodes().items():
                archive.writestr(f"{each.replace('.', '/')}.class", bytes(code))
        session.sparkContext._jsc.addJar(str(jar))
        (self._constructor,) = compiler.getClassLoader().loadClass(name).getConstructors()

    def column(self, sql: str) -> Column:
        """An expression as a column that is NULL where it fails."""
        from pyspark.sql import functions
        from pyspark.sql.classic.column import Column as ClassicColumn

        utils = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        arguments[0] = utils.expression(functions.expr(sql)._jc)
        return ClassicColumn(utils.column(self._constructor.newInstance(arguments)))


def collect_in_jvm(frame: DataFrame) -> None:
    """Compute all columns of a frame, and leave them there."""
    jvm_frame: Any = frame._jdf
    jvm_frame.collect()


def is_process_failure(text: str) -> bool:
    """True for a query that failed because of a process, as on a machine under load: a Python worker that did not
    connect in time, or a command by which Hadoop sets the permissions of a file."""
    return any(each in text for each in _DID_NOT_START)


def runs_tasks_once(session: SparkSession) -> bool:
    """True if no task of a batch is ever run again: `local`, `local[N]` and `local[*]`, but not `local[N, F]`."""
    return re.fullmatch(r"local(\[(\d+|\*)\])?", session.sparkContext.master or "") is not None


def set_for_file_systems(session: SparkSession, key: str, value: str) -> None:
    """Set an option of Hadoop for all sessions of an application; `spark.hadoop.x` is `x` there."""
    session.sparkContext._jsc.hadoopConfiguration().set(key, value)


def replace_local_file_system(session: SparkSession, source: str, name: str) -> None:
    """Compile a Java class with the compiler that Spark contains, and let Hadoop use it for `file:` paths. Hadoop keeps
    one object per scheme and user, so all code of this JVM that opens a path from now on receives it."""
    jvm: Any = session._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration(session.sparkContext._jsc.hadoopConfiguration())
    configuration.setClassLoader(compile_java(jvm, source).getClassLoader())
    configuration.set("fs.file.impl", name)
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()
    jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), configuration)


def instance_of(session: SparkSession, source: str, name: str) -> Any:
    """A new object of a Java class without parameters. A class is compiled once per application: Py4J finds methods by
    the name of the class, and would call those of an earlier one."""
    jvm: Any = session._jvm
    key = (session.sparkContext.applicationId, name)
    if key not in _classes:
        _classes[key] = compile_java(jvm, source).getClassLoader().loadClass(name)
    gateway: Any = session.sparkContext._gateway
    return _classes[key].getConstructors()[0].newInstance(gateway.new_array(jvm.Object, 0))


_classes: dict[tuple[str | None, str], Any] = {}


def name_call_site(session: SparkSession) -> None:
    """Name what this thread makes Spark do: for every RDD without a name Spark walks the stack. PySpark clears one of
    the two names after an action."""
    for name in ("callSite.short", "callSite.long"):
        session.sparkContext.setLocalProperty(name, "tidegate")


def set_unless_static(session: SparkSession, key: str, value: str) -> None:
    """Set a session's configuration, except for keys that are fixed when an application starts. `conf.isModifiable`
    does not tell: it is False for keys that Spark reads without registering them, such as those of RocksDB."""
    from pyspark.errors import AnalysisException

    try:
        session.conf.set(key, value)
    except AnalysisException as problem:
        if problem.getCondition() not in FIXED_AT_START:
            raise


def has_active_context() -> bool:
    """True if a Spark application runs in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def is_lost(context: SparkContext) -> bool:
    """True if the JVM of an application has ended. Its sockets are closed before its process is gone, so both are
    asked."""
    gateway: Any = context._gateway
    process = getattr(gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return True
    parameters = gateway.gateway_parameters
    try:
        with socket.create_connection((parameters.address, parameters.port), timeout=5):
            return False
    except ConnectionError:
        return True
    except OSError:
        return False


def forget_lost_context() -> None:
    """Let the next session start a JVM, if the one of this process has ended: PySpark keeps what belonged to it in
    class attributes."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None or not is_lost(context):
        return
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


class _QuietLogging:
    """Replaces the module `logging` in py4j, which prints a traceback for every call to a JVM that has ended, and
    raises an error as well."""

    @staticmethod
    def exception(message: str, *args: object, **kwargs: Any) -> None:
        logging.getLogger("py4j").debug(message, *args, exc_info=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(logging, name)


def print_no_tracebacks() -> None:
    """Keep PySpark from printing tracebacks when its JVM ends, or when a call from there fails: what was called raises
    an error as well."""
    import py4j.java_gateway  # type: ignore[import-untyped]
    import pyspark.accumulators

    vars(py4j.java_gateway)["logging"] = _QuietLogging()
    logging.getLogger("py4j.clientserver").addFilter(_is_no_failed_callback)
    for value in list(vars(pyspark.accumulators).values()):
        if isinstance(value, type) and issubclass(value, socketserver.BaseServer):
            value.handle_error = _log_error  # type: ignore[assignment]


def _is_no_failed_callback(record: logging.LogRecord) -> bool:
    """False for the failure of a call from the JVM: the query that made it fails as well, with that reason."""
    return "executing the Python Proxy" not in str(record.msg)


def _log_error(server: object, request: object, client_address: object) -> None:
    logging.getLogger("py4j").debug("a connection of the JVM failed", exc_info=True)


class YoungCollector:
    """Replaces the module `gc` in PySpark's daemon, which runs a full collection after every task."""

    @staticmethod
    def collect() -> int:
        return gc.collect(1)


def use_young_collector() -> None:
    """Let workers collect the young generation only after a task. Call it before the daemon forks."""
    import pyspark.daemon

    gc.collect()
    gc.freeze()
    vars(pyspark.daemon)["gc"] = YoungCollector


def rows_of(frame: DataFrame) -> pa.Table:
    """The rows of a query. PySpark casts them to a schema in which fields of structs and elements of arrays may be
    required; Arrow then rejects a NULL in place of the whole struct, and the empty array. The schema is a cached
    property, so it can be given."""
    from pyspark.sql.types import StructField, StructType

    fields = [StructField(each.name, _optional(each.dataType), each.nullable) for each in frame.schema.fields]
    frame.__dict__["schema"] = StructType(fields)
    return frame.toArrow()


def _optional(kind: DataType) -> DataType:
    """The type with fields and elements that may be NULL."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            return StructType([StructField(each.name, _optional(each.dataType), True) for each in kind.fields])
        case ArrayType():
            return ArrayType(_optional(kind.elementType), True)
        case MapType():
            return MapType(_optional(kind.keyType), _optional(kind.valueType), True)
    return kind


class AnalysisSession:
    """A JVM session for analysis only: no Python round trip and no DataFrame per question."""

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
        listing = self._session.sessionState().functionRegistry().listFunction().mkString("\n")
        names = (name.split(".")[-1] for name in str(listing).splitlines())
        return tuple(sorted({name for name in names if name.isidentifier()}))


def fields_of(frame: Any) -> list[dict[str, Any]]:
    """The columns of a JVM frame, as in the JSON of a StructType."""
    fields: list[dict[str, Any]] = json.loads(frame.schema().json())["fields"]
    return fields
