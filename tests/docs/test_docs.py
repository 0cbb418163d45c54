"""Every code block of README and docs/ runs, with the output that the page shows."""

from __future__ import annotations

import contextlib
import io
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tidegate.testing.spec.files import run_file, run_together
from tidegate.testing.spec.parser import read
from tidegate.testing.spec.renaming import can_share, ends_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNING = [page for page in PAGES if any(blocks(page))]


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
@pytest.mark.usefixtures("page_folder")
def test_the_blocks_of_a_page_run(page: Path, spark: SparkSession, pytestconfig: pytest.Config) -> None:
    names: dict[str, Any] = {}
    specs = [block for block in blocks(page) if block.info == "spec"]
    with contextlib.ExitStack() as closing:
        database = _lazily_opened(closing, spark)
        for block in blocks(page):
            outcome = "" if block in specs else _outcome(block, database, names)
            if block.expected is not None:
                assert outcome == block.expected, str(block)
        if any(block.info == "sql" for block in blocks(page)):
            next(database).step()
    _run_specs(specs, spark, restarts=pytestconfig.getoption("--tier") == "all")


def _outcome(block: Block, database: Iterator[tidegate.Database], names: dict[str, Any]) -> str:
    match block.info:
        case "sql":
            return _answer(next(database), block)
        case "sql refused":
            return _refusal(next(database), block)
        case _:
            return _printed(block, names)


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


def _run_specs(specs: Sequence[Block], spark: SparkSession, restarts: bool) -> None:
    """Runs the specs of a page, those that can share a database together."""
    paths = [Path(f"{block.page.stem}-{block.line}.spec") for block in specs]
    for path, block in zip(paths, specs, strict=True):
        path.write_text(block.body, encoding="utf-8")
    sharing = [path for path in paths if can_share(read(path)) and not ends_inputs(read(path))]
    failures = run_together(sharing, spark, restarts) if sharing else []
    for path in paths:
        if path not in sharing:
            failures += run_file(path, spark, restarts).failures
    assert not failures, "\n".join(failure.render() for failure in failures)


def test_the_picture_of_the_emit_page_is_what_its_script_draws(spark: SparkSession) -> None:
    script = runpy.run_path(str(ROOT / "examples" / "emit_pictures.py"))
    with tidegate.connect(spark=spark, clock="virtual") as db:
        drawn = script["picture"](script["moments"](db))
    assert drawn in (ROOT / "docs" / "emit.md").read_text(encoding="utf-8")
