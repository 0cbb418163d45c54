"""Naive models of the operators that do not depend on time, in plain Python: they keep all rows and compute every
answer from scratch. Property tests compare the kernels with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model.reference_aggregates import answer, ordering
from tidegate.ir.specs import (
    AggregateCall,
    AggregateSpec,
    DistinctSpec,
    KernelSpec,
    Order,
    SetOpSpec,
    TableSpec,
    TopNSpec,
)

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """A row that is inserted (weight 1) or deleted (-1), with its position in the step."""

    row: Mapping[str, Any]
    weight: int
    position: int = 0


def plain(value: Any) -> Any:
    """A hashable value, equal for equal values: NaN equals itself, -0.0 is 0.0, lists and structs are tuples."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return value + 0.0
        case list() | tuple():
            return tuple(plain(item) for item in value)
        case dict():
            return tuple((name, plain(item)) for name, item in value.items())
    return value


def picked(row: Mapping[str, Any], columns: Iterable[str]) -> Row:
    return tuple(plain(row[name]) for name in columns)


class Model:
    """The model of an operator: `content` is the multiset of its output rows after the steps so far."""

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        raise NotImplementedError

    def content(self) -> Counter[Row]:
        raise NotImplementedError


def model(spec: KernelSpec) -> Model:
    match spec:
        case AggregateSpec():
            return Groups(spec)
        case DistinctSpec() | SetOpSpec():
            return Sets(spec)
        case TopNSpec():
            return Top(spec)
        case TableSpec():
            return Content(spec)
    raise TypeError(f"{type(spec).__name__} has its model in reference_time")


class Groups(Model):
    """GROUP BY. For FIRST and LAST it keeps the first and last arrival of each value of a group."""

    def __init__(self, spec: AggregateSpec) -> None:
        self._spec = spec
        self._rows: Counter[Row] = Counter()
        self._columns = list(dict.fromkeys([*spec.keys, *(c for call in spec.calls for c in _columns(call))]))
        self._arrivals: dict[tuple[int, Row, Row], tuple[tuple[int, int], tuple[int, int]]] = {}
        self._started = False

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        self._started = True
        before = [self._values(index) for index in range(len(self._spec.calls))]
        self._rows.update(_net((picked(c.row, self._columns), c.weight) for c in inputs[0]))
        self._rows = +self._rows
        for index in range(len(self._spec.calls)):
            self._record_arrivals(index, number, before[index], inputs[0])

    def content(self) -> Counter[Row]:
        groups: dict[Row, list[dict[str, Any]]] = {(): []} if self._spec.scalar and self._started else {}
        for row, count in self._rows.items():
            named = dict(zip(self._columns, row, strict=True))
            groups.setdefault(picked(named, self._spec.keys), []).extend([named] * count)
        return Counter((*key, *self._answers(key, rows)) for key, rows in groups.items())

    def _answers(self, key: Row, rows: list[dict[str, Any]]) -> Row:
        return tuple(plain(self._answer(index, key, rows)) for index in range(len(self._spec.calls)))

    def _answer(self, index: int, key: Row, rows: list[dict[str, Any]]) -> Any:
        call = self._spec.calls[index]
        passing = [row for row in rows if call.filter is None or row[call.filter] is True]
        arrivals = {
            value: at for (number, group, value), at in self._arrivals.items() if (number, group) == (index, key)
        }
        return answer(call, [tuple(row[name] for name in call.args) for row in passing], arrivals)

    def _values(self, index: int) -> Counter[tuple[Row, Row]]:
        """The count of each argument tuple of a call in each group."""
        call, counts = self._spec.calls[index], Counter[tuple[Row, Row]]()
        for row, count in self._rows.items():
            named = dict(zip(self._columns, row, strict=True))
            if call.filter is None or named[call.filter] is True:
                counts[picked(named, self._spec.keys), picked(named, call.args)] += count
        return counts

    def _record_arrivals(
        self, index: int, step: int, before: Counter[tuple[Row, Row]], changes: Sequence[Change]
    ) -> None:
        call = self._spec.calls[index]
        net: Counter[tuple[Row, Row, int]] = Counter()
        for change in changes:
            if call.filter is None or change.row[call.filter] is True:
                key, value = picked(change.row, self._spec.keys), picked(change.row, call.args)
                net[key, value, change.position] += change.weight
        after = self._values(index)
        for (key, value, position), weight in sorted(net.items(), key=lambda item: item[0][2]):
            if weight > 0 and after[key, value] > 0:
                stays = before[key, value] > 0 or self._arrived_in_step(index, key, value, step)
                first = self._arrivals[index, key, value][0] if stays else (step, position)
                self._arrivals[index, key, value] = (first, (step, position))
        for number, key, value in [at for at in self._arrivals if at[0] == index]:
            if after[key, value] <= 0:
                del self._arrivals[number, key, value]

    def _arrived_in_step(self, index: int, key: Row, value: Row, step: int) -> bool:
        """True if the value has already arrived in this step."""
        known = self._arrivals.get((index, key, value))
        return known is not None and known[1][0] == step


