"""Calls of the Python interface with arguments that nobody should pass, and after `close()`: errors with codes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOSTILE: list[Any] = ["", None, 0, True, 1.5, b"x", object(), [], {}, "\0", "\ud800", "x" * 10_000, "(((", "'", "💥"]
OF_A_NAME: dict[str, Callable[[tidegate.Database, Any], Any]] = {
    "sql": lambda db, value: db.sql(value),
    "query": lambda db, value: db.query(value),
    "run_script": lambda db, value: db.run_script(value),
    "origin": lambda db, value: db.run_script("SHOW TABLES", value),
    "insert": lambda db, value: db.insert(value, []),
    "delete": lambda db, value: db.delete(value, []),
    "batch": lambda db, value: db.batch().tombstone(value, []),
    "advance": lambda db, value: db.advance(value, 1),
    "refresh": lambda db, value: db.refresh(value),
    "subscribe": lambda db, value: db.subscribe(value),
    "changes": lambda db, value: db.changes(value),
    "explain": lambda db, value: db.explain(value),
    "schema": lambda db, value: db.schema(value),
    "kind": lambda db, value: db.kind(value),
    "from_step": lambda db, value: db.subscribe("t", from_step=value),
    "to_step": lambda db, value: db.changes("t", 1, value),
    "timeout": lambda db, value: db.subscribe("t", timeout=value),
    "as_of": lambda db, value: db.query("SHOW TABLES", as_of=value),
    "advance_clock": lambda db, value: db.advance_clock(value),
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "sql": ("SHOW TABLES",),
    "run_script": ("SHOW TABLES",),
    "insert": ("t", []),
    "delete": ("t", []),
    "advance": ("t.ts", 1),
    "refresh": ("t",),
    "query": ("SELECT 1",),
    "subscribe": ("t",),
    "changes": ("t",),
    "explain": ("t",),
    "schema": ("t",),
    "kind": ("t",),
    "advance_clock": (timedelta(1),),
}
ALLOWED_AFTER_CLOSE = {"close", "stop", "path", "read_only", "running_now", "boundary"}


def code_of(call: Callable[[], Any]) -> str | None:
    """The code of the error that a call raises, None if it raises none. Its text can be printed."""
    try:
        call()
    except tidegate.Error as error:
        str(error).encode()
        return error.code
    return None


@pytest.mark.parametrize("name", OF_A_NAME)
def test_arguments_of_every_kind_are_taken_or_rejected_with_a_code(name: str, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "data", clock="virtual") as db:
        for value in HOSTILE:
            code_of(lambda value=value: OF_A_NAME[name](db, value))


def test_arguments_of_the_wrong_type() -> None:
    with tidegate.connect() as db:
        assert code_of(lambda: db.sql(None)) == "INVALID_ARGUMENT"  # type: ignore[arg-type]
        assert code_of(lambda: db.wait("x")) == "INVALID_ARGUMENT"  # type: ignore[arg-type]
        assert code_of(lambda: db.sql("SELECT '\ud800'")) == "INVALID_ARGUMENT"
        assert code_of(lambda: db.query("")) == "SYNTAX_ERROR"
        assert code_of(lambda: db.sql("SELECT " + "(" * 3000 + "1" + ")" * 3000)) == "SYNTAX_ERROR"
        assert db.sql("").rows() == [], "a text without statements is an empty script"


@pytest.mark.parametrize("path", ["", " ", "a\0b", 0, 1.5, b"x", object(), [], True, "\ud800", "x" * 5000])
def test_paths_that_are_none(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of(lambda: tidegate.connect(path)) in ("INVALID_ARGUMENT", "STORAGE_FAILED")
    assert not list(tmp_path.iterdir())


def test_a_path_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert code_of(lambda: tidegate.connect(file)) == "INVALID_OPTION"
    assert code_of(lambda: tidegate.connect(file / "below")) == "STORAGE_FAILED"
    assert code_of(lambda: tidegate.connect("/proc/none")) == "STORAGE_FAILED"
    assert code_of(lambda: tidegate.connect(tmp_path / "data", config=3)) == "INVALID_ARGUMENT"  # type: ignore[arg-type]
    assert code_of(lambda: tidegate.connect(tmp_path / "data", spark=3)) == "INVALID_ARGUMENT"  # type: ignore[arg-type]


def test_every_call_after_close_is_rejected(tmp_path: Path) -> None:
    db = tidegate.connect(tmp_path / "data")
    batch = db.batch()
    db.close()
    db.close()
    db.stop()
    assert not db.running_now
    members = {name for name, _ in inspect.getmembers(tidegate.Database) if not name.startswith("_")}
    for name in sorted(members - ALLOWED_AFTER_CLOSE - {"running"}):
        code = code_of(lambda name=name: getattr(db, name)(*ARGUMENTS.get(name, ())))
        assert code == "DATABASE_CLOSED", name
    assert code_of(lambda: db.running().__enter__()) == "DATABASE_CLOSED"
    assert code_of(db.__enter__) == "DATABASE_CLOSED"
    assert code_of(lambda: batch.insert("t", [])) == "DATABASE_CLOSED"
    assert code_of(batch.commit) == "DATABASE_CLOSED"


def test_what_a_database_gave_is_used_after_close(spark: SparkSession, tmp_path: Path) -> None:
    db = tidegate.connect(tmp_path / "data", spark=spark, clock="virtual")
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, d DECIMAL(5, 2))")
    result = db.sql("SHOW TABLES")
    subscription = db.subscribe("t", from_step=1, timeout=0)
    for value in HOSTILE:
        code_of(lambda value=value: db.insert("t", value))
        code_of(lambda value=value: db.batch().tombstone("t", value))
        code_of(lambda value=value: db.batch().tombstone("t", [value]))
        code_of(lambda value=value: db.query("SELECT * FROM t", as_of=value))
    db.close()
    assert len(result.rows()) == 1, "a result has all its rows"
    assert code_of(lambda: list(subscription)) == "DATABASE_CLOSED"
