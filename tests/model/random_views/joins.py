"""Random joins: all kinds, further conditions, chains, subqueries, and groups over what they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.model.random_views.case import Case, Relation
from tests.model.random_views.expressions import LITERALS, condition, scalar
from tests.model.random_views.generate import Maker
from tests.model.random_views.queries import Field, Item, Query

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
TESTS = ("IN", "NOT IN", "EXISTS", "NOT EXISTS")
KEY = "int"


@dataclass(frozen=True)
class Joined:
    """SELECT items FROM left AS l {kind} right AS r ON ... [WHERE]; or, with `third`, one more relation t."""

    kind: str
    left: str
    right: str
    on: tuple[str, ...]
    items: tuple[Item, ...]
    where: str | None = None
    third: tuple[str, str, str] | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(item.field for item in self.items)

    def sql(self) -> str:
        chosen = ", ".join(f"{item.sql} AS {item.field.name}" for item in self.items)
        text = f"SELECT {chosen} FROM {self.left} AS l {self.kind} {self.right} AS r ON {' AND '.join(self.on)}"
        text += " {} {} AS t ON {}".format(*self.third) if self.third else ""
        return text + (f" WHERE {self.where}" if self.where else "")

    def reads(self) -> set[str]:
        return {self.left, self.right, *([self.third[1]] if self.third else [])}

    def simpler(self) -> Iterator[Query]:
        if self.where:
            yield replace(self, where=None)
        if self.third and not any("t." in item.sql for item in self.items):
            yield replace(self, third=None)
        for index in range(1, len(self.on)):
            yield replace(self, on=self.on[:index] + self.on[index + 1 :])
        for index in range(len(self.items) if len(self.items) > 1 else 0):
            yield replace(self, items=self.items[:index] + self.items[index + 1 :])


@dataclass(frozen=True)
class Tested:
    """SELECT items FROM left AS l WHERE l.key [NOT] IN (SELECT ...), or [NOT] EXISTS (SELECT ... WHERE ...)."""

    left: str
    right: str
    test: str
    keys: tuple[str, str]
    items: tuple[Item, ...]
    where: str | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(item.field for item in self.items)

    def sql(self) -> str:
        mine, other = self.keys
        inner = f" AND {self.where}" if self.where else ""
        if self.test.endswith("IN"):
            predicate = f"l.{mine} {self.test} (SELECT r.{other} FROM {self.right} AS r WHERE true{inner})"
        else:
            predicate = f"{self.test} (SELECT 1 FROM {self.right} AS r WHERE r.{other} = l.{mine}{inner})"
        chosen = ", ".join(f"{item.sql} AS {item.field.name}" for item in self.items)
        return f"SELECT {chosen} FROM {self.left} AS l WHERE {predicate}"

    def reads(self) -> set[str]:
        return {self.left, self.right}

    def simpler(self) -> Iterator[Query]:
        if self.where:
            yield replace(self, where=None)


def make_joined(seed: int, views: int, steps: int = 4) -> Case:
    """A case in which most views are joins."""
    return _JoinMaker(seed).case(views, steps)


class _JoinMaker(Maker):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.random = Random(f"joins {seed}")

    def _relation(self, number: int) -> Relation:
        """Every relation has a number that others have, too."""
        made = super()._relation(number)
        fields = (Field(made.fields[0].name, KEY), *made.fields[1:])
        made = replace(made, fields=fields, source=made.source and self.random.random() < 0.5)
        self.known[made.name] = fields
        return made

    def _query(self, room: int) -> Query:
        choice = self.random.random()
        names = [self._origin(room) for _ in range(3)]
        if choice < 0.5 and (join := self._joined(names)) is not None:
            return join
        if choice < 0.65 and (tested := self._tested(names)) is not None:
            return tested
        if choice < 0.8 and room > 1:
            inner = self._joined([self._origin(room - 1) for _ in range(3)])
            return self._query(room) if inner is None else self._select(inner, {"q": inner.fields})
        return super()._query(room)

    def _joined(self, names: list[str]) -> Joined | None:
        left, right = (self._qualified(name, alias) for name, alias in zip(names[:2], "lr", strict=True))
        pair = self._pair(left, right)
        if pair is None:
            return None
        kind = self.random.choice(KINDS)
        equal = self.random.choice(("=", "=", "=", "<=>"))
        on = (f"{pair[0].name} {equal} {pair[1].name}", *self._further(left, right))
        seen = left if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else left + right
        third, more = self._third(names[2], seen)
        seen = seen + more
        items = tuple(scalar(self.random, seen, f"c{index}") for index in range(self.random.randint(1, 4)))
        where = condition(self.random, seen) if self.random.random() < 0.3 else None
        return Joined(kind, names[0], names[1], on, items, where, third)

    def _third(self, name: str, seen: list[Field]) -> tuple[tuple[str, str, str] | None, list[Field]]:
        other = self._qualified(name, "t")
        pair = self._pair(seen, other)
        if pair is None or self.random.random() < 0.75:
            return None, []
        kind = self.random.choice(("JOIN", "LEFT JOIN", "LEFT ANTI JOIN"))
        return (kind, name, f"{pair[0].name} = {pair[1].name}"), [] if kind.endswith("ANTI JOIN") else other

    def _tested(self, names: list[str]) -> Tested | None:
        left, right = self.known[names[0]], self.known[names[1]]
        pair = self._pair(list(left), list(right))
        if pair is None:
            return None
        seen = self._qualified(names[0], "l")
        items = tuple(scalar(self.random, seen, f"c{index}") for index in range(self.random.randint(1, 3)))
        inner = condition(self.random, self._qualified(names[1], "r"), 0) if self.random.random() < 0.4 else None
        test = self.random.choice(TESTS)
        return Tested(names[0], names[1], test, (pair[0].name, pair[1].name), items, inner)

    def _qualified(self, name: str, alias: str) -> list[Field]:
        return [replace(field, name=f"{alias}.{field.name}") for field in self.known[name]]

    def _pair(self, left: list[Field], right: list[Field]) -> tuple[Field, Field] | None:
        """Two columns that can be equal."""
        pairs = [
            (one, other)
            for one in left
            for other in right
            if one.type == other.type and one.type in LITERALS and not one.approximate and not other.approximate
        ]
        numbers = [pair for pair in pairs if pair[0].type == KEY]
        return self.random.choice(numbers or pairs) if pairs else None

    def _further(self, left: list[Field], right: list[Field]) -> list[str]:
        """A comparison, a condition on one side, or one that cannot be split by side."""
        conditions: list[str] = []
        if self.random.random() < 0.25 and (pair := self._pair(left, right)) is not None:
            conditions.append(f"{pair[0].name} {self.random.choice(('<', '<=', '>', '<>'))} {pair[1].name}")
        if self.random.random() < 0.25:
            conditions.append(condition(self.random, self.random.choice((left, right)), 0))
        if self.random.random() < 0.15 and (pair := self._pair(left, right)) is not None:
            conditions.append(f"coalesce({pair[0].name}, {pair[1].name}) IS NOT NULL")
        return conditions
