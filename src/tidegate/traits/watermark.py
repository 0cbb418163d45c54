"""Watermarks: for a column, the value below which no accepted row will come again.

A column has one when an input (or LATENESS on a view) declares it and every operator on the way keeps it. Its value
follows from the declarations of inputs alone: a `Watermark` is the expression that computes it, and its name is that
expression as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tidegate.ir.windows import WindowSpec

DAY_US = 86_400_000_000
TIMESTAMPS = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Watermark:
    """A value that only grows. `type` is Spark's name for the type of its column.

    `enforced`: True if an operator below lets no change of a row below the watermark pass, False if one emits such
    changes, None if that follows from its parts. It says something about the rows, not about the value: watermarks that
    differ in it alone are equal.
    """

    type: str
    enforced: bool | None = field(default=None, kw_only=True, compare=False)

    @property
    def name(self) -> str:
        """The expression as text, which identifies the watermark."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Watermark, ...]:
        """The watermarks that it is computed from."""
        return ()

    @property
    def strict(self) -> bool:
        """True if rows below it are rejected on arrival, so that no operator ever sees one."""
        return all(part.strict for part in self.parts)

    @property
    def settled(self) -> bool:
        """True if no change of a row below it arrives any more: neither an insertion nor a retraction."""
        return self._settles if self.enforced is None else self.enforced

    @property
    def _settles(self) -> bool:
        return all(part.settled for part in self.parts)

    @property
    def declarations(self) -> tuple[DeclaredWatermark, ...]:
        """The declarations at inputs that move it."""
        return tuple(each for part in self.parts for each in part.declarations)

    def lag_by(self, micros: int) -> Watermark | None:
        """The watermark as it would be if its inputs were that much behind; None if they are not times."""
        raise NotImplementedError


@dataclass(frozen=True)
class DeclaredWatermark(Watermark):
    """The largest value observed in a column less a delay. `note` is watermark, lateness or hold_back, `delay` the
    Spark SQL that is subtracted (None: nothing)."""

    relation: str
    column: str
    note: Literal["watermark", "lateness", "hold_back"]
    delay: str | None
    lag: int = 0

    @property
    def name(self) -> str:
        column = f"{self.relation}.{self.column}"
        text = column if self.note == "watermark" else f"{self.note}({column})"
        return f"{text} - {self.lag}us" if self.lag else text

    @property
    def strict(self) -> bool:
        return self.note == "lateness"

    @property
    def _settles(self) -> bool:
        return self.strict

    @property
    def declarations(self) -> tuple[DeclaredWatermark, ...]:
        return (self,)

    def lag_by(self, micros: int) -> Watermark | None:
        if micros == 0:
            return self
        return replace(self, lag=self.lag + micros) if self.type in TIMESTAMPS else None


@dataclass(frozen=True)
class Expression(Watermark):
    """A monotone Spark SQL expression over columns that have watermarks: (column, its watermark)."""

    sql: str
    over: tuple[tuple[str, Watermark], ...]

    @property
    def name(self) -> str:
        return f"{self.sql} over {', '.join(f'{column}={watermark.name}' for column, watermark in self.over)}"

    @property
    def parts(self) -> tuple[Watermark, ...]:
        return tuple(watermark for _, watermark in self.over)

    def lag_by(self, micros: int) -> Watermark | None:
        moved = [(column, watermark.lag_by(micros)) for column, watermark in self.over]
        over = tuple((column, watermark) for column, watermark in moved if watermark is not None)
        return replace(self, over=over) if len(over) == len(moved) else None


@dataclass(frozen=True)
class Extreme(Watermark):
    """The least or greatest of several watermarks. The least needs all of them, the greatest any."""

    which: Literal["min", "max"]
    watermarks: tuple[Watermark, ...]

    @property
    def name(self) -> str:
        return f"{self.which}({', '.join(watermark.name for watermark in self.watermarks)})"

    @property
    def parts(self) -> tuple[Watermark, ...]:
        return self.watermarks

    def lag_by(self, micros: int) -> Watermark | None:
        lagging = tuple(moved for watermark in self.watermarks if (moved := watermark.lag_by(micros)) is not None)
        if len(lagging) < len(self.watermarks) and (self.which == "min" or not lagging):
            return None
        return replace(self, watermarks=lagging)


