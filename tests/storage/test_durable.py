"""Durable records of connectors; a damaged one is an error."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tidegate.core.durable import LastStep, write_atomically
from tidegate.errors import Error


def test_the_last_step_is_that_of_the_same_creation(tmp_path: Path) -> None:
    assert LastStep(tmp_path, "a").step is None
    LastStep(tmp_path, "a").keep(7)
    assert (LastStep(tmp_path, "a").step, LastStep(tmp_path, "b").step) == (7, None)
    assert stat.S_IMODE((tmp_path / "last_step").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"a\n7", b"tidegate record 00\n{}"])
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "last_step").write_bytes(content)
    with pytest.raises(Error, match=str(tmp_path / "last_step")) as caught:
        LastStep(tmp_path, "a")
    assert caught.value.code == "FOLDER_DAMAGED"


def test_a_file_that_users_see_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_atomically(path, lambda file: file.write(b"one"))
    with pytest.raises(ZeroDivisionError):
        write_atomically(path, lambda file: (file.write(b"two"), 1 / 0))
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out.json", b"one")]
