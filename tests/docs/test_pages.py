"""What holds of the pages as text: links, completeness, line length, and the site that is built from them. No Spark."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.docs.blocks import PAGES, ROOT
from tidegate.connectors.registry import BUILT_IN
from tidegate.errors.catalogue import CATALOGUE, WARNINGS
from tidegate.kernels.aggregates import supported

LONGEST_LINE = 120


def test_the_site_builds_without_a_warning_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    for page in (tmp_path / "site").glob("*.html"):
        loaded = re.findall(r"<(?:link|script|img)[^>]*(?:src|href)=.?https?:[^>]*>", page.read_text(encoding="utf-8"))
        assert loaded == [], page.name


def test_prose_wraps() -> None:
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]
        too_long = [line for line in lines if len(line) > LONGEST_LINE]
        assert too_long == [], page.name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)", page.read_text(encoding="utf-8")):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} -> {target}"
            assert not anchor or anchor in _anchors(linked), f"{page.name} -> {target}{anchor}"


def _anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_errors_page_explains_every_code() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in [*CATALOGUE, *WARNINGS] if f"`{code}`" not in text] == []


def test_the_sql_page_names_every_aggregate() -> None:
    text = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    assert [name for name in sorted(supported()) if not re.search(rf"\b{name.upper()}\b", text)] == []


def test_the_sql_page_names_every_connector() -> None:
    text = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    assert [name for name in sorted(BUILT_IN) if f"| [{name}](" not in text] == []


def test_the_package_table_is_the_import_order() -> None:
    [contract] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][:1]
    layers = [layer.strip().removeprefix("tidegate.") for each in contract["layers"] for layer in each.split("|")]
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)(?:/|\.py)` \|", text, re.MULTILINE) == layers[::-1]
