"""A naive model of every stateful operator, in plain Python: it keeps all rows and answers from scratch.

Kernels are tested against it. What it says is what the operators mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model.reference_aggregates import answer
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
    """A row that comes (weight 1) or goes (-1), with its place in the step."""

    row: Mapping[str, Any]
    weight: int
    place: int = 0


def plain(value: Any) -> Any:
    """A value by which equal values are equal: NaN is itself, -0.0 is 0.0, lists and structs are tuples."""
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
    """An operator's answer: how often each output row is there, after the steps so far."""

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
    """GROUP BY. For FIRST and LAST it remembers, of each value of a group, when it came and when it came last."""

    def __init__(self, spec: AggregateSpec) -> None:
        self._spec = spec
        self._rows: Counter[Row] = Counter()
        self._columns = list(dict.fromkeys([*spec.keys, *(c for call in spec.calls for c in _columns(call))]))
        self._arrivals: dict[tuple[int, Row, Row], tuple[tuple[int, int], tuple[int, int]]] = {}
        self._begun = False

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        self._begun = True
        before = [self._values(index) for index in range(len(self._spec.calls))]
        self._rows.update(_netted((picked(c.row, self._columns), c.weight) for c in inputs[0]))
        self._rows = +self._rows
        for index in range(len(self._spec.calls)):
            self._arrive(index, number, before[index], inputs[0])

    def content(self) -> Counter[Row]:
        groups: dict[Row, list[dict[str, Any]]] = {(): []} if self._spec.scalar and self._begun else {}
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
        """How often each value of a call is in each group."""
        call, found = self._spec.calls[index], Counter[tuple[Row, Row]]()
        for row, count in self._rows.items():
            named = dict(zip(self._columns, row, strict=True))
            if call.filter is None or named[call.filter] is True:
                found[picked(named, self._spec.keys), picked(named, call.args)] += count
        return found

    def _arrive(self, index: int, step: int, before: Counter[tuple[Row, Row]], changes: Sequence[Change]) -> None:
        call = self._spec.calls[index]
        net: Counter[tuple[Row, Row, int]] = Counter()
        for change in changes:
            if call.filter is None or change.row[call.filter] is True:
                net[picked(change.row, self._spec.keys), picked(change.row, call.args), change.place] += change.weight
        after = self._values(index)
        for (key, value, place), weight in sorted(net.items(), key=lambda item: item[0][2]):
            if weight > 0 and after[key, value] > 0:
                stays = before[key, value] > 0 or self._came(index, key, value, step)
                first = self._arrivals[index, key, value][0] if stays else (step, place)
                self._arrivals[index, key, value] = (first, (step, place))
        for number, key, value in [at for at in self._arrivals if at[0] == index]:
            if after[key, value] <= 0:
                del self._arrivals[number, key, value]

    def _came(self, index: int, key: Row, value: Row, step: int) -> bool:
        """Whether a value has come earlier in the same step."""
        known = self._arrivals.get((index, key, value))
        return known is not None and known[1][0] == step


class Sets(Model):
    """DISTINCT, EXCEPT and INTERSECT: counts of whole rows on each side."""

    def __init__(self, spec: DistinctSpec | SetOpSpec) -> None:
        self._spec = spec
        self._sides: list[Counter[Row]] = [Counter(), Counter()]

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        for side, changes in enumerate(inputs):
            self._sides[side].update(_netted((picked(c.row, self._spec.columns), c.weight) for c in changes))

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
    """ORDER BY ... LIMIT per partition, with the place of each row where it is asked for."""

    def __init__(self, spec: TopNSpec) -> None:
        self._spec = spec
        self._rows: Counter[Row] = Counter()

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        self._rows.update(_netted((picked(c.row, self._spec.columns), c.weight) for c in inputs[0]))

    def content(self) -> Counter[Row]:
        parts: dict[Row, list[Row]] = {}
        for row in (+self._rows).elements():
            parts.setdefault(picked(self._named(row), self._spec.partition), []).append(row)
        return Counter(shown for rows in parts.values() for shown in self._shown(rows))

    def _named(self, row: Row) -> dict[str, Any]:
        return dict(zip(self._spec.columns, row, strict=True))

    def _shown(self, rows: list[Row]) -> Iterable[Row]:
        rows = sorted(rows, key=lambda row: (self._wanted(row), tuple(ordering(value) for value in row)))
        low, high = self._spec.offset, self._spec.offset + self._spec.limit
        for row, place in zip(rows, self._places(rows), strict=True):
            if low < place <= high:
                yield (*row, place) if self._spec.rank else row

    def _wanted(self, row: Row) -> tuple[Any, ...]:
        named = self._named(row)
        return tuple(_directed(named[order.column], order) for order in self._spec.order)

    def _places(self, rows: list[Row]) -> list[int]:
        keys = [self._wanted(row) for row in rows]
        match self._spec.function:
            case "rank":
                return [keys.index(key) + 1 for key in keys]
            case "dense_rank":
                distinct = list(dict.fromkeys(keys))
                return [distinct.index(key) + 1 for key in keys]
        return list(range(1, len(rows) + 1))


@dataclass
class Content(Model):
    """A table. `refused` are the codes and rows it would not take, in order."""

    spec: TableSpec
    rows: list[Row] = field(default_factory=list)
    refused: list[tuple[str, Row]] = field(default_factory=list)

    def step(self, number: int, inputs: Sequence[Sequence[Change]]) -> None:
        self.refused = []
        for change in sorted(inputs[0], key=lambda change: change.place):
            row = tuple(change.row[name] for name in self.spec.columns)
            code = self._keyed(change, row) if self.spec.key else self._bag(change, row)
            if code:
                self.refused.append((code, plain(row)))

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


def ordering(value: Any) -> tuple[Any, ...]:
    """A sort key in Spark's ascending order: NULL, then numbers, NaN above them; lists and structs by their parts."""
    if value is None:
        return (0,)
    if value == "NaN" or (isinstance(value, float) and math.isnan(value)):
        return (2,)
    return (1, tuple(ordering(item) for item in value)) if isinstance(value, tuple) else (1, value)


class _Reversed:
    """A sort key the other way round."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _directed(value: Any, order: Order) -> tuple[Any, ...]:
    null = (0,) if order.nulls_first else (2,)
    key = ordering(value)
    return null if value is None else (1, _Reversed(key) if order.descending else key)


def _columns(call: AggregateCall) -> list[str]:
    return [*call.args, *([call.filter] if call.filter else [])]


def _netted(pairs: Iterable[tuple[Row, int]]) -> dict[Row, int]:
    net: dict[Row, int] = {}
    for row, weight in pairs:
        net[row] = net.get(row, 0) + weight
    return net
