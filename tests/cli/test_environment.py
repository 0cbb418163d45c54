"""What the machine must have, and what is said when it has not."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli import environment
from tidegate.cli.doctor import check_folder
from tidegate.cli.environment import check_java, check_memory, check_package, check_python
from tidegate.cli.main import app

runner = CliRunner()


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def fake_java(folder: Path, said: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.usefixtures("no_java")
def test_every_command_that_needs_java_says_so(tmp_path: Path) -> None:
    script = tmp_path / "shop.sql"
    script.write_text("SELECT 1;")
    for arguments in (
        ["run", str(script), "--data", str(tmp_path / "shop")],
        ["explain", str(script)],
        ["query", str(tmp_path / "shop"), "SELECT 1"],
        ["sql"],
    ):
        found = runner.invoke(app, arguments)
        assert (found.exit_code, found.stdout) == (1, ""), arguments
        assert found.stderr == (
            "JAVA_MISSING: there is no Java 17 or later\n"
            "  hint: install one, or set JAVA_HOME; `tidegate doctor` checks it\n"
        )


@pytest.mark.usefixtures("no_java")
def test_doctor_fails_without_java() -> None:
    found = runner.invoke(app, ["doctor"])
    assert found.exit_code == 1
    assert "FAIL  Java      none in PATH" in found.stdout
    assert "install Java 17 or later" in found.stdout


def test_an_old_java_is_not_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "1.8.0_392"')))
    assert (check_java().state, check_java().found) == ("fail", f"8, by JAVA_HOME={tmp_path}")


def test_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().found == f"none in JAVA_HOME={tmp_path}"


def test_a_java_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "hello")))
    assert check_java().found == f"none in JAVA_HOME={tmp_path}"


@pytest.mark.spark
def test_this_machine_is_fine(tmp_path: Path) -> None:
    found = runner.invoke(app, ["doctor", str(tmp_path), "--json"])
    assert (found.exit_code, json.loads(found.stdout)["ok"]) == (0, True)


def test_a_package_of_the_wrong_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "version", lambda name: "4.4.0")
    found = check_package("pyspark")
    assert (found.state, found.advice) == ("fail", "pip install 'pyspark>=4.2,<4.4'")


@pytest.mark.parametrize("name", environment.PACKAGES)
def test_doctor_wants_the_versions_that_the_project_declares(name: str) -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest, first_too_new = environment.supported_versions(name)
    bounds = [(">=", oldest), *([("<", first_too_new)] if first_too_new else [])]
    written = ",".join(sign + ".".join(str(part) for part in release) for sign, release in bounds)
    assert f"{name}{written}" in declared


def test_python_and_memory() -> None:
    assert check_python().state == "ok"
    assert check_memory().found.endswith(" GB")


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    assert check_folder(taken).state == "fail"


def test_a_folder_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "tidegate.json").write_text('{"format": 99}')
    found = check_folder(tmp_path)
    assert (found.state, found.found) == ("fail", f"{tmp_path} has format 99, this version reads format 3")


HOLD = """
import sys
from pathlib import Path
from tidegate.storage.folder import Folder

folder = Folder(Path(sys.argv[1]))
folder.open()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held_folder(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A data folder that another process has open, and that process's id."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield tmp_path, holder.pid


def test_a_folder_in_use(held_folder: tuple[Path, int]) -> None:
    folder, pid = held_folder
    found = check_folder(folder)
    assert (found.state, found.found) == ("warn", f"{folder} is in use by process {pid}")
    assert found.advice == "stop that process, or query it with `tidegate query`"


def test_run_refuses_a_folder_in_use(held_folder: tuple[Path, int], tmp_path: Path) -> None:
    folder, pid = held_folder
    script = tmp_path / "shop.sql"
    script.write_text("CREATE SOURCE s (a INT);")
    found = runner.invoke(app, ["run", str(script), "--data", str(folder)])
    assert found.exit_code == 1
    assert found.stderr == (
        f"PIPELINE_IN_USE: {folder} is in use by process {pid}\n"
        "  hint: stop that process, or query it with `tidegate query`\n"
    )


def test_run_refuses_a_folder_of_another_version(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "tidegate.json").write_text('{"format": 99}')
    script = tmp_path / "shop.sql"
    script.write_text("CREATE SOURCE s (a INT);")
    found = runner.invoke(app, ["run", str(script), "--data", str(folder)])
    assert found.exit_code == 1
    assert found.stderr == (
        f"FOLDER_VERSION: {folder} has format 99, this version reads format 3\n"
        "  hint: open it with the version that wrote it, or begin a new folder and run your script there\n"
    )
