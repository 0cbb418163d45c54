"""The state of a GROUP BY: accumulators, bags of values and best entries, each stored once for all calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.core.types import polars_type
from tidegate.ir.specs import AggregateCall, AggregateSpec
from tidegate.kernels import aggregates
from tidegate.kernels.aggregates.accumulators import Accumulator, DoubleSum, ExactSum
from tidegate.kernels.aggregates.function import POSITION, STEP, Bag, Best, Function, Ordering, Sums

T = TypeVar("T")
SUMMED = ("sum", "avg", "mean")


@dataclass(frozen=True)
class Values:
    """The values of `args` in a group, over rows that pass `filter` and in which all `required` have a value.

    Not `stored`: the input never retracts and only the best entry by `order` is needed, so no others are stored.
    """

    args: tuple[str, ...]
    required: tuple[str, ...]
    filter: str | None
    arrival: bool
    stored: bool
    order: Ordering = ()

    @property
    def hash(self) -> str | None:
        return aggregates.hash_name(self.args) if self.stored else None


@dataclass(frozen=True)
class Slot:
    """An accumulator over the rows that pass `filter`, or over the distinct entries of the bag number `values`."""

    accumulator: Accumulator
    filter: str | None
    values: int | None


@dataclass(frozen=True)
class Pick:
    """The best entry by `order` of the bag number `values`."""

    values: int
    order: Ordering

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns of the entry: those that the order compares."""
        return tuple(column for column, _ in self.order)


class Plan:
    """The parts of one GROUP BY. `uses[i]` are the numbers of the parts that call i reads."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec
        self.functions: list[Function] = [aggregates.function(call) for call in spec.calls]
        self.slots: list[Slot] = []
        self.values: list[Values] = []
        self.picks: list[Pick] = []
        self.uses = [self._use(func) for func in self.functions]
        pairs = [(name, type) for call in spec.calls for name, type in zip(call.args, call.arg_types, strict=True)]
        self.types: dict[str, pl.DataType] = {name: polars_type(type) for name, type in pairs}

    def slot_types(self, number: int) -> dict[str, pl.DataType]:
        """The columns that store a slot's sums."""
        accumulator = self.slots[number].accumulator
        if isinstance(accumulator, ExactSum):
            return {f"__s{number}_i": pl.List(pl.Int64()), f"__s{number}_v": pl.List(pl.Int64())}
        kind = pl.Float64() if isinstance(accumulator, DoubleSum) else pl.Int64()
        return {f"__s{number}_{part}": kind for part in range(accumulator.width)}

    def pick_types(self, number: int) -> dict[str, pl.DataType]:
        """The columns that store a best entry: a flag whether it exists, and what its order compares."""
        plain = {STEP: pl.Int64(), POSITION: pl.Int64()}
        columns = self.picks[number].columns
        return {
            f"__p{number}": pl.Boolean(),
            **{f"__p{number}_{name}": plain.get(name) or self.types[name] for name in columns},
        }

    @property
    def counters(self) -> list[str]:
        """The columns of a stored group that hold plain sums."""
        plain = [number for number, slot in enumerate(self.slots) if not isinstance(slot.accumulator, ExactSum)]
        return [WEIGHT, *(name for number in plain for name in self.slot_types(number))]

    def empty_input(self) -> pl.DataFrame:
        """No rows, as they would come to a global aggregate."""
        filters = dict.fromkeys((call.filter for call in self.spec.calls if call.filter), pl.Boolean())
        hashes = dict.fromkeys((values.hash for values in self.values if values.hash), pl.Int64())
        plain = dict.fromkeys((HASH, WEIGHT, SEQ), pl.Int64())
        return pl.DataFrame(schema={**plain, **filters, **hashes, **self.types})

    def group_types(self) -> dict[str, pl.DataType]:
        """The stored columns of a group besides its keys: its number of rows, sums, best entries."""
        types: dict[str, pl.DataType] = {WEIGHT: pl.Int64()}
        for number in range(len(self.slots)):
            types |= self.slot_types(number)
        for number in range(len(self.picks)):
            types |= self.pick_types(number)
        return types

    def _use(self, func: Function) -> list[int]:
        match func:
            case Sums():
                return [self._slot(accumulator, func.call) for accumulator in func.keeps()]
            case Best():
                return [self._pick(func)]
            case Bag():
                return [_number(self.values, self._values(func, stored=True))]
        raise TypeError(f"{type(func).__name__} is no known kind of aggregate function")

    def _slot(self, accumulator: Accumulator, call: AggregateCall) -> int:
        if not aggregates.is_distinct(call):
            return _number(self.slots, Slot(self._lightened(accumulator, call), call.filter, None))
        values = _number(self.values, Values(call.args, call.args, call.filter, arrival=False, stored=True))
        return _number(self.slots, Slot(accumulator, None, values))

    def _lightened(self, accumulator: Accumulator, call: AggregateCall) -> Accumulator:
        """SUM and AVG of doubles need no exact sum if the input never retracts."""
        if isinstance(accumulator, ExactSum) and self.spec.append_only and call.func in SUMMED:
            return DoubleSum(accumulator.factors[0])
        return accumulator

    def _pick(self, func: Best) -> int:
        stored = not self.spec.append_only
        values = _number(self.values, self._values(func, stored))
        return _number(self.picks, Pick(values, func.order()))

    def _values(self, func: Best | Bag, stored: bool) -> Values:
        arrival = isinstance(func, Best) and func.arrival
        order = func.order() if isinstance(func, Best) and not stored else ()
        return Values(func.call.args, func.required, func.call.filter, arrival, stored, order)


def _number(parts: list[T], part: T) -> int:
    """The index of a part in the list, to which it is appended if it is new."""
    if part not in parts:
        parts.append(part)
    return parts.index(part)
