"""The code blocks of a page, and how they are run.

```sql          runs in the page's database; a `text` block right below is the result of its last statement
```sql refused  must be rejected; a `text` block right below is the error
```python       runs in the page's namespace; a `text` block right below is what it prints
```spec         runs as a spec file
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = ("sql", "sql refused", "python", "spec")
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block that runs: `expected` is the output that the page shows, if any."""

    page: Path
    line: int
    info: str
    body: str
    expected: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that run, in order."""
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    for fence, follower in zip_longest(fences, fences[1:]):
        info = fence["info"].strip()
        if info in RUN:
            line = text.count("\n", 0, fence.start()) + 1
            yield Block(page, line, info, fence["body"], _expected(text, fence, follower))


def _expected(text: str, fence: re.Match[str], follower: re.Match[str] | None) -> str | None:
    if follower is None or follower["info"].strip() != "text" or text[fence.end() : follower.start()].strip():
        return None
    return follower["body"].rstrip("\n")
