"""Runs `tidegate listen` in this process, for the tests of its flags, its file and its messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from tidegate.cli.main import app

runner = CliRunner()
URL = "postgresql://app:s3cret@db.example/shop"
QUERY = "SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 1m"
CAPTURE = ("--postgres", URL, "--table", "orders")
HEAD = "postgres: {url: postgresql://db/shop, tables: orders}\n"
"""The first line of a file that is complete but for its adapters."""


def listen(*arguments: str, env: Mapping[str, str] | None = None) -> Result:
    return runner.invoke(app, ["listen", *arguments], env=dict(env or {}))


def sql(*arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
    """The SQL that would run."""
    found = listen(*arguments, "--print-sql", env=env)
    assert (found.exit_code, found.stderr) == (0, "")
    return found.stdout.splitlines()


def of_file(file: Path, text: str, *arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
    file.write_text(text)
    return sql("--config", str(file), *arguments, env=env)


def rejection(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    return rejected_run(*arguments, "--print-sql", env=env)


def rejected_run(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    found = listen(*arguments, env=env)
    assert (found.exit_code, found.stdout) == (2, "")
    return found.stderr
