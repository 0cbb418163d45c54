"""Windows of fixed length: where they begin and end, and the order in which their state is kept.

Times are whole numbers: microseconds since the epoch plus the offset, or calendar months since January 1970. A *pane*
is a stretch of time in which no window begins or ends: rows of one pane are in the same windows."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.core.durations import CalendarInterval
from tidegate.ir.windows import WindowSpec

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WindowRows:
    """Windows of times: `row` is the number of the time that each belongs to; `start` and `end` in microseconds,
    `end_number` the end as a small number that orders windows."""

    row: npt.NDArray[np.intp]
    start: Ints
    end: Ints
    end_number: Ints


class Grid:
    """The windows of a spec: tumble, hop or cumulate."""

    def __init__(self, spec: WindowSpec) -> None:
        self._offset, self.kind = spec.offset, spec.kind
        self.by_month = bool(spec.size.months)
        self._size = self._count(spec.size)
        self._slide = self._size if spec.slide is None else self._count(spec.slide)
        self.unit = gcd(self._size, self._slide)

    def panes(self, times: Ints) -> Ints:
        """The start of the pane of each time."""
        number = self._numbers(times)
        if self.kind == "cumulate":
            inside = number % self._size
            return self._micros(number - inside % self._slide)
        start_of_slide = number - number % self._slide
        if self._size % self._slide == 0:
            return self._micros(start_of_slide)
        return self._micros(np.maximum(start_of_slide, number - (number - self._size) % self._slide))

    def windows(self, times: Ints, after: int | None = None) -> WindowRows:
        """All windows of each time, or those that end after a point of time."""
        number = self._numbers(times)
        return self._after(
            *(self._cumulate_windows(number) if self.kind == "cumulate" else self._hop_windows(number)), after
        )

    def _after(self, row: npt.NDArray[np.intp], start: Ints, end: Ints, after: int | None) -> WindowRows:
        last = self._micros(end)
        if after is not None and not (later := last > after).all():
            row, start, end, last = row[later], start[later], end[later], last[later]
        return WindowRows(row, self._micros(start), last, end // self.unit)

    @property
    def regular(self) -> bool:
        """True if all windows consist of the same number of panes, one for each slide."""
        return self.kind == "hop" and self._size % self._slide == 0

    @property
    def panes_each(self) -> int:
        """How many panes a regular window has."""
        return self._size // self._slide

    def slides(self, times: Ints) -> Ints:
        """How many slides after the epoch each time is."""
        return self._numbers(times) // self._slide

    def hops(self, slides: Ints, after: int | None = None) -> WindowRows:
        """The windows that begin at these slides, if they end after a point of time."""
        start = slides * self._slide
        return self._after(np.arange(len(slides)), start, start + self._size, after)

    def covered(self, times: Ints) -> npt.NDArray[np.bool_]:
        """A mask of the times in any window: all of them, unless there are gaps between windows."""
        if self._slide <= self._size:
            return np.ones(len(times), dtype=np.bool_)
        inside: npt.NDArray[np.bool_] = self._numbers(times) % self._slide < self._size
        return inside

    def last_ends(self, times: Ints) -> Ints:
        """The end of the last window of each time."""
        number = self._numbers(times)
        start = number - number % (self._size if self.kind == "cumulate" else self._slide)
        return self._micros(start + self._size)

    def earliest_open(self, time_us: int) -> tuple[int, int]:
        """The earliest start and the earliest end of the windows that end after a time."""
        number = int(self._numbers(np.array([time_us]))[0])
        if self.kind == "cumulate":
            start = number - number % self._size
            end = min(start + ((number - start) // self._slide + 1) * self._slide, start + self._size)
        else:
            start = (number - self._size) // self._slide * self._slide + self._slide
            end = start + self._size
        first, last = self._micros(np.array([start, end])).tolist()
        return first, last

    def end_number_after(self, time_us: int) -> int:
        """The lowest `end_number` of a window that ends after a time."""
        return int(self._numbers(np.array([time_us]))[0]) // self.unit + 1

    def _hop_windows(self, number: Ints) -> tuple[npt.NDArray[np.intp], Ints, Ints]:
        latest = number - number % self._slide
        if self._size == self._slide:
            return np.arange(len(number)), latest, latest + self._size
        back = np.arange(-(-self._size // self._slide)) * self._slide
        starts = latest[:, None] - back
        row, column = np.nonzero(starts + self._size > number[:, None])
        start = starts[row, column]
        return row, start, start + self._size

    def _cumulate_windows(self, number: Ints) -> tuple[npt.NDArray[np.intp], Ints, Ints]:
        start = number - number % self._size
        lengths = np.minimum(np.arange(1, -(-self._size // self._slide) + 1) * self._slide, self._size)
        ends = start[:, None] + lengths
        row, column = np.nonzero(ends > number[:, None])
        return row, start[row], ends[row, column]

    def _count(self, length: CalendarInterval) -> int:
        if bool(length.months) != self.by_month or (length.months and length.micros):
            raise ValueError("A window's lengths are all months or all of a fixed time.")
        count = length.months or length.micros
        if count <= 0:
            raise ValueError("A window's lengths are above zero.")
        return count

    def _numbers(self, times: Ints) -> Ints:
        times = times - self._offset
        if not self.by_month or not len(times):
            return times
        low, high = (int(_month(np.int64(time))) for time in (times.min(), times.max()))
        starts = _month_starts(np.arange(low, high + 1))
        return low + np.searchsorted(starts, times, "right").astype(np.int64) - 1

    def _micros(self, numbers: Ints) -> Ints:
        return (_month_starts(numbers) if self.by_month else numbers) + self._offset


def _month(time: np.int64) -> np.int64:
    return np.int64(np.datetime64(int(time), "us").astype("datetime64[M]").astype(np.int64))


def _month_starts(months: Ints) -> Ints:
    """The beginning of months since January 1970, in microseconds."""
    return months.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)


_RANGE_US = 3 * 10**17
"""More than the microseconds from year 1 to 9999, either side of the epoch."""
_RANGE_MONTHS = 200_000
_MOST_BITS = 32


class WindowOrder:
    def __init__(self, grid: Grid) -> None:
        end_numbers = (_RANGE_MONTHS if grid.by_month else _RANGE_US) // grid.unit + 1
        self._bits = min(62 - end_numbers.bit_length(), _MOST_BITS)
        self._grid, self._most = grid, 1 << (62 - self._bits)

    def keys(self, end_numbers: Ints, hashes: Ints) -> Ints:
        """The order keys of windows with these end numbers and keys with these hashes."""
        hash_bits = (hashes.view(np.uint64) >> np.uint64(64 - self._bits)).view(np.int64)
        return (np.clip(end_numbers, -self._most, self._most - 1) << self._bits) | hash_bits

    def window_keys(self, order_keys: pl.Series) -> pl.Series:
        """The order keys without the bits of the hash."""
        return pl.Series(order_keys.name, order_keys.to_numpy() >> self._bits << self._bits)

    def limit(self, time_us: int) -> int:
        """Windows that end at or before a time have order keys below this, all others do not."""
        return min(max(self._grid.end_number_after(time_us), -self._most), self._most - 1) << self._bits


def earliest_open(spec: WindowSpec, time_us: int) -> tuple[int | None, int]:
    """The earliest start and the earliest end (microseconds) among the windows that end after a time. A session that
    is still open may have begun at any time, so it has no such start."""
    return (None, time_us + 1) if spec.kind == "session" else Grid(spec).earliest_open(time_us)
