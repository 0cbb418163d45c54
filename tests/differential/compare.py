"""Compares what the engine says with what the simulator says, in canonical values."""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from tests.differential.inputs import Row, Rows
from tests.differential.marks import END, START, Mark


def canonical(value: Any) -> Any:
    """Times as seconds since 1970, doubles rounded."""
    if isinstance(value, datetime):
        return calendar.timegm(value.timetuple()) + (value.microsecond / 1e6 if value.microsecond else 0)
    return round(value, 6) if isinstance(value, float) else value


def rows_of(found: Iterable[Sequence[Any]]) -> Rows:
    return Counter(tuple(canonical(value) for value in row) for row in found)


def rounded(rows: Rows) -> Rows:
    return +Counter({tuple(canonical(value) for value in row): weight for row, weight in rows.items()})


def mark_of(text: str | None) -> Mark:
    """A watermark as system.watermarks shows it."""
    if text is None:
        return START
    return END if text == "infinity" else canonical(datetime.fromisoformat(text.removesuffix("Z")))


def differing(what: str, expected: Counter[Any], actual: Counter[Any]) -> str | None:
    """What is missing and what is too much, None if they are equal."""
    missing, extra = expected - actual, actual - expected
    if not missing and not extra:
        return None
    lines = [f"{what}:"]
    lines += [f"  missing {count} x {item!r}" for item, count in missing.items()]
    lines += [f"  too much {count} x {item!r}" for item, count in extra.items()]
    return "\n".join(lines)


class Changelog:
    """Follows the changes of one view, micro-batch by micro-batch, and checks their ops. `key`: the places of the key
    columns, None if nothing identifies a row; `loose`: the ops are not checked."""

    def __init__(self, view: str, key: tuple[int, ...] | None, kind: str, loose: bool) -> None:
        self._view, self._key, self._kind, self._loose = view, key, kind, loose
        self.content: Rows = Counter()

    @property
    def adds_up(self) -> bool:
        """False if updates say what is new and nothing says what it replaces."""
        return self._kind != "upsert" or self._key is not None

    def apply(self, changes: Sequence[tuple[str, int, Row]]) -> str | None:
        """Take the changes of one micro-batch; says which of them cannot be right."""
        came, gone = self._sides(changes)
        both = came & gone
        if both:
            return f"{self._view} emits {next(iter(both))!r} and takes it back in one micro-batch"
        if self._kind == "append" and gone:
            return f"{self._view} is append, and takes back {next(iter(gone))!r}"
        wrong = None if self._loose else self._wrong_op(changes, came, gone)
        self.content.subtract(gone)
        self.content.update(came)
        if any(weight < 0 for weight in self.content.values()):
            return f"{self._view} takes back more than it emitted"
        self.content = +self.content
        return wrong

    def _sides(self, changes: Sequence[tuple[str, int, Row]]) -> tuple[Rows, Rows]:
        came: Rows = Counter()
        gone: Rows = Counter()
        for op, weight, row in changes:
            (came if op.startswith("+") else gone)[row] += abs(weight)
        if self._kind == "upsert" and self._key is not None:
            replaced = {self._of(row) for op, _, row in changes if op == "+U"}
            gone.update(row for row in self.content if self._of(row) in replaced)
        return came, gone

    def _wrong_op(self, changes: Sequence[tuple[str, int, Row]], came: Rows, gone: Rows) -> str | None:
        new, old = {self._of(row) for row in came}, {self._of(row) for row in gone}
        for op, _, row in changes:
            updated = self._key is not None and self._of(row) in new & old
            right = ("+U" if updated else "+I") if op.startswith("+") else ("-U" if updated else "-D")
            if op != right:
                return f"{self._view} emits {op} {row!r}, which should be {right}"
        return None

    def _of(self, row: Row) -> Row:
        return tuple(row[place] for place in self._key) if self._key is not None else row
