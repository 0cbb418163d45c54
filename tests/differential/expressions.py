"""The few scalar expressions of a random pipeline: as SQL, as a value, and what they do to a watermark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.differential.marks import Mark, mapped

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Expression:
    """A column; shifted by seconds (`shift`); cut to the minute (`minute`); plus a number (`plus`); negated
    (`minus`)."""

    column: str
    does: str = "column"
    amount: int = 0

    @property
    def sql(self) -> str:
        match self.does:
            case "shift":
                return f"{self.column} {'-' if self.amount < 0 else '+'} {interval(abs(self.amount))}"
            case "minute":
                return f"date_trunc('minute', {self.column})"
            case "plus":
                return f"{self.column} + {self.amount}"
            case "minus":
                return f"-{self.column}"
        return self.column

    def value(self, record: Record) -> Any:
        found = record[self.column]
        return None if found is None else self._of(found)

    def mark(self, of_column: Mark) -> Mark:
        """The watermark, given that of the column: none for what is not monotone."""
        return None if self.does == "minus" else mapped(of_column, self._of)

    def bound(self, of_value: Mark) -> Mark:
        """What the column is not below if the expression is not below that; none if that is unknown."""
        match self.does:
            case "shift" | "plus":
                return mapped(of_value, lambda at: at - self.amount)
            case "minus":
                return None
        return of_value

    def _of(self, value: Any) -> Any:
        match self.does:
            case "shift" | "plus":
                return value + self.amount
            case "minute":
                return value // 60 * 60
            case "minus":
                return -value
        return value


COMPARE = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
}


@dataclass(frozen=True)
class Condition:
    """`column op constant`; or, with `now`, `column op NOW() - INTERVAL 'constant' SECOND`."""

    column: str
    op: str
    constant: int | str
    now: bool = False

    @property
    def sql(self) -> str:
        if self.now:
            return f"{self.column} {self.op} NOW() - {interval(int(self.constant))}"
        constant = f"'{self.constant}'" if isinstance(self.constant, str) else self.constant
        return f"{self.column} {self.op} {constant}"

    def holds(self, record: Record, clock: int) -> bool:
        value = record[self.column]
        bound = clock - int(self.constant) if self.now else self.constant
        return value is not None and COMPARE[self.op](value, bound)


def interval(seconds: int) -> str:
    return f"INTERVAL '{seconds}' SECOND"
