"""One test per assumption of spark/compat.py about what Spark does not document, for every supported version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidegate.spark import compat, session
from tidegate.spark.analyzer import SETTINGS
from tidegate.storage.generations import GenerationFiles

VARIABLE = "seen"


class Remember(StatefulProcessor):
    """Keeps every value it sees in a map state, and returns the micro-batch it runs in."""

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
    return session.session_of(spark, {"spark.sql.shuffle.partitions": "1"})


@pytest.fixture(scope="module")
def ran(ours: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """The checkpoint of a stateful query that ran two batches, and the batch numbers that its tasks saw."""
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
    planned = compat.read_planned_batch(ran[0], 1)
    assert planned.planned_ms > 1_600_000_000_000
    assert [json.loads(offset)["logOffset"] for offset in planned.offsets] == [1]


def test_offsets_are_written_before_and_commits_after_a_batch(ran: tuple[Path, list[int]]) -> None:
    files = GenerationFiles(ran[0].parents[1])
    assert (files.planned(0), files.committed(0)) == (1, 1)
    assert files.offsets(0, 1) == list(compat.read_planned_batch(ran[0], 1).offsets)


def test_a_checkpoint_without_batches_has_neither(tmp_path: Path) -> None:
    (tmp_path / "0" / "checkpoint").mkdir(parents=True)
    files = GenerationFiles(tmp_path)
    assert (files.planned(0), files.committed(0)) == (None, None)


def test_each_source_has_a_folder_by_its_place(ran: tuple[Path, list[int]]) -> None:
    assert compat.source_log(ran[0], 0).is_dir()


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
    assert compat.read_planned_batch(tmp_path / "checkpoint", 0).offsets[1] == compat.NO_OFFSET


def test_the_state_reader_gives_key_map_key_and_map_value(ran: tuple[Path, list[int]], ours: SparkSession) -> None:
    stored = compat.read_map_state(ours, ran[0], 0, VARIABLE)
    found = stored.selectExpr("key.value AS value", "user_map_key.name AS name", "user_map_value.blob AS blob")
    assert sorted((row.value, row.name, bytes(row.blob)) for row in found.collect()) == [(1, "1", b"x"), (2, "2", b"x")]


def test_an_application_is_known_to_run_in_this_process(spark: SparkSession) -> None:
    assert compat.has_active_context()


def test_the_text_of_a_worker_that_did_not_start_is_in_the_jars(spark: SparkSession) -> None:
    """The class that raises it has the text among its constants, so a changed text is noticed without waiting."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    core = next(jars.glob("spark-core_*.jar"))
    import zipfile

    with zipfile.ZipFile(core) as archive:
        names = [name for name in archive.namelist() if "PythonWorkerFactory" in name]
        assert any(b"worker failed to connect back" in archive.read(name) for name in names)
    assert compat.is_worker_start_failure("org.apache.spark.SparkException: Python worker failed to connect back.")


def test_the_daemon_collects_garbage_through_its_own_name_for_gc() -> None:
    import inspect

    import pyspark.daemon

    assert "gc.collect()" in inspect.getsource(pyspark.daemon)
    assert vars(pyspark.daemon)["gc"].collect


def test_class_names_of_settings_exist(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    for name in (compat.ROCKSDB_PROVIDER, compat.FILE_SYSTEM_CHECKPOINTS):
        assert jvm.java.lang.Class.forName(name).getName() == name


def test_analysis_needs_no_rows_and_no_python_frame(spark: SparkSession) -> None:
    analysis = compat.AnalysisSession(spark, SETTINGS)
    frame = analysis.empty_frame([{"name": "a", "type": "integer", "nullable": True, "metadata": {}}])
    found = compat.fields_of(analysis.select(frame, ["a + 1 AS b"]))
    assert [(field["name"], field["type"]) for field in found] == [("b", "integer")]
    frame.createOrReplaceTempView("compat_empty")
    assert [field["name"] for field in compat.fields_of(analysis.sql("SELECT a FROM compat_empty"))] == ["a"]
    with pytest.raises(AnalysisException):
        analysis.select(frame, ["missing"])


def test_all_functions_can_be_listed(spark: SparkSession) -> None:
    assert {"sum", "date_trunc", "try_variant_get"} <= set(compat.AnalysisSession(spark, SETTINGS).function_names())
