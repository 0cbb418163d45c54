"""A data folder of every format since the second opens, resumes and gives the same answers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tests.fixtures.make_folder import click, contents
from tidegate.core.files import seal
from tidegate.errors import Error
from tidegate.spark import compat
from tidegate.spark.generation import generation_of, outputs_read
from tidegate.storage.folder import Folder
from tidegate.storage.generations import CODEC, FeedStart, GenerationFiles
from tidegate.storage.integrity import FolderCheck

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDERS = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(params=["folder-v2", "folder-v3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(FOLDERS / request.param, tmp_path / "db")
    return tmp_path / "db"


def test_the_folder_is_intact(folder: Path) -> None:
    assert FolderCheck(folder).run().intact


def test_the_pipeline_resumes_with_a_view_added_and_one_removed(spark: SparkSession, folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        assert contents(db) == expected
        db.insert("clicks", [click(3, "shop", 90)])
        db.step()
        assert db.query("SELECT page, n FROM by_page ORDER BY page").rows() == [("home", 3), ("shop", 3)]
        assert db.query("SELECT name, n FROM named ORDER BY name").rows() == [("Ada", 2), ("Bob", 2), ("Eve", 2)]
        windows = db.query("SELECT page, n FROM per_minute ORDER BY page").rows()
        assert windows == [("home", 2), ("shop", 1)], "the first window was closed once"

        db.sql("DROP VIEW named; CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM by_page")
        db.insert("clicks", [click(1, "home", 190)])
        db.step()
        assert db.query("SELECT n FROM total").rows() == [(7,)]
        assert db.query("SELECT page, n FROM by_page ORDER BY page").rows() == [("home", 4), ("shop", 3)]
        windows = db.query("SELECT window_start, page, n FROM per_minute ORDER BY window_start, page").rows()
        assert [row[1:] for row in windows] == [("home", 2), ("shop", 1), ("home", 1), ("shop", 2)]
    assert FolderCheck(folder).run().intact


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    shutil.copytree(FOLDERS / "folder-v2", tmp_path / "db")
    return tmp_path / "db"


def resume(spark: SparkSession, folder: Path) -> dict[str, list[list[str]]]:
    """The contents after one more step, which needs the state of every op."""
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        db.insert("clicks", [click(3, "shop", 190)])
        db.step()
        return contents(db)


def test_a_folder_of_format_2_is_read_without_being_changed(old_folder: Path) -> None:
    before = (old_folder / "tidegate.json").read_bytes()
    with tidegate.connect(old_folder, read_only=True) as db:
        assert db.query("SELECT page, n FROM by_page ORDER BY page").rows() == [("home", 3), ("shop", 2)]
    assert (old_folder / "tidegate.json").read_bytes() == before


def test_a_generation_of_format_2_that_had_only_begun_keeps_its_state(spark: SparkSession, old_folder: Path) -> None:
    """Format 2 exported state to files when a generation began; this one died before its first batch was planned."""
    shutil.copytree(old_folder, old_folder.parent / "undisturbed")
    generations = GenerationFiles(old_folder / "generations")
    old = generations.newest()
    assert old is not None
    checkpoint = generations.checkpoint(0)
    checkpoint.relocate()
    (generations.home(1) / "state").mkdir(parents=True)
    for level in range(old.circuit.depth):
        stored = compat.read_map_state(spark.newSession(), checkpoint.folder, level, "segments")
        payload = "concat(cast(user_map_key.name AS binary), X'00', user_map_value.blob) AS payload"
        blocks = stored.selectExpr("key.op AS op", "key.bucket AS bucket", "'restore' AS tag", payload)
        blocks.toPandas().to_parquet(generations.home(1) / "state" / f"{level}.parquet")
    offset = json.loads(checkpoint.batch(4).offsets[0])
    begun = replace(
        old,
        number=1,
        base_step=5,
        start=FeedStart(**offset),
        carried=frozenset(op.id for op in old.circuit.ops),
        known_outputs=outputs_read(generation_of(old).definition),
    )
    generations.write(begun)
    record = generations.record(1)
    files = [f"1/state/{level}.parquet" for level in range(old.circuit.depth)]
    document = {**CODEC.encode(begun), "restore": files}
    (generations.folder / record.name).write_bytes(seal(record.kind, json.dumps(document).encode()))
    assert resume(spark, old_folder) == resume(spark, old_folder.parent / "undisturbed")


def test_a_folder_of_format_2_whose_last_step_was_not_finished(spark: SparkSession, old_folder: Path) -> None:
    for name in ("4", ".4.crc"):
        (old_folder / "generations/0/checkpoint/commits" / name).unlink()
    with pytest.raises(Error) as caught:
        resume(spark, old_folder)
    assert caught.value.code == "FOLDER_VERSION"
    assert "its last step was not finished" in str(caught.value.hint)
    assert Folder(old_folder).must_migrate()


def test_damaged_state_of_format_2_is_named(spark: SparkSession, old_folder: Path) -> None:
    for path in old_folder.glob("generations/0/checkpoint/state/*/*/*.changelog"):
        path.write_bytes(b"")
    with pytest.raises(Error) as caught:
        resume(spark, old_folder)
    assert (caught.value.code, str(old_folder) in caught.value.message) == ("FOLDER_DAMAGED", True)
    assert Folder(old_folder).must_migrate()