class Sets(Model):
    """DISTINCT, EXCEPT and INTERSECT: counts of whole rows on each side."""

    def __init__(self, spec: DistinctSpec | SetOpSpec) -> None:
        self._spec = spec
        self._sides: list[Counter[Row]] = [Counter(), Counter()]

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        for side, changes in enumerate(inputs):
            self._sides[side].update(_net((picked(c.row, self._spec.columns), c.weight) for c in changes))

    def content(self) -> Counter[Row]:
        left, right = (+side for side in self._sides)
        match self._spec:
            case SetOpSpec(kind="except", all=True):
                return left - right
            case SetOpSpec(kind="except"):
                return Counter(set(left) - set(right))
            case SetOpSpec(kind="intersect", all=True):
                return left & right
            case SetOpSpec():
                return Counter(set(left) & set(right))
        return Counter(set(left))


class Top(Model):
    """ORDER BY ... LIMIT per partition, with the rank of each row if the spec has a rank column."""

    def __init__(self, spec: TopNSpec) -> None:
        self._spec = spec
        self._rows: Counter[Row] = Counter()

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        self._rows.update(_net((picked(c.row, self._spec.columns), c.weight) for c in inputs[0]))

    def content(self) -> Counter[Row]:
        parts: dict[Row, list[Row]] = {}
        for row in (+self._rows).elements():
            parts.setdefault(picked(self._named(row), self._spec.partition), []).append(row)
        return Counter(row for rows in parts.values() for row in self._top(rows))

    def _named(self, row: Row) -> dict[str, Any]:
        return dict(zip(self._spec.columns, row, strict=True))

    def _top(self, rows: list[Row]) -> Iterable[Row]:
        rows = sorted(rows, key=lambda row: (self._sort_key(row), tuple(ordering(value) for value in row)))
        low, high = self._spec.offset, self._spec.offset + self._spec.limit
        for row, rank in zip(rows, self._ranks(rows), strict=True):
            if low < rank <= high:
                yield (*row, rank) if self._spec.rank else row

    def _sort_key(self, row: Row) -> tuple[Any, ...]:
        named = self._named(row)
        return tuple(_direct_key(named[order.column], order) for order in self._spec.order)

    def _ranks(self, rows: list[Row]) -> list[int]:
        keys = [self._sort_key(row) for row in rows]
        match self._spec.function:
            case "rank":
                return [keys.index(key) + 1 for key in keys]
            case "dense_rank":
                distinct = list(dict.fromkeys(keys))
                return [distinct.index(key) + 1 for key in keys]
        return list(range(1, len(rows) + 1))


@dataclass
class Content(Model):
    """A table. `rejected` are the codes and rows that the last step rejected, in order."""

    spec: TableSpec
    rows: list[Row] = field(default_factory=list)
    rejected: list[tuple[str, Row]] = field(default_factory=list)

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        self.rejected = []
        for change in sorted(inputs[0], key=lambda change: change.position):
            row = tuple(change.row[name] for name in self.spec.columns)
            code = self._keyed(change, row) if self.spec.key else self._bag(change, row)
            if code:
                self.rejected.append((code, plain(row)))

    def content(self) -> Counter[Row]:
        return Counter(plain(row) for row in self.rows)

    def _key(self, row: Row) -> Row:
        return picked(dict(zip(self.spec.columns, row, strict=True)), self.spec.key)

    def _keyed(self, change: Change, row: Row) -> str | None:
        key = self._key(row)
        if None in key:
            return "NULL_KEY"
        known = [other for other in self.rows if self._key(other) == key]
        if self.spec.append_only and (change.weight < 0 or known):
            return "APPEND_ONLY"
        self.rows = [other for other in self.rows if other not in known]
        self.rows += [row] if change.weight > 0 else []
        return None

    def _bag(self, change: Change, row: Row) -> str | None:
        if change.weight > 0:
            self.rows.append(row)
            return None
        if self.spec.append_only:
            return "APPEND_ONLY"
        known = [number for number, other in enumerate(self.rows) if plain(other) == plain(row)]
        if not known:
            return "ROW_NOT_FOUND"
        del self.rows[known[0]]
        return None


class _Reversed:
    """A sort key in descending order."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _direct_key(value: Any, order: Order) -> tuple[Any, ...]:
    null = (0,) if order.nulls_first else (2,)
    key = ordering(value)
    return null if value is None else (1, _Reversed(key) if order.descending else key)


def _columns(call: AggregateCall) -> list[str]:
    return [*call.args, *([call.filter] if call.filter else [])]


def _net(pairs: Iterable[tuple[Row, int]]) -> dict[Row, int]:
    net: dict[Row, int] = {}
    for row, weight in pairs:
        net[row] = net.get(row, 0) + weight
    return net
