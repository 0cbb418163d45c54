"""What a step counts: changes as often as they occur, late rows once, and rates of the present run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.core.schema import Column
from tidegate.core.zset import sizes
from tidegate.runtime.metrics import metrics
from tidegate.runtime.readiness import Shares
from tidegate.spark import codec
from tidegate.storage.blobs import write_blob
from tidegate.storage.folder import Folder
from tidegate.storage.step_header import LateFile, LateRow, StepHeader, late_rows
from tidegate.storage.step_log import StepLog, StepRecord

LOGGED = pa.schema([("k", pa.string()), ("__op", pa.string()), ("__w", pa.int64())])
SOURCE = Relation(name="s", kind="source", columns=(Column("k", "string"),), sql="CREATE SOURCE s (k STRING)")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    opened = Folder(tmp_path / "db")
    opened.open()
    return opened


@pytest.fixture
def log(folder: Folder) -> StepLog:
    return StepLog(folder.storage)


def test_equal_rows_are_counted_each(log: StepLog) -> None:
    changes = pa.Table.from_pylist([{"k": "a", "__op": "+I", "__w": 57}, {"k": "b", "__op": "-D", "__w": -2}], LOGGED)
    log.write(StepRecord(StepHeader.empty(1), {"v": changes}))
    assert log.header(1).changed("v") == (59, 55)
    assert sizes(pl.Series([3, -1])) == (4, 2), "as workers count"


def test_a_late_row_is_counted_once_however_many_views_dropped_it(folder: Folder, log: StepLog) -> None:
    rows = pl.DataFrame({"k": ["a", "b"], "__w": [2, 1]})
    by_three = tuple(late_rows(rows, "s", ("early", "live", "closed"), "ts", None))
    by_another = tuple(late_rows(rows[1:], "s", ("other",), "ts", None))
    on_ingress = (LateRow("s", None, "+I", "ts", by_another[0].row, None),)
    header = replace(StepHeader.empty(1), late=by_three + by_another + on_ingress)
    assert (len(header.late), log.late_count(header)) == (11, 4)


def test_late_rows_in_files_are_counted_once(folder: Folder, log: StepLog) -> None:
    def stored(numbers: range, *views: str) -> LateFile:
        rows = pl.DataFrame({"k": list(numbers), "__w": [1] * len(numbers)})
        name = write_blob(codec.encode(rows), folder.blobs)
        return LateFile(name, len(numbers) * len(views), "s", views, "ts", None)

    alone = replace(StepHeader.empty(1), late_files=(stored(range(1000), "v", "w"),))
    assert log.late_count(alone) == 1000
    both = replace(StepHeader.empty(2), late_files=(stored(range(1000), "v", "w"), stored(range(500, 2000), "x")))
    assert log.late_count(both) == 2000


def test_rates_are_those_of_the_last_seconds_of_this_run(log: StepLog) -> None:
    for step, started in ((1, 100.0), (2, 109.0)):
        log.write(StepRecord(replace(StepHeader.empty(step), started=started, rows_in={"s": 50}), {}))

    def figures(opened: float, now: float) -> tuple[int, float]:
        found = metrics(log, Catalog((SOURCE,)), opened, now)["inputs"]["s"]
        return found["rows_in"], found["rate"]

    assert figures(opened=99.0, now=109.0) == (100, 10.0)
    assert figures(opened=99.0, now=115.0) == (100, 5.0)
    assert figures(opened=99.0, now=200.0) == (100, 0.0), "nothing has happened for a while"
    assert figures(opened=110.0, now=112.0) == (100, 0.0), "what an earlier run did"


def test_shares_of_tables_never_go_back() -> None:
    shares = Shares()
    assert shares.update(["a", "b"], 0.5) == {"a": 0.5, "b": 0.5}
    assert shares.update(["a", "b"], 1.0) == {"a": 0.99, "b": 0.99}
    assert shares.update(["a"], 0.0) == {"a": 0.99, "b": 1.0}
