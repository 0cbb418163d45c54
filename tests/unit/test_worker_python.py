"""Which Python workers on this machine run."""

import sys
from pathlib import Path

import pytest

from tidegate.spark.session import _same_environment


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with `python` and `python3`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "python3"):
        (folder / name).symlink_to(sys.executable)
    return folder


def test_commands_of_one_folder_are_one_environment(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(environment)
    assert _same_environment(str(environment / "python3"), str(environment / "python"))
    assert _same_environment(str(tmp_path / "link" / "python"), str(environment / "python"))


def test_two_environments_with_one_interpreter_differ(environment: Path) -> None:
    assert not _same_environment(str(environment / "python"), sys.executable)
    assert not _same_environment(str(environment / "missing"), sys.executable)
