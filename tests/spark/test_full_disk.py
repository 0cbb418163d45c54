"""A disk that is full or read-only: an error that names the file and the remedy; what was accepted is neither lost nor
doubled, and the pipeline goes on in the same process once there is space."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = 4096
PAGES = (0, 1, 2, 3, 4, 6, 9)
"""How much is left: enough for one file after another of a step."""
Row = tuple[int, int, str]


class Disk:
    """A small file system of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self._filler = root, root / "filler"

    @contextmanager
    def with_pages(self, pages: int) -> Iterator[None]:
        """Full but for some pages."""
        stat = os.statvfs(self.root)
        with open(self._filler, "wb", buffering=0) as file:
            file.write(bytes(stat.f_bfree * stat.f_frsize - pages * PAGE))
        try:
            yield
        finally:
            self._filler.unlink()

    @contextmanager
    def read_only(self, folder: Path) -> Iterator[None]:
        """A folder of it cannot be written."""
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
            yield
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    root = tmp_path / "disk"
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", root], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root may mount a file system")
    yield Disk(root)
    subprocess.run(["umount", "--lazy", root], check=True)


class Groups:
    """A pipeline that counts rows by group, and the rows that it has accepted."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self._spark = folder, spark
        self.rows: list[Row] = []
        self.db = self._connect()
        self.db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, x STRING)")
        self.db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n, MAX(x) AS x FROM t GROUP BY g")
        self.insert()
        self.db.step()

    def _connect(self) -> tidegate.Database:
        config = {"spark.sql.shuffle.partitions": "1"}
        return tidegate.connect(self.folder, spark=self._spark, config=config, clock="virtual")

    def insert(self) -> None:
        """Insert a row, which counts if no error is raised. It is larger than a page, as is the state of its group."""
        row = (len(self.rows), len(self.rows) % 2, f"{len(self.rows)}" + "x" * PAGE)
        self.db.insert("t", [row])
        self.rows.append(row)

    def reopen(self) -> None:
        self.db.close()
        self.db = self._connect()

    def check(self) -> None:
        """The view has all rows that were accepted, once."""
        self.db.step()
        assert sorted(self.db.query("SELECT id, g, x FROM t").rows()) == self.rows
        counted = Counter(g for _, g, _ in self.rows)
        assert dict(self.db.query("SELECT g, n FROM v").rows()) == counted


def failed(call: object, folder: Path) -> bool:
    """True if a call fails, with the error of a disk; False if there was space enough."""
    assert callable(call)
    try:
        call()
    except Error as error:
        assert error.code == "STORAGE_FAILED" and error.hint is not None, error
        assert str(folder) in error.message or "the data folder" in error.message
        assert ".tmp" not in error.message
        return True
    return False


def test_every_point_of_a_full_disk(disk: Disk, spark: SparkSession) -> None:
    groups = Groups(disk.root / "data", spark)
    failures: Counter[str] = Counter()
    for pages in PAGES:
        with disk.with_pages(pages):
            failures["insert"] += failed(groups.insert, groups.folder)
        groups.insert()
        with disk.with_pages(pages):
            failures["step"] += failed(groups.db.step, groups.folder)
        groups.check()
        create = f"CREATE MATERIALIZED VIEW w{pages} AS SELECT id FROM t"
        with disk.with_pages(pages):
            refused = failed(lambda: groups.db.sql(create), groups.folder)  # noqa: B023 - called at once
        if refused:
            groups.db.sql(create)
        with disk.with_pages(pages):
            failures["first step"] += failed(groups.db.step, groups.folder)
        groups.check()
        assert len(groups.db.query(f"SELECT * FROM w{pages}").rows()) == len(groups.rows)
        groups.db.sql(f"DROP VIEW w{pages}")
    assert all(failures[each] for each in ("insert", "step", "first step")), failures
    groups.reopen()
    groups.check()
    groups.db.close()


def test_a_read_only_folder(disk: Disk, spark: SparkSession) -> None:
    groups = Groups(disk.root / "data", spark)
    with disk.read_only(groups.folder):
        assert failed(groups.insert, groups.folder)
        assert failed(lambda: groups.db.sql("CREATE MATERIALIZED VIEW w AS SELECT id FROM t"), groups.folder)
    groups.insert()
    with disk.read_only(groups.folder):
        assert failed(groups.db.step, groups.folder)
        groups.db.close()
        assert failed(lambda: tidegate.connect(groups.folder, spark=spark), groups.folder)
    groups.reopen()
    groups.check()
    groups.db.close()


def test_a_running_pipeline_stops_and_goes_on(disk: Disk, spark: SparkSession) -> None:
    groups = Groups(disk.root / "data", spark)
    groups.db.start()
    with disk.with_pages(3):
        groups.insert()
        assert failed(lambda: groups.db.wait(timeout=60), groups.folder)
    groups.insert()
    groups.db.start()
    groups.db.stop()
    groups.check()
    groups.db.close()


def test_a_folder_that_could_not_be_opened_is_free(disk: Disk, spark: SparkSession) -> None:
    groups = Groups(disk.root / "data", spark)
    groups.db.close()
    with disk.with_pages(0):
        assert failed(lambda: tidegate.connect(groups.folder, spark=spark, clock="virtual"), groups.folder)
    groups.reopen()
    groups.check()
    groups.db.close()
