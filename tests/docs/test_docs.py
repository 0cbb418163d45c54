"""Every code block of README and docs/ runs and gives what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.docs.blocks import Block, blocks
from tidegate.cli.tables import text_table
from tidegate.errors.catalogue import CATALOGUE, WARNINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNING = [page for page in PAGES if any(blocks(page))]


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page: Path, page_folder: Path) -> None:
    names: dict[str, Any] = {}
    with contextlib.ExitStack() as closing:
        database = _lazily_opened(closing)
        for block in blocks(page):
            found = _outcome(block, database, names)
            if block.expected is not None:
                assert found == block.expected, str(block)


def _outcome(block: Block, database: Iterator[tidegate.Database], names: dict[str, Any]) -> str | None:
    match block.info:
        case "sql":
            return _answer(next(database), block)
        case "sql refused":
            return _refusal(next(database), block)
        case "python":
            return _printed(block, names)
        case _:
            return _spec(block)


def _lazily_opened(closing: contextlib.ExitStack) -> Iterator[tidegate.Database]:
    db = tidegate.connect()
    closing.callback(db.close)
    while True:
        yield db


def _answer(db: tidegate.Database, block: Block) -> str:
    db.step()
    result = db.sql(block.body)
    db.step()
    return text_table(result.columns, result.rows()) if result.columns else ""


def _refusal(db: tidegate.Database, block: Block) -> str:
    with pytest.raises(tidegate.Error) as refused:
        db.sql(block.body)
    return str(refused.value)


def _printed(block: Block, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.body, str(block), "exec"), names)
    return printed.getvalue().rstrip("\n")


def _spec(block: Block) -> str:
    raise NotImplementedError


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_the_errors_page_explains_every_code() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in [*CATALOGUE, *WARNINGS] if f"`{code}`" not in text] == []
