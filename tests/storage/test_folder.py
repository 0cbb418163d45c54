"""A data folder: permissions, leftovers of killed processes, and other formats."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.storage.folders import make_folder, read_everything
from tidegate.cli.doctor import check_files, examine
from tidegate.core.files import write_atomically
from tidegate.errors import Error
from tidegate.storage.folder import FORMAT, Folder
from tidegate.storage.generations import GenerationFiles
from tidegate.storage.integrity import FolderCheck
from tidegate.storage.objects import LocalStorage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_folder(tmp_path / "db")
    return tmp_path / "db"


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_a_folder_whatever_the_umask(open_umask: None, tmp_path: Path) -> None:
    make_folder(tmp_path / "db")
    ours = [path for path in (tmp_path / "db").rglob("*") if "checkpoint" not in path.parts]
    assert {mode(path) for path in ours if path.is_file()} == {0o600}
    assert {mode(path) for path in (tmp_path / "db", *ours) if path.is_dir()} == {0o700}


def test_a_folder_that_others_can_read_is_a_finding(root: Path) -> None:
    root.chmod(0o755)
    assert [(each.file, each.damage) for each in FolderCheck(root).run().findings] == [(str(root), False)]


def test_a_folder_of_the_first_format_is_rejected_and_not_changed(root: Path) -> None:
    (root / "tidegate.json").write_text(json.dumps({"format": 1, "id": "x"}))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for read_only in (True, False):
        with pytest.raises(Error) as caught:
            tidegate.connect(root, read_only=read_only)
        assert caught.value.code == "FOLDER_VERSION"
        assert caught.value.message == f"{root} has format 1, this version reads format {FORMAT}"
        assert "the version that wrote it" in str(caught.value.hint)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_folder_of_a_later_format_is_rejected(root: Path) -> None:
    folder = Folder(root)
    folder.marker.write(type(folder.marker.read())(FORMAT + 1, "x"))
    with pytest.raises(Error) as caught:
        folder.check_format()
    assert caught.value.code == "FOLDER_VERSION"


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    with Folder(tmp_path / "db") as folder:
        folder.open()
    (tmp_path / "db" / "tidegate.json").unlink()
    with Folder(tmp_path / "db") as again:
        again.open()
        assert again.marker.read().format == FORMAT


def test_leftovers_of_a_killed_step_are_removed_when_the_folder_is_opened_for_writing(root: Path) -> None:
    before = read_everything(root)
    leftovers = [root / "blobs" / "orphan", root / "views" / "v.5.arrow", root / "exchange" / "3" / "block"]
    leftovers += [root / folder / ".x.1.tmp" for folder in ("", "inserts", "steps", "blobs", "views", "generations")]
    for path in leftovers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    assert FolderCheck(root).run().intact
    assert read_everything(root) == before
    assert all(path.exists() for path in leftovers), "a reader removes nothing"
    assert read_everything(root, read_only=False) == before
    assert not any(path.exists() for path in leftovers)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "file", b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_an_object_is_stored_once(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert (storage.put_if_absent("x", b"a", b"b"), storage.put_if_absent("x", b"c")) == (True, False)
    assert (storage.read("x"), storage.read_range("x", 1, 9), storage.size("x"), storage.list("")) == (
        b"ab",
        b"b",
        2,
        ["x"],
    )
    storage.delete("x")
    assert (storage.size("x"), storage.list(""), storage.list("none")) == (None, [], [])


def test_earlier_generations_are_removed(root: Path) -> None:
    generations = GenerationFiles(root / "generations")
    record = generations.newest()
    assert record is not None
    for number in (1, 2):
        generations.write(type(record)(**{**vars(record), "number": number, "base_step": 6}))
    generations.forget_before(2)
    newest = generations.newest()
    assert (generations.numbers(), newest and newest.number) == ([2], 2)


def test_doctor_says_that_a_folder_is_intact(root: Path) -> None:
    assert [(check.state, check.found) for check in check_files(root)] == [("ok", "32 files checked, all intact")]


def test_doctor_prints_a_line_per_finding(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "ledger.json").unlink()
    (root / "steps" / "000000000004").write_bytes(b"")
    (root / "blobs" / "orphan").write_bytes(b"")
    assert not examine(root, as_json=True)
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    lines = {check["found"]: check["state"] for check in report["checks"] if check["name"] == "files"}
    assert lines[f"{root}/ledger.json: it is missing"] == "fail"
    assert lines[f"{root}/steps/000000000004: it is empty"] == "fail"
    assert all(check["advice"] for check in report["checks"] if check["name"] == "files")


def test_doctor_of_a_new_folder_finds_no_files(tmp_path: Path) -> None:
    assert check_files(tmp_path / "new") == []


def test_the_checkpoint_of_a_moved_folder_names_its_own_files(root: Path) -> None:
    generations = GenerationFiles(root / "generations")
    schema = "state/0/_stateSchema/default/0_x"
    metadata = generations.checkpoint(0).folder / "state" / "0" / "_metadata" / "v2" / "0"
    metadata.parent.mkdir(parents=True)

    def metadata_with(address: str) -> str:
        stores = [{"storeName": "default", "stateSchemaFilePaths": [address]}]
        return "v2\n" + json.dumps({"stateStoreInfo": stores}, separators=(",", ":"))

    metadata.write_text(metadata_with(f"file:/elsewhere/generations/0/checkpoint/{schema}"))
    (metadata.parent / ".0.crc").write_bytes(b"")
    generations.checkpoint(0).relocate()
    here = metadata_with(f"file:{generations.checkpoint(0).folder}/{schema}")
    assert metadata.read_text() == here
    assert not (metadata.parent / ".0.crc").exists()
    before = metadata.stat().st_mtime_ns
    generations.checkpoint(0).relocate()
    assert (metadata.read_text(), metadata.stat().st_mtime_ns) == (here, before)
