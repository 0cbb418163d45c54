"""Adds the pages that live in the repository's root to the site, with their links adjusted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
ROOT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def on_files(files: Files, config: Any) -> Files:
    """Generates the root pages as if they were in docs/."""
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Points links to root pages at the generated ones, and drops words after a fence's language
    (`sql refused`), which only tests/docs reads."""
    markdown = markdown.replace("](../", "](")
    return re.sub(r"^(\s*```\w+) [^\n]*$", r"\1", markdown, flags=re.MULTILINE)
