"""The pages about the code name only what exists: paths, modules, classes, functions, make targets. No Spark."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.docs.blocks import ROOT

PACKAGE = ROOT / "src" / "tidegate"
PAGES = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/testing.md", "docs/connector-api.md")]
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|\w+/|\w+\.(?:py|toml|yml|lock)")
_NAME = re.compile(r"([A-Za-z_][\w.]*)(?:\(.*\))?")
_NAME_IN_FILE = re.compile(r"`(\w+)`\s+(?:in|of)\s+`([\w/.]+\.py)`")
_FILE_WITH_NAME = re.compile(r"`([\w/.]+\.py)` \(`(\w+)`\)")
_ROW_OF_FILE = re.compile(r"^\| `([\w/.]+\.py)` \| (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_exist(page: Path) -> None:
    paths = [token for token in _tokens(page) if _PATH.fullmatch(token)]
    assert paths or page.stem == "connector-api"
    assert [path for path in paths if not _resolve(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_occur_in_the_code(page: Path) -> None:
    names = [found[1] for token in _tokens(page) if not _PATH.fullmatch(token) and (found := _NAME.fullmatch(token))]
    assert len(names) > 5
    assert [name for name in names if not set(name.split(".")) <= _words()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_dotted_names_can_be_imported(page: Path) -> None:
    for token in _tokens(page):
        if re.fullmatch(r"tidegate(\.\w+)+", token):
            assert resolve_name(token), token


def test_a_name_said_to_be_in_a_file_is_in_it() -> None:
    said = [pair for page in PAGES for pair in _NAME_IN_FILE.findall(_prose(page))]
    said += [(name, path) for page in PAGES for path, name in _FILE_WITH_NAME.findall(_prose(page))]
    rows = [row for page in PAGES for row in _ROW_OF_FILE.findall(_prose(page))]
    said += [(name, path) for path, text in rows for name in re.findall(r"`(\w+)`", text)]
    assert len(said) > 10
    assert [pair for pair in said if not _contains(_resolve(pair[1]), pair[0])] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_make_targets_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"(?:`|\$ )make ([a-z0-9-]+)", page.read_text(encoding="utf-8"))
    assert [target for target in named if target not in targets] == []


def test_modules_of_the_data_flow_picture_exist() -> None:
    [picture] = re.findall(r"^```\n(.*?)^```$", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    named = re.findall(r"\b([a-z]+/[a-z_]+)\b", picture)
    assert len(named) > 10
    assert [path for path in named if not (PACKAGE / path).exists() and not (PACKAGE / f"{path}.py").exists()] == []


def _prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def _tokens(page: Path) -> list[str]:
    """What a page writes in backticks, each once. `<name>` stands for any name, so such a path is left out."""
    return sorted({token for token in re.findall(r"`([^`\n]+)`", _prose(page)) if "<" not in token})


def _resolve(path: str) -> list[Path]:
    """The files that a path may mean, below the repository or the package; a bare name, anywhere in the package."""
    found = [base / path for base in (ROOT, PACKAGE, PACKAGE.parent) if (base / path).exists()]
    return found or ([] if "/" in path else list(PACKAGE.rglob(path)))


def _contains(files: list[Path], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in files)


@cache
def _words() -> frozenset[str]:
    """Every word of the code, the tests and what configures them."""
    code = [file for folder in ("src", "tests") for file in (ROOT / folder).rglob("*.py")]
    files = [*code, ROOT / "pyproject.toml", ROOT / "mkdocs.yml"]
    return frozenset(re.findall(r"\w+", "\n".join(file.read_text(encoding="utf-8") for file in files)))