@dataclass(frozen=True)
class WindowEdge(Watermark):
    """The start or end of the earliest window that is still open."""

    watermark: Watermark
    window: WindowSpec
    edge: Literal["start", "end"]

    @property
    def name(self) -> str:
        spec = self.window
        shape = f"{spec.kind} {spec.size.months}m{spec.size.micros}us"
        shape += f"/{spec.slide.months}m{spec.slide.micros}us" if spec.slide else ""
        return f"{self.edge} of {shape}+{spec.offset} at {self.watermark.name}"

    @property
    def parts(self) -> tuple[Watermark, ...]:
        return (self.watermark,)

    def lag_by(self, micros: int) -> Watermark | None:
        moved = self.watermark.lag_by(micros)
        return None if moved is None else replace(self, watermark=moved)


def observed_name(relation: str, column: str) -> str:
    """The name under which the largest value of a column is tracked."""
    return f"{relation}.{column}"


Watermarks = tuple[tuple[str, Watermark], ...]
LostWatermarks = tuple[tuple[str, str], ...]
"""Columns that had a watermark below, or could have had one, with what lost it."""


def least(watermarks: Sequence[Watermark]) -> Watermark:
    return _extreme("min", watermarks)


def greatest(watermarks: Sequence[Watermark]) -> Watermark:
    return _extreme("max", watermarks)


def _extreme(which: Literal["min", "max"], watermarks: Sequence[Watermark]) -> Watermark:
    by_value: dict[Watermark, Watermark] = {}
    for each in watermarks:
        if each not in by_value or not each.settled:
            by_value[each] = each
    different = tuple(by_value.values())
    return different[0] if len(different) == 1 else Extreme(different[0].type, which, different)


def strict_part(watermark: Watermark) -> Watermark | None:
    """The watermark below which no operator sees a row: of the greatest of several, that of the strict ones."""
    if watermark.strict or not isinstance(watermark, Extreme) or watermark.which == "min":
        return watermark if watermark.strict else None
    strict = [each for part in watermark.watermarks if (each := strict_part(part)) is not None]
    return greatest(strict) if strict else None


def only(watermarks: Watermarks, columns: Sequence[str]) -> Watermarks:
    """Those of some columns, such as the keys of an aggregate."""
    return tuple((column, watermark) for column, watermark in watermarks if column in columns)


def shift(watermark: Watermark, micros: int) -> Watermark | None:
    """The watermark lowered by exactly that much; None if its type has no such amounts."""
    if micros == 0:
        return watermark
    match watermark:
        case Extreme():
            moved = [shift(each, micros) for each in watermark.watermarks]
            known = tuple(each for each in moved if each is not None)
            return replace(watermark, watermarks=known) if len(known) == len(moved) else None
        case DeclaredWatermark() if watermark.type in TIMESTAMPS:
            return watermark.lag_by(micros)
    if watermark.type in TIMESTAMPS or (watermark.type == "date" and micros % DAY_US == 0):
        amount = f"{micros // DAY_US}" if watermark.type == "date" else f"INTERVAL '{micros / 1_000_000:.6f}' SECOND"
        return Expression(watermark.type, f"`x` - {amount}", (("x", watermark),))
    return None


def settling(watermarks: Watermarks, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of some columns below whose watermark no change arrives, in order."""
    known = dict(watermarks)
    return tuple(column for column in columns if column in known and known[column].settled)


def enforce(watermarks: Watermarks, enforced: bool = True) -> Watermarks:
    """The same watermarks, of rows among which changes below them no longer occur (or may occur)."""
    return tuple((column, replace(watermark, enforced=enforced)) for column, watermark in watermarks)


def lag_all(watermarks: Watermarks, micros: int) -> Watermarks:
    """All of them, held back by a time; those that are not times are dropped."""
    moved = [(column, watermark.lag_by(micros)) for column, watermark in watermarks]
    return tuple((column, watermark) for column, watermark in moved if watermark is not None)


def of_union(columns: Sequence[str], sides: Sequence[Mapping[int, Watermark]]) -> Watermarks:
    """A column of a set operation has a watermark if every side has one at its position: the least of them."""
    shared = set.intersection(*(set(side) for side in sides))
    return tuple((columns[position], least([side[position] for side in sides])) for position in sorted(shared))


def walk(watermarks: Sequence[Watermark]) -> Iterator[Watermark]:
    """Every watermark and what it is computed from, parts first, each once."""
    seen: set[Watermark] = set()
    for watermark in watermarks:
        for each in (*walk(watermark.parts), watermark):
            if each not in seen:
                seen.add(each)
                yield each
