"""What an answer to a statement must look like."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence

from tidegate import Database, errors
from tidegate.errors.catalogue import CATALOGUE

FOREIGN = re.compile(
    r"org\.apache|py4j|\bjava\.|\bscala\.|Traceback|SQLSTATE|sqlglot|<class |\bexp\.\w|JVM|Exception|KeyError"
    r"|(?<!NULL \()\bNone\b|\[[A-Z][A-Z_]+[.\]]|object at 0x|spark\.sql\.|__[a-z]|\{[a-z_]+\}|#\d+L?\b|Relation \["
)
"""What only Spark, Java or Python would say."""
SLOW_SECONDS = 10
QUIET = ("SYNTAX_ERROR", "TYPE_MISMATCH", "UNKNOWN_COLUMN", "UNKNOWN_FUNCTION", "NOT_SUPPORTED", "UNKNOWN_RELATION")


class Checker:
    """Runs statements on one database and says what is wrong with an answer."""

    def __init__(self, db: Database, relations: str) -> None:
        self._db, self._relations = db, relations
        db.sql(relations)
        self._names = self._current()
        self.outcomes: Counter[str] = Counter()

    def defect(self, text: str) -> str | None:
        """What is wrong with the answer to a statement; None if nothing is."""
        began = time.monotonic()
        try:
            self._db.sql(text)
            found = None
            self.outcomes["accepted"] += 1
        except errors.Error as error:
            found = defect_of(error, text)
            self.outcomes[error.code] += 1
        except Exception as failure:
            found = f"raised {type(failure).__name__}: {str(failure)[:300]}"
        self._restore()
        taken = time.monotonic() - began
        return found or (f"took {taken:.0f} s" if taken > SLOW_SECONDS else None)

    def _current(self) -> set[str]:
        db = self._db
        return {*db.sources(), *db.tables(), *db.views(), *db.sinks()}

    def _restore(self) -> None:
        """Drop what the statement made; make what it dropped."""
        for name in self._current() - self._names:
            for kind in ("VIEW", "SOURCE", "TABLE", "SINK"):
                if name in getattr(self._db, f"{kind.lower()}s")():
                    self._db.sql(f"DROP {kind} IF EXISTS `{name.replace('`', '``')}` CASCADE")
        if self._current() != self._names:
            for name in self._db.views():
                self._db.sql(f"DROP VIEW IF EXISTS {name} CASCADE")
            for name in self._db.sinks():
                self._db.sql(f"DROP SINK IF EXISTS {name}")
            for name in self._db.sources():
                self._db.sql(f"DROP SOURCE IF EXISTS {name} CASCADE")
            for name in self._db.tables():
                self._db.sql(f"DROP TABLE IF EXISTS {name} CASCADE")
            self._db.sql(self._relations)


def defect_of(error: errors.Error, text: str) -> str | None:
    """What is wrong with an error; None if nothing is."""
    shown = str(error)
    if error.code not in CATALOGUE:
        return f"unknown code\n{shown}"
    for word in FOREIGN.findall(" ".join((error.message, error.detail or "", error.hint or ""))):
        if word.lower() not in text.lower():
            return f"says {word!r}\n{shown}"
    if not error.message.strip() or error.message.startswith("..."):
        return f"says nothing\n{shown}"
    if error.span is None:
        return f"has no place\n{shown}" if text.strip(" \n\t;") and error.code in QUIET else None
    start, end = error.span.start, error.span.end
    if error.text is None or len(error.text) != len(text):
        return f"points into another text\n{shown}"
    if not 0 <= start < end <= len(text) and not (start == len(text) and end <= len(text) + 1):
        return f"points to {start}:{end} of {len(text)} characters\n{shown}"
    if not text[start:end].strip() and (start == 0 or text[start:].strip(" \t\r\n;")) and text[start - 1].isspace():
        return f"points to blanks\n{shown}"
    return None


def scripts_of(specs: Sequence[str]) -> list[str]:
    """The first script of each spec file: its relations, and views over them."""
    found = (re.search(r"^sql\n((?:  .*\n|\n)+)", spec, re.MULTILINE) for spec in specs)
    return [match[1] for match in found if match]
