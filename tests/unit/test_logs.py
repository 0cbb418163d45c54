"""The insert log and the step log as files: durable, repeatable, compacted."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.errors import Error
from tidegate.storage.folder import Folder
from tidegate.storage.insert_log import HEAD, InsertLog
from tidegate.storage.objects import Data, LocalStorage
from tidegate.storage.step_header import StepHeader
from tidegate.storage.step_log import StepLog, StepRecord

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
LOGGED = pa.schema([*SCHEMA, ("__op", pa.string()), ("__w", pa.int64())])


def rows(*items: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "n": n} for k, n in items], schema=SCHEMA)


def changes(*items: tuple[str, int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "n": n, "__op": op, "__w": w} for k, n, op, w in items], schema=LOGGED)


def record(step: int, **relations: pa.Table) -> StepRecord:
    return StepRecord(StepHeader.empty(step), relations)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    opened = Folder(tmp_path / "db")
    opened.open()
    return opened


@pytest.fixture
def log(folder: Folder) -> StepLog:
    step_log = StepLog(folder.storage)
    step_log.write(record(1, v=changes(("a", 1, "+I", 1), ("b", 1, "+I", 2))))
    step_log.write(record(2, v=changes(("a", 1, "-U", -1), ("a", 2, "+U", 1))))
    step_log.write(record(3))
    step_log.write(record(4, v=changes(("b", 1, "-D", -1))))
    return step_log


def content(log: StepLog, as_of: int | None = None) -> list[tuple[str, int]]:
    return sorted((row["k"], row["n"]) for row in log.content("v", SCHEMA, as_of).to_pylist())


def test_an_entry_is_numbered_and_read_back(folder: Folder) -> None:
    log = InsertLog(LocalStorage(folder.inserts))
    log.open_for_writing()
    assert [log.append([("t", rows(("a", 1)), 1)]), log.append([("t", rows(("b", 2)), -1), ("u", rows(), 1)])] == [0, 1]
    _, parts = log.read(1)
    assert [(part.name, part.table.num_rows, part.weight) for part in parts] == [("t", 1, -1), ("u", 0, 1)]


def test_an_entry_that_was_renamed_into_place_exists_after_a_crash(folder: Folder) -> None:
    log = InsertLog(LocalStorage(folder.inserts))
    log.open_for_writing()
    log.append([("t", rows(("a", 1)), 1)])
    (folder.inserts / "HEAD").write_text("0")
    again = InsertLog(LocalStorage(folder.inserts))
    again.open_for_writing()
    assert again.head() == 1


class FullAtHead(LocalStorage):
    """A disk that is full when HEAD is written; with `stuck`, nothing can be removed from it either."""

    full, stuck = False, False

    def put(self, name: str, *data: Data, durable: bool = True) -> None:
        if self.full and name == HEAD:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        super().put(name, *data, durable=durable)

    def delete(self, name: str) -> None:
        if self.stuck:
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        super().delete(name)


@pytest.mark.parametrize("stuck", [False, True])
def test_an_entry_whose_append_failed_is_none(folder: Folder, stuck: bool) -> None:
    storage = FullAtHead(folder.inserts)
    writer = InsertLog(storage)
    writer.open_for_writing()
    writer.append([("s", rows(("a", 1)), 1)], marks={"capture": 1})
    storage.full, storage.stuck = True, stuck
    with pytest.raises(OSError, match="No space left"):
        writer.append([("s", rows(("b", 2)), 1)], marks={"capture": 2})
    assert (writer.head(), writer.marks()) == (1, {"capture": 1})
    storage.full = storage.stuck = False
    if not stuck:
        assert InsertLog(LocalStorage(folder.inserts)).numbers() == [0]
    writer.append([("s", rows(("c", 3)), 1)], marks={"capture": 3})
    reader = InsertLog(LocalStorage(folder.inserts))
    read = [part.table.to_pylist() for _, _, parts in reader.entries(0, reader.head()) for part in parts]
    assert read == [[{"k": "a", "n": 1}], [{"k": "c", "n": 3}]]


def test_removed_entries_keep_their_numbers(folder: Folder) -> None:
    log = InsertLog(LocalStorage(folder.inserts))
    log.open_for_writing()
    for number in range(3):
        log.append([("t", rows(("a", number)), 1)])
    log.forget(3)
    log.open_for_writing()
    assert (log.head(), log.first()) == (3, 2)


def test_content_is_the_sum_of_changes(log: StepLog) -> None:
    assert content(log) == [("a", 2), ("b", 1)]
    assert content(log, 1) == [("a", 1), ("b", 1), ("b", 1)]
    assert [log.count("v", step) for step in (0, 1, 2, 3, 4)] == [0, 3, 3, 3, 2]


def test_a_repeated_step_overwrites_itself(log: StepLog) -> None:
    log.write(record(4, v=changes(("b", 1, "-D", -1))))
    assert content(log) == [("a", 2), ("b", 1)]


def test_a_reader_in_another_process_sees_new_steps(log: StepLog, folder: Folder) -> None:
    reader = StepLog(folder.storage)
    reader.refresh()
    log.write(record(5, v=changes(("c", 9, "+I", 1))))
    reader.refresh()
    assert content(reader) == [("a", 2), ("b", 1), ("c", 9)]


def test_compaction_changes_no_content_within_retention(log: StepLog) -> None:
    log.compact({"v": SCHEMA}, keep=2, needed=None)
    assert [header.step for header in log.headers()] == [3, 4]
    assert (content(log, 2), content(log, 4), content(log)) == (
        [("a", 2), ("b", 1), ("b", 1)],
        [("a", 2), ("b", 1)],
        [("a", 2), ("b", 1)],
    )
    assert (log.oldest(), log.last(), log.count("v")) == (2, 4, 2)


def test_compaction_waits_for_the_slowest_sink(log: StepLog) -> None:
    log.compact({"v": SCHEMA}, keep=1, needed=1)
    assert [header.step for header in log.headers()] == [2, 3, 4]


def test_a_restarted_relation_drops_its_earlier_changes(log: StepLog) -> None:
    log.begin("v", 4)
    assert content(log) == []
    log.write(record(5, v=changes(("z", 1, "+I", 1))))
    assert (content(log), log.count("v")) == ([("z", 1)], 1)


def test_uncommitted_steps_can_be_removed(log: StepLog) -> None:
    log.truncate(2)
    assert (log.last(), content(log)) == (2, [("a", 2), ("b", 1), ("b", 1)])


def test_a_folder_has_one_writer(folder: Folder) -> None:
    with pytest.raises(Error) as refusal:
        Folder(folder.root).open()
    assert refusal.value.code == "PIPELINE_IN_USE"
    Folder(folder.root).open(read_only=True)


def test_a_folder_of_another_version_is_rejected(folder: Folder) -> None:
    folder.close()
    (folder.root / "tidegate.json").write_text('{"format": 99}')
    with pytest.raises(Error) as refusal:
        Folder(folder.root).open()
    assert refusal.value.code == "FOLDER_VERSION"
