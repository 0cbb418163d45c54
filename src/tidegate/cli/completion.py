"""Completion in the shell: keywords, relations, their columns, `\\` commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        ADVANCE ALL AND ARRAY_AGG AS AVG BETWEEN BIGINT BOOLEAN BY CASCADE CASE CAST CHANGES COUNT CREATE
        DATAGEN DATE DECIMAL DELETE DESC DESCRIBE DISTINCT DOUBLE DROP ELSE EMIT END EXCEPT EXISTS EXPLAIN
        EXTENDED FILES FILTER FIRST FOR FORMAT FROM GROUP HAVING IF IN INSERT INT INTERSECT INTERVAL INTO IS KEY
        LAST LATENESS LIKE LIMIT MATERIALIZED MAX MAX_BY MIN MIN_BY NOT NULL OF ON OR ORDER PARTITION PRIMARY
        REPLACE ROW_NUMBER SELECT SET SHOW SINK SINKS SOURCE SOURCES STDDEV STDOUT STEP STREAM STRING SUBSCRIBE
        SUM TABLE TABLES THEN TIMESTAMP UNION UPDATE VALUES VARIANCE VIEW VIEWS WATERMARK WHEN WHERE WITH
        """,
    )
)
COMMANDS = ("\\?", "\\d", "\\dt", "\\dv", "\\auto", "\\step", "\\q")


class SqlCompleter(Completer):
    """Completes the word before the cursor. `names` returns the current relations and columns."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor.lstrip()
        if line.startswith("\\") and " " not in line:
            return [Completion(word, -len(line)) for word in COMMANDS if word.startswith(line)]
        word = document.get_word_before_cursor(WORD=False) if line[-1:].strip() else ""
        return [Completion(match, -len(word)) for match in self._matches(word)] if word else []

    def _matches(self, word: str) -> list[str]:
        folded = word.casefold()
        names = sorted({name for name in self.names() if name.casefold().startswith(folded)})
        keywords = sorted({keyword for keyword in KEYWORDS if keyword.casefold().startswith(folded)})
        lower = word.islower()
        return names + [keyword.lower() if lower else keyword for keyword in keywords]
