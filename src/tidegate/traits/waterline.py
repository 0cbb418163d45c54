"""Waterlines: the columns below whose value no accepted row will come again.

A column has one when an input (or LATENESS on a view) declares it and every operator on the way keeps it. What it is
at any moment follows from the frontiers of inputs alone: a `Line` is that rule, and its name says it in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tidegate.ir.specs import WindowSpec

DAY_US = 86_400_000_000
TIMESTAMPS = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Line:
    """A value that only grows. `type` is Spark's name for the type of the column it belongs to."""

    type: str

    @property
    def name(self) -> str:
        """What it is, in words that tell it from all others."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Line, ...]:
        """The lines that it is computed from."""
        return ()

    @property
    def firm(self) -> bool:
        """Whether rows below it are refused at the door, so that nothing can ever see one."""
        return all(part.firm for part in self.parts)

    @property
    def frontiers(self) -> tuple[Frontier, ...]:
        """The frontiers of inputs that move it."""
        return tuple(each for part in self.parts for each in part.frontiers)

    def lagged(self, micros: int) -> Line | None:
        """The line as it would be if the frontiers were that much behind; None if they are not times."""
        raise NotImplementedError


@dataclass(frozen=True)
class Frontier(Line):
    """What a declaration makes of the values seen in a column. `note` is watermark, lateness or hold_back, `delay` the
    Spark SQL that is subtracted (None: nothing)."""

    relation: str
    column: str
    note: Literal["watermark", "lateness", "hold_back"]
    delay: str | None
    lag: int = 0

    @property
    def name(self) -> str:
        place = f"{self.relation}.{self.column}"
        text = place if self.note == "watermark" else f"{self.note}({place})"
        return f"{text} - {self.lag}us" if self.lag else text

    @property
    def firm(self) -> bool:
        return self.note == "lateness"

    @property
    def frontiers(self) -> tuple[Frontier, ...]:
        return (self,)

    def lagged(self, micros: int) -> Line | None:
        if micros == 0:
            return self
        return replace(self, lag=self.lag + micros) if self.type in TIMESTAMPS else None


@dataclass(frozen=True)
class Expression(Line):
    """A monotone Spark SQL expression over columns that have lines: (column, its line)."""

    sql: str
    over: tuple[tuple[str, Line], ...]

    @property
    def name(self) -> str:
        return f"{self.sql} over {', '.join(f'{column}={line.name}' for column, line in self.over)}"

    @property
    def parts(self) -> tuple[Line, ...]:
        return tuple(line for _, line in self.over)

    def lagged(self, micros: int) -> Line | None:
        moved = [(column, line.lagged(micros)) for column, line in self.over]
        found = tuple((column, line) for column, line in moved if line is not None)
        return replace(self, over=found) if len(found) == len(moved) else None


@dataclass(frozen=True)
class Extreme(Line):
    """The least or greatest of several lines. The least needs all of them, the greatest any."""

    which: Literal["min", "max"]
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        return f"{self.which}({', '.join(line.name for line in self.lines)})"

    @property
    def parts(self) -> tuple[Line, ...]:
        return self.lines

    @property
    def firm(self) -> bool:
        return (all if self.which == "min" else any)(line.firm for line in self.lines)

    def lagged(self, micros: int) -> Line | None:
        found = tuple(moved for line in self.lines if (moved := line.lagged(micros)) is not None)
        if len(found) < len(self.lines) and (self.which == "min" or not found):
            return None
        return replace(self, lines=found)


@dataclass(frozen=True)
class Opened(Line):
    """The start or end of the earliest window that is not yet over."""

    line: Line
    window: WindowSpec
    edge: Literal["start", "end"]

    @property
    def name(self) -> str:
        spec = self.window
        shape = f"{spec.kind} {spec.size.months}m{spec.size.micros}us"
        shape += f"/{spec.slide.months}m{spec.slide.micros}us" if spec.slide else ""
        return f"{self.edge} of {shape}+{spec.offset} at {self.line.name}"

    @property
    def parts(self) -> tuple[Line, ...]:
        return (self.line,)

    def lagged(self, micros: int) -> Line | None:
        moved = self.line.lagged(micros)
        return None if moved is None else replace(self, line=moved)


def seen_name(relation: str, column: str) -> str:
    """The name of the values seen in a column, which its frontiers are made of."""
    return f"{relation}.{column}"


Waterlines = tuple[tuple[str, Line], ...]
Lost = tuple[tuple[str, str], ...]
"""Columns that had a waterline below, or could have had one, with what lost it."""


def least(lines: Sequence[Line]) -> Line:
    return _extreme("min", lines)


def greatest(lines: Sequence[Line]) -> Line:
    return _extreme("max", lines)


def _extreme(which: Literal["min", "max"], lines: Sequence[Line]) -> Line:
    different = tuple(dict.fromkeys(lines))
    return different[0] if len(different) == 1 else Extreme(different[0].type, which, different)


def only(lines: Waterlines, columns: Sequence[str]) -> Waterlines:
    """Those of some columns, such as the keys of an aggregate."""
    return tuple((column, line) for column, line in lines if column in columns)


def shifted(line: Line, micros: int) -> Line | None:
    """The line lowered by exactly that much; None if its type has no such amounts."""
    if micros == 0:
        return line
    match line:
        case Extreme():
            moved = [shifted(each, micros) for each in line.lines]
            found = tuple(each for each in moved if each is not None)
            return replace(line, lines=found) if len(found) == len(moved) else None
        case Frontier() if line.type in TIMESTAMPS:
            return line.lagged(micros)
    if line.type in TIMESTAMPS or (line.type == "date" and micros % DAY_US == 0):
        amount = f"{micros // DAY_US}" if line.type == "date" else f"INTERVAL '{micros / 1_000_000:.6f}' SECOND"
        return Expression(line.type, f"`x` - {amount}", (("x", line),))
    return None


def lagged(lines: Waterlines, micros: int) -> Waterlines:
    """All of them, held back by a time; those that are no times go."""
    moved = [(column, line.lagged(micros)) for column, line in lines]
    return tuple((column, line) for column, line in moved if line is not None)


def of_union(columns: Sequence[str], sides: Sequence[Mapping[int, Line]]) -> Waterlines:
    """A column of a union has a waterline when every side has one in that place; it is the smallest of them."""
    shared = set.intersection(*(set(side) for side in sides))
    return tuple((columns[place], least([side[place] for side in sides])) for place in sorted(shared))


def of_intersection(columns: Sequence[str], sides: Sequence[Mapping[int, Line]]) -> Waterlines:
    """A row must be on every side, so any side's waterline will do; the largest holds."""
    found = {
        place: [side[place] for side in sides if place in side]
        for place in range(len(columns))
        if any(place in side for side in sides)
    }
    return tuple((columns[place], greatest(lines)) for place, lines in found.items())


def walk(lines: Sequence[Line]) -> Iterator[Line]:
    """Every line and what it is computed from, parts first, each once."""
    seen: set[Line] = set()
    for line in lines:
        for each in (*walk(line.parts), line):
            if each not in seen:
                seen.add(each)
                yield each
