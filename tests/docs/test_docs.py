"""Every code block of README and docs/ runs and gives what the page says."""

from __future__ import annotations

import contextlib
import io
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tidegate.testing.spec.files import run_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNING = [page for page in PAGES if any(blocks(page))]


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
@pytest.mark.usefixtures("page_folder")
def test_the_blocks_of_a_page_run(page: Path, spark: SparkSession) -> None:
    names: dict[str, Any] = {}
    with contextlib.ExitStack() as closing:
        database = _lazily_opened(closing, spark)
        for block in blocks(page):
            found = _outcome(block, database, names, spark)
            if block.expected is not None:
                assert found == block.expected, str(block)
        if any(block.info == "sql" for block in blocks(page)):
            next(database).step()


def _outcome(
    block: Block, database: Iterator[tidegate.Database], names: dict[str, Any], spark: SparkSession
) -> str | None:
    match block.info:
        case "sql":
            return _answer(next(database), block)
        case "sql refused":
            return _refusal(next(database), block)
        case "python":
            return _printed(block, names)
        case _:
            return _spec(block, spark)


def _lazily_opened(closing: contextlib.ExitStack, spark: SparkSession) -> Iterator[tidegate.Database]:
    db = tidegate.connect(spark=spark)
    closing.callback(db.close)
    while True:
        yield db


def _answer(db: tidegate.Database, block: Block) -> str:
    """A step runs before a query only: each new view restarts the pipeline, which takes seconds."""
    if block.body.lstrip().upper().startswith("SELECT"):
        db.step()
    result = db.sql(block.body)
    return str(result) if result.columns else ""


def _refusal(db: tidegate.Database, block: Block) -> str:
    with pytest.raises(tidegate.Error) as refused:
        db.sql(block.body)
    return str(refused.value)


def _printed(block: Block, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.body, str(block), "exec"), names)
    return printed.getvalue().rstrip("\n")


def _spec(block: Block, spark: SparkSession) -> None:
    path = Path(f"{block.page.stem}.spec")
    path.write_text(block.body, encoding="utf-8")
    failures = run_file(path, spark, restarts=True).failures
    assert not failures, "\n".join(failure.render() for failure in failures)


def test_the_picture_of_the_emit_page_is_what_its_script_draws(spark: SparkSession) -> None:
    script = runpy.run_path(str(ROOT / "examples" / "emit_pictures.py"))
    with tidegate.connect(spark=spark, clock="virtual") as db:
        drawn = script["picture"](script["moments"](db))
    assert drawn in (ROOT / "docs" / "emit.md").read_text(encoding="utf-8")
