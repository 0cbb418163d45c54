"""Naive models of joins, in plain Python: they keep all rows and test every pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.model.reference import Change, Model, Row, picked, plain
from tests.model.reference_aggregates import ordering
from tidegate.ir.joins import IntervalJoinSpec, JoinSpec, KeyPair, LookupJoinSpec, OutputColumn

Named = Mapping[str, Any]
"""A row by column, with values as `plain` returns them."""

PADS_LEFT, PADS_RIGHT = ("left", "full"), ("right", "full")


class IncrementalJoin(Model):
    """The incremental join: the batch answer over the current rows."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec
        self._sides: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        for side, columns, changes in zip(self._sides, self._spec.columns, inputs, strict=True):
            for change in changes:
                side[picked(change.row, columns)] += change.weight

    def content(self) -> Counter[Row]:
        return Counter(self._answer(*(list(self._rows(side)) for side in (0, 1))))

    def _rows(self, side: int) -> Iterator[Named]:
        for row in self._sides[side].elements():
            yield dict(zip(self._spec.columns[side], row, strict=True))

    def _answer(self, lefts: Sequence[Named], rights: Sequence[Named]) -> Iterator[Row]:
        kind, outputs = self._spec.kind, self._spec.outputs
        pairs = [(left, right) for left in lefts for right in rights if matches(self._spec, left, right)]
        if kind not in ("semi", "anti"):
            yield from (output(outputs, left, right) for left, right in pairs)
        for left in lefts:
            unmatched = not any(left is matched for matched, _ in pairs)
            if (unmatched and kind in (*PADS_LEFT, "anti")) or (not unmatched and kind == "semi"):
                yield output(outputs, left, None)
        for right in rights:
            if kind in PADS_RIGHT and not any(right is matched for _, matched in pairs):
                yield output(outputs, None, right)


class LookupJoin(Model):
    """The lookup join: all rows emitted so far, each joined with the table at that time."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._spec = spec
        self._table: list[Named] = []
        self._emitted: Counter[Row] = Counter()

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        for change in sorted(inputs[1], key=lambda change: change.weight):
            row = {name: plain(value) for name, value in change.row.items()}
            self._table.append(row) if change.weight > 0 else self._table.remove(row)
        for change in inputs[0]:
            answer = self._answer({name: plain(value) for name, value in change.row.items()})
            self._emitted.update(answer * change.weight)

    def content(self) -> Counter[Row]:
        return self._emitted

    def _answer(self, left: Named) -> list[Row]:
        pairs = [output(self._spec.outputs, left, right) for right in self._table if matches(self._spec, left, right)]
        return pairs if pairs or self._spec.kind == "inner" else [output(self._spec.outputs, left, None)]


def matches(spec: JoinSpec | LookupJoinSpec | IntervalJoinSpec, left: Named, right: Named) -> bool:
    return all(_equal(left, right, pair) for pair in spec.keys) and all(
        holds(left[test.left], test.op, right[test.right]) for test in spec.conditions
    )


def holds(left: Any, op: str, right: Any) -> bool:
    """`left op right` in Spark's order."""
    if op == "<=>":
        return ordering(left) == ordering(right)
    if left is None or right is None:
        return False
    one, other = ordering(left), ordering(right)
    match op:
        case "=":
            return one == other
        case "<>":
            return one != other
        case "<":
            return one < other
        case "<=":
            return one <= other
        case ">":
            return one > other
        case ">=":
            return one >= other
    raise ValueError(op)


def output(outputs: Sequence[OutputColumn], left: Named | None, right: Named | None) -> Row:
    sides = (left, right)
    return tuple(None if (row := sides[each.side]) is None else row[each.column] for each in outputs)


def _equal(left: Named, right: Named, pair: KeyPair) -> bool:
    op = "<=>" if pair.null_safe else "="
    return holds(left[pair.left], op, right[pair.right])
