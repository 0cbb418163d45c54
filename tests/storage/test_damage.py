"""A damaged file of any kind in a data folder is an error with a code and the file's name, never a traceback or a wrong
answer, both when the folder is opened and in `tidegate doctor`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.folders import make_folder, read_everything
from tidegate.errors import Error
from tidegate.storage.integrity import FolderCheck


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncate_by_one_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flip_one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 4
    path.write_bytes(data)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def remove(path: Path) -> None:
    path.unlink()


DAMAGES = (empty, truncate_by_one_byte, halve, flip_one_bit, zero, remove)
FILES = (
    "tidegate.json",
    "catalog.json",
    "ledger.json",
    "clock.json",
    "pipeline.json",
    "views/relations.json",
    "views/v.2.arrow",
    "inserts/000000000001",
    "inserts/000000000003",
    "steps/000000000004",
    "steps/000000000006",
    "blobs/BLOB",
    "generations/0/generation.json",
    "generations/newest.json",
)
SPARKS = ("offsets/2", "offsets/5", "commits/3", "metadata")


@pytest.fixture(scope="module")
def intact_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root = tmp_path_factory.mktemp("made") / "db"
    return root, make_folder(root).name


@pytest.fixture
def copy(intact_folder: tuple[Path, str], tmp_path: Path) -> Path:
    shutil.copytree(intact_folder[0], tmp_path / "db", symlinks=True)
    return tmp_path / "db"


def damaged_file(root: Path, name: str, blob: str, damage: Callable[[Path], None]) -> Path:
    path = root / name.replace("BLOB", blob)
    before = path.read_bytes()
    damage(path)
    assert not path.exists() or path.read_bytes() != before
    return path


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(
    copy: Path, intact_folder: tuple[Path, str], name: str, damage: Callable[[Path], None]
) -> None:
    path = damaged_file(copy, name, intact_folder[1], damage)
    for read_only in (True, False):
        with pytest.raises(Error) as caught:
            read_everything(copy, read_only)
        assert caught.value.code == "FOLDER_DAMAGED"
        assert str(path) in caught.value.message
        assert "doctor" in str(caught.value.hint)
    findings = FolderCheck(copy).run().findings
    assert str(path) in [finding.file for finding in findings if finding.damage]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_head_of_the_insert_log_changes_nothing(copy: Path, damage: Callable[[Path], None]) -> None:
    before = read_everything(copy)
    damage(copy / "inserts" / "HEAD")
    assert read_everything(copy) == before
    assert FolderCheck(copy).run().intact
    assert read_everything(copy, read_only=False) == before


@pytest.mark.parametrize("damage", (empty, halve, zero, remove), ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", SPARKS)
def test_a_damaged_file_of_sparks_log_is_named(copy: Path, name: str, damage: Callable[[Path], None]) -> None:
    from tidegate.storage.generations import GenerationFiles

    path = damaged_file(copy, f"generations/0/checkpoint/{name}", "", damage)
    with pytest.raises(Error) as caught:
        GenerationFiles(copy / "generations").check(0)
    assert (caught.value.code, str(path) in caught.value.message) == ("FOLDER_DAMAGED", True)


@pytest.mark.parametrize("lost", ("offsets/5", "offsets", ""))
def test_a_logged_step_whose_batch_is_lost_is_damage(copy: Path, lost: str) -> None:
    """Spark would begin again, and write other steps over those that were logged."""
    checkpoint = copy / "generations" / "0" / "checkpoint"
    for each in ("commits/5", lost):
        path = checkpoint / each
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for read_only in (True, False):
        with pytest.raises(Error) as caught:
            read_everything(copy, read_only)
        assert caught.value.code == "FOLDER_DAMAGED"
    findings = FolderCheck(copy).run().findings
    assert str(checkpoint / "offsets") in "".join(finding.file for finding in findings if finding.damage)


def test_the_batch_before_the_newest_is_needed(copy: Path) -> None:
    from tidegate.storage.generations import GenerationFiles

    for number in range(5):
        (copy / "generations/0/checkpoint/offsets" / str(number)).unlink()
    with pytest.raises(Error, match="offsets/4 is damaged: it is missing"):
        GenerationFiles(copy / "generations").check(0)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", (*SPARKS, "state/0/0/1.changelog"))
def test_doctor_reads_sparks_checkpoint(copy: Path, name: str, damage: Callable[[Path], None]) -> None:
    path = damaged_file(copy, f"generations/0/checkpoint/{name}", "", damage)
    assert str(path) in [finding.file for finding in FolderCheck(copy).run().findings if finding.damage]


def test_an_intact_folder_has_no_findings(copy: Path) -> None:
    check = FolderCheck(copy).run()
    assert (check.findings, check.intact) == ([], True)
    assert check.files == 32
