"""Usage, exit codes, and errors that never show a traceback unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli.guard import guard
from tidegate.cli.main import app
from tidegate.cli.screen import JsonScreen, LiveScreen, LogScreen, log_line
from tidegate.errors import Span, make

runner = CliRunner()
COMMANDS = ("run", "test", "explain", "query", "tail", "sql", "listen", "doctor")
METRICS = {
    "step": 12,
    "steps_per_s": 2.5,
    "inputs": {"orders": {"rows_in": 5000, "rate": 2500.0}},
    "views": {"revenue": {"rows": 8, "rows_out": 96, "rate": None}},
    "late": 0,
    "errors": 1,
    "watermarks": {"orders.ts": None},
}


def test_help_lists_the_commands() -> None:
    found = runner.invoke(app, ["--help"])
    assert found.exit_code == 0
    assert all(f" {command} " in found.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    assert runner.invoke(app, [command, "--help"]).exit_code == 0


def test_help_does_not_wait_for_spark() -> None:
    code = (
        "import sys; from tidegate.cli.main import app; from typer.testing import CliRunner; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print(sorted({'pyspark', 'polars', 'pyarrow', 'sqlglot', 'pandas'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_wrong_usage_exits_with_2() -> None:
    assert runner.invoke(app, ["query"]).exit_code == 2
    assert runner.invoke(app, ["query", "shop", "SELECT 1", "--format", "xml"]).exit_code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    found = runner.invoke(app, ["run", str(tmp_path / "none.sql")])
    assert found.exit_code == 2
    assert found.stderr == f"INVALID_OPTION: cannot read {tmp_path}/none.sql: No such file or directory\n"


def test_a_folder_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    script = tmp_path / "shop.sql"
    script.write_text("")
    found = runner.invoke(app, ["run", str(script), "--data", str(tmp_path)])
    assert found.exit_code == 2
    assert found.stderr == (
        f"INVALID_OPTION: {tmp_path} has other files in it\n  hint: name a folder for the pipeline: --data DIR\n"
    )


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (make("SYNTAX_ERROR"), 2),
        (make("UNKNOWN_COLUMN", name="a"), 2),
        (make("PIPELINE_CHANGED", folder="f", changes="v"), 2),
        (make("UNKNOWN_FOLDER", folder="f"), 2),
        (make("PIPELINE_IN_USE", folder="f", pid=1), 1),
        (make("JAVA_MISSING"), 1),
        (ValueError("boom"), 1),
        (KeyboardInterrupt(), 1),
    ],
)
def test_exit_codes(problem: BaseException, code: int) -> None:
    with pytest.raises(typer.Exit) as ended, guard(debug=False):
        raise problem
    assert ended.value.exit_code == code


def test_an_error_points_into_the_sql(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), guard(debug=False):
        raise make("UNKNOWN_COLUMN", name="pirce", hint="did you mean price?", span=Span(7, 12)).in_text("SELECT pirce")
    assert capsys.readouterr().err == (
        "UNKNOWN_COLUMN: there is no column pirce\n"
        "  line 1:  SELECT pirce\n"
        "                  ^^^^^\n"
        "  hint: did you mean price?\n"
    )


def test_an_error_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), guard(debug=False, as_json=True):
        raise make("UNKNOWN_COLUMN", name="b", span=Span(9, 10)).in_text("SELECT a\nb")
    assert capsys.readouterr().err == (
        '{"error": {"code": "UNKNOWN_COLUMN", "message": "there is no column b", "line": 2, "column": 1}}\n'
    )


def test_what_nobody_expected_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), guard(debug=False):
        raise RuntimeError("first\nsecond")
    assert capsys.readouterr().err == (
        "INTERNAL: RuntimeError: first\n  hint: the same command with --debug shows where\n"
    )


def test_debug_lets_the_traceback_through() -> None:
    with pytest.raises(RuntimeError), guard(debug=True):
        raise RuntimeError("boom")


def test_a_log_line() -> None:
    assert log_line(METRICS) == "step 12  in 5,000 rows  revenue 8 rows  late 0  errors 1"


def test_log_lines_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with LogScreen() as screen:
        screen.update(METRICS)
        screen.update(METRICS)
        screen.finish(METRICS)
    assert capsys.readouterr().out.count("\n") == 1


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with JsonScreen() as screen:
        screen.finish(METRICS)
    assert '"step": 12' in capsys.readouterr().out


def test_the_live_table_shows_everything() -> None:
    from rich.console import Console

    console = Console(record=True, width=100, force_terminal=True)
    with LiveScreen("shop", console) as screen:
        screen.update(METRICS)
        screen.finish(METRICS)
    text = console.export_text()
    for part in ("shop", "step 12", "2.5 steps/s", "orders", "5,000", "2,500", "revenue", "96", "errors 1"):
        assert part in text
