"""One test per undocumented behaviour of Spark that spark/compat.py and storage/checkpoint.py rely on, run on every
supported version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from tidegate.spark import compat, local_files, session, source_order
from tidegate.spark.analyzer import SETTINGS
from tidegate.storage.checkpoint import NO_OFFSET, Checkpoint

VARIABLE = "seen"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
ROCKSDB_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class Remember(StatefulProcessor):
    """Stores every value in a map state, and returns the number of its micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState(VARIABLE, "name string", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._state.updateValue((str(row.value),), (b"x",))
        yield Row(batch=compat.batch_of_task())

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> SparkSession:
    return session.session_of(spark, {"spark.sql.shuffle.partitions": "1", **compat.SPARKS_STATE})


@pytest.fixture(scope="module")
def ran(ours: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """The checkpoint of a stateful query after two batches, and the batch numbers that its tasks read."""
    folder = tmp_path_factory.mktemp("compat")
    rows, checkpoint = folder / "rows", folder / "0" / "checkpoint"
    batches: list[int] = []

    def collect(frame: DataFrame, batch: int) -> None:
        batches.extend(row.batch for row in frame.collect())

    for value in (1, 2):
        ours.range(value, value + 1).selectExpr("id AS value").write.mode("append").parquet(str(rows))
        query = (
            ours.readStream.schema("value long")
            .parquet(str(rows))
            .groupBy("value")
            .transformWithState(Remember(), "batch int", "append", "none")
            .writeStream.foreachBatch(collect)
            .trigger(availableNow=True)
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        query.awaitTermination()
    return checkpoint, batches


def test_a_task_knows_its_micro_batch(ran: tuple[Path, list[int]]) -> None:
    assert ran[1] == [0, 1]


def test_offset_files_have_a_version_metadata_and_one_line_per_source(ran: tuple[Path, list[int]]) -> None:
    batch = Checkpoint(ran[0]).batch(1)
    assert batch.planned_ms > 1_600_000_000_000
    assert [json.loads(offset)["logOffset"] for offset in batch.offsets] == [1]


def test_offsets_are_written_before_and_commits_after_a_batch(ran: tuple[Path, list[int]]) -> None:
    assert (Checkpoint(ran[0]).planned(), Checkpoint(ran[0]).committed()) == (1, 1)
    assert list(Checkpoint(ran[0]).problems()) == []
    assert [problem for _, problem in Checkpoint(ran[0]).checksums() if problem] == []


def test_a_checkpoint_without_batches_has_neither(tmp_path: Path) -> None:
    assert (Checkpoint(tmp_path).planned(), Checkpoint(tmp_path).committed()) == (None, None)


def test_each_source_has_a_folder_by_its_position(ran: tuple[Path, list[int]]) -> None:
    assert Checkpoint(ran[0]).source_log(0).is_dir()


def test_a_source_that_was_not_read_yet_has_a_dash(ours: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ours.range(1).write.parquet(str(tmp_path / "full"))
    frames = [ours.readStream.schema("id long").parquet(str(tmp_path / name)) for name in ("full", "empty")]
    query = (
        frames[0]
        .unionByName(frames[1])
        .writeStream.format("noop")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.awaitTermination()
    assert Checkpoint(tmp_path / "checkpoint").batch(0).offsets[1] == NO_OFFSET


def test_the_state_reader_returns_key_map_key_and_map_value(ran: tuple[Path, list[int]], ours: SparkSession) -> None:
    state = compat.read_map_state(ours, ran[0], 0, VARIABLE)
    entries = state.selectExpr("key.value AS value", "user_map_key.name AS name", "user_map_value.blob AS blob")
    assert sorted((row.value, row.name, bytes(row.blob)) for row in entries.collect()) == [
        (1, "1", b"x"),
        (2, "2", b"x"),
    ]


def test_settings_that_spark_does_not_register_are_applied(ours: SparkSession) -> None:
    """`isModifiable` would leave out both of them; the settings of a running application stay as they are."""
    registered = [ours.conf.isModifiable(key) for key in (FILE_MANAGER, ROCKSDB_CHANGELOG)]
    assert (registered, ours.conf.get(ROCKSDB_CHANGELOG)) == ([False, False], "true")
    jvm: Any = ours._jvm
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    hadoop = ours._jsparkSession.sessionState().newHadoopConf()
    manager = managers.create(jvm.org.apache.hadoop.fs.Path("/tmp"), hadoop)
    assert manager.getClass().getName() == compat.FILE_SYSTEM_CHECKPOINTS
    for fixed in ("spark.driver.memory", "spark.sql.warehouse.dir"):
        before = ours.conf.get(fixed)
        compat.set_unless_static(ours, fixed, "1m")
        assert ours.conf.get(fixed) == before


def test_an_application_is_known_to_run_in_this_process(spark: SparkSession) -> None:
    assert compat.has_active_context()


def test_the_text_of_a_worker_that_did_not_start_is_in_the_jars(spark: SparkSession) -> None:
    """The text is a constant of the class that raises it, so a changed text is noticed without a timeout."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    core = next(jars.glob("spark-core_*.jar"))
    import zipfile

    with zipfile.ZipFile(core) as archive:
        names = [name for name in archive.namelist() if "PythonWorkerFactory" in name]
        assert any(b"worker failed to connect back" in archive.read(name) for name in names)
    assert compat.is_process_failure("org.apache.spark.SparkException: Python worker failed to connect back.")


def test_a_command_of_hadoop_that_fails_is_a_process_failure(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    command = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    command[0] = "false"
    with pytest.raises(Exception, match="ExitCodeException") as failure:
        jvm.org.apache.hadoop.util.Shell.execCommand(command)
    assert compat.is_process_failure(str(failure.value))
    assert not compat.is_process_failure("java.io.IOException: No space left on device")


def test_the_daemon_collects_garbage_through_its_own_name_for_gc() -> None:
    import inspect

    import pyspark.daemon

    assert "gc.collect()" in inspect.getsource(pyspark.daemon)
    assert vars(pyspark.daemon)["gc"].collect


def test_the_modules_of_workers_exist() -> None:
    from importlib import import_module

    for name in compat.WORKER_MODULES:
        assert callable(import_module(name).main)


def test_class_names_of_settings_exist(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    for name in (compat.SPARKS_STATE[PROVIDER], compat.FILE_SYSTEM_CHECKPOINTS):
        assert jvm.java.lang.Class.forName(name).getName() == name


def test_analysis_needs_no_rows_and_no_python_frame(spark: SparkSession) -> None:
    analysis = compat.AnalysisSession(spark, SETTINGS)
    frame = analysis.empty_frame([{"name": "a", "type": "integer", "nullable": True, "metadata": {}}])
    fields = compat.fields_of(analysis.select(frame, ["a + 1 AS b"]))
    assert [(field["name"], field["type"]) for field in fields] == [("b", "integer")]
    frame.createOrReplaceTempView("compat_empty")
    assert [field["name"] for field in compat.fields_of(analysis.sql("SELECT a FROM compat_empty"))] == ["a"]
    with pytest.raises(AnalysisException):
        analysis.select(frame, ["missing"])


def test_all_functions_can_be_listed(spark: SparkSession) -> None:
    assert {"sum", "date_trunc", "try_variant_get"} <= set(compat.AnalysisSession(spark, SETTINGS).function_names())


def test_a_stateful_query_leaves_state_in_its_checkpoint(ran: tuple[Path, list[int]], tmp_path: Path) -> None:
    assert (Checkpoint(ran[0]).has_state(), Checkpoint(tmp_path).has_state()) == (True, False)


@pytest.mark.parametrize(
    ("master", "once"),
    [("local", True), ("local[2]", True), ("local[*]", True), ("local[2, 3]", False), ("spark://host:7077", False)],
)
def test_tasks_of_a_local_master_run_once(master: str, once: bool) -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert compat.runs_tasks_once(cast("SparkSession", session)) == once


def test_a_class_of_ours_is_the_local_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """`spark` was connected as a pipeline does it."""
    jvm: Any = spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI(tmp_path.as_uri()), spark.sparkContext._jsc.hadoopConfiguration()
    )
    assert files.getClass().getName() == local_files.CLASS
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    for text, mode in [("640", 0o640), ("600", 0o600), ("1755", 0o1755)]:
        files.create(path).close()
        files.setPermission(path, jvm.org.apache.hadoop.fs.permission.FsPermission(text))
        assert (tmp_path / "file").stat().st_mode & 0o7777 == mode
    spark.range(3).write.parquet(str(tmp_path / "table"))
    assert spark.read.parquet(str(tmp_path / "table")).count() == 3


def test_a_class_that_does_not_compile_leaves_the_file_system(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "Broken.java").write_text("class Broken {")
    monkeypatch.setattr(local_files, "SOURCE", tmp_path / "Broken.java")
    with caplog.at_level("DEBUG", "tidegate.spark.local_files"):
        local_files.set_permissions_without_processes(spark)
    assert "Hadoop's own local file system is used" in caplog.text
    spark.range(3).write.parquet(str(tmp_path / "table"))


def test_both_names_of_a_call_site_keep_spark_from_walking_the_stack(spark: SparkSession) -> None:
    compat.name_call_site(spark)
    site = spark.sparkContext._jsc.sc().getCallSite()  # type: ignore[union-attr]
    assert (site.shortForm(), site.longForm()) == ("tidegate", "tidegate")
    spark.range(1).toArrow()
    assert spark.sparkContext.getLocalProperty("callSite.short") is None, "PySpark clears it"
    compat.name_call_site(spark)
    assert spark.sparkContext.getLocalProperty("callSite.short") == "tidegate"


def test_a_query_asks_its_sources_in_a_given_order(spark: SparkSession, tmp_path: Path) -> None:
    """Six sources, since Spark itself keeps the order of up to four."""
    ours = session.session_of(spark, {})
    ours.dataSource.register(Asked)
    asked = tmp_path / "asked"
    frames = [
        ours.readStream.format(Asked.name()).option("file", str(asked)).option("number", str(number)).load()
        for number in range(6)
    ]
    writer = reduce(DataFrame.union, frames).writeStream.format("noop")
    for number, order in enumerate([[5, 3, 0, 1, 4, 2], [0, 1, 2, 3, 4, 5]]):
        asked.write_text("")
        query = source_order.start(ours, writer.option("checkpointLocation", str(tmp_path / str(number))), "q", order)
        query.processAllAvailable()
        query.stop()
        answers = [int(line) for line in asked.read_text().split()]
        assert len(answers) >= 12
        assert answers == (order * len(answers))[: len(answers)]
    assert list(ours._jsparkSession.streams().listListeners()) == []


def test_a_query_that_cannot_be_ordered_does_not_run(spark: SparkSession, tmp_path: Path) -> None:
    ours = session.session_of(spark, {})
    writer = ours.readStream.format("rate").load().writeStream.format("noop")
    with pytest.raises(RuntimeError, match=r"the order of the sources cannot be set: .*1 sources, but an order of 2"):
        source_order.start(ours, writer.option("checkpointLocation", str(tmp_path)), "q", [0, 0])
    assert ours.streams.active == []


class Asked(DataSource):
    """A source without rows, which writes its number to a file whenever it is asked for its latest offset."""

    @classmethod
    def name(cls) -> str:
        return "asked"

    def schema(self) -> str:
        return "id int"

    def streamReader(self, schema: StructType) -> AskedReader:
        return AskedReader(dict(self.options))


class AskedReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: object = None) -> dict[str, int]:
        with open(self._options["file"], "a") as file:
            file.write(f"{self._options['number']}\n")
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([])
