"""Functions that pick one entry of a group: MIN, MAX, MIN_BY, MAX_BY, FIRST, LAST."""

from __future__ import annotations

from tidegate.kernels.aggregates.function import PLACE, STEP, Best, Ordering


class Minimum(Best):
    """MIN: strings by bytes, NaN above every number."""

    def order(self) -> Ordering:
        return ((self.call.args[0], False),)


class Maximum(Best):
    """MAX: strings by bytes, NaN above every number."""

    def order(self) -> Ordering:
        return ((self.call.args[0], True),)


class MinimumBy(Best):
    """MIN_BY(x, y): the x of the row with the least y; of several the least x, NULL before others."""

    descending = False

    @property
    def required(self) -> tuple[str, ...]:
        return self.call.args[1:]

    def order(self) -> Ordering:
        value, by = self.call.args
        return ((by, self.descending), (value, False))


class MaximumBy(MinimumBy):
    """MAX_BY(x, y): the x of the row with the greatest y; of several the least x, NULL before others."""

    descending = True


class First(Best):
    """FIRST: the value that came first of those that are still there. A value counts from the step on since when it has
    been there without a break."""

    arrival = True
    descending = False

    @property
    def required(self) -> tuple[str, ...]:
        return self.call.args if self.options.get("ignore_nulls", "false").lower() == "true" else ()

    def order(self) -> Ordering:
        return tuple((column, self.descending) for column in (STEP, PLACE, self.call.args[0]))


class Last(First):
    """LAST: the value that came last of those that are still there; a value counts by its latest arrival."""

    descending = True
