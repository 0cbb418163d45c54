"""A data folder of every format since the second opens, resumes and gives the same answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tests.fixtures.make_folder import click, contents
from tidegate.storage.integrity import FolderCheck

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDERS = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(params=["folder-v2"])
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
