"""Changes of a view as lines of text: op codes, plain JSON, Debezium envelopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tidegate.core.render import json_text, text

if TYPE_CHECKING:
    from tidegate import Change

Row = dict[str, Any]


def as_ops(changes: Iterable[Change]) -> Iterator[str]:
    """`     3  +I  pen | 30`: step, op, values; `x2` for a weight of 2."""
    for change in changes:
        values = " | ".join(text(value) for value in change.row.values())
        times = f"  x{abs(change.weight)}" if abs(change.weight) > 1 else ""
        yield f"{change.step:>6}  {change.op}  {values}{times}"


def as_json(changes: Iterable[Change]) -> Iterator[str]:
    """One object per change: step, op, weight, row."""
    for change in changes:
        yield json_text({"step": change.step, "op": change.op, "weight": change.weight, "row": change.row})


def as_debezium(changes: Iterable[Change], view: str, key: Sequence[str]) -> Iterator[str]:
    """One envelope per changed row: `c` created, `u` updated (before and after), `d` deleted."""
    for step, together in groupby(changes, key=lambda change: change.step):
        source = {"connector": "tidegate", "table": view, "step": step}
        for op, before, after in _events(together, key):
            yield json_text({"op": op, "before": before, "after": after, "source": source})


def _events(changes: Iterable[Change], key: Sequence[str]) -> Iterator[tuple[str, Row | None, Row | None]]:
    """The changes of one step, with the two halves of an update combined. Retractions come first in a step."""
    old_rows: dict[tuple[Any, ...], Row] = {}
    for change in changes:
        key_of_row = tuple(change.row.get(name) for name in key)
        match change.op:
            case "-U" if key:
                old_rows[key_of_row] = change.row
            case "+U" if key:
                yield "u", old_rows.pop(key_of_row, None), change.row
            case "+I" | "+U":
                yield from [("c", None, change.row)] * abs(change.weight)
            case _:
                yield from [("d", change.row, None)] * abs(change.weight)
    for row in old_rows.values():
        yield "d", row, None
