"""The three kinds of aggregate functions. To add one: subclass the kind that fits, and name it in the table of
`tidegate.kernels.aggregates`.

- `Sums` keeps accumulators, numbers that add up.
- `Best` keeps the one entry that is first in some order.
- `Bag` needs all values of the group for its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.core.types import polars_type
from tidegate.ir.specs import AggregateCall
from tidegate.kernels.aggregates.accumulators import Accumulator

GROUP = "__g"
"""In frames of entries: the number of the group."""

STEP, POSITION = "__step", "__place"
"""In entries of FIRST and LAST: when the value arrived, by step and position in it."""

Ordering = tuple[tuple[str, bool], ...]
"""Columns, each with whether it descends."""


class Function:
    """One aggregate call of a query."""

    def __init__(self, call: AggregateCall) -> None:
        self.call = call
        self.type = polars_type(call.type)
        self.options = dict(call.options)

    @property
    def required(self) -> tuple[str, ...]:
        """Arguments without which a row does not count."""
        return self.call.args


class Sums(Function, ABC):
    """A function of sums over the group's rows (with DISTINCT: over its distinct values)."""

    @abstractmethod
    def keeps(self) -> Sequence[Accumulator]: ...

    @abstractmethod
    def result(self, *sums: Any) -> pl.Series:
        """The results of all groups, from what each accumulator reads."""


class Best(Function, ABC):
    """The entry of the group that is first by `order`. Ties are broken by all arguments, so there is one answer."""

    arrival = False
    """True if the order is that of arrival."""

    @abstractmethod
    def order(self) -> Ordering: ...

    @property
    def result(self) -> str:
        """The argument that is the result."""
        return self.call.args[0]


class Bag(Function, ABC):
    """A function of all values of a group."""

    @abstractmethod
    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        """The results of groups 0, 1, ...; `entries` are sorted by group and arguments, each with its weight."""


def spread_out(entries: pl.DataFrame, distinct: bool) -> pl.DataFrame:
    """Entries repeated by their weight (once, if `distinct`)."""
    if distinct or entries.is_empty():
        return entries
    return entries.select(pl.all().repeat_by(WEIGHT).explode())


def per_group(entries: pl.DataFrame, groups: int, result: pl.Expr) -> pl.Series:
    """One value per group, NULL for a group without entries."""
    grouped = entries.group_by(GROUP, maintain_order=True).agg(result.alias("result"))
    source: npt.NDArray[np.int64] = np.full(groups, -1, dtype=np.int64)
    source[grouped[GROUP].to_numpy()] = np.arange(grouped.height)
    index = pl.Series(source)
    return grouped["result"].gather(index.set(index < 0, None))
