"""Makes a random case from a seed: the same seed gives the same case."""

from __future__ import annotations

import string
from collections.abc import Sequence
from random import Random

from tests.model.random_views.case import Case, Change, Relation, Step, View
from tests.model.random_views.expressions import NUMBERS, TYPES, aggregate, condition, scalar
from tests.model.random_views.queries import Field, First, Item, Query, Select, SetOperation
from tests.model.random_views.values import random_value
from tidegate.testing.oracle.inputs import DELETE, INSERT, TOMBSTONE

WORDS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
DEPTH = 3


def make(seed: int, views: int, steps: int = 4) -> Case:
    """A case with so many views and steps."""
    return Maker(seed).case(views, steps)


class Maker:
    """Makes one case."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.known: dict[str, tuple[Field, ...]] = {}
        self.depth: dict[str, int] = {}

    def case(self, views: int, steps: int) -> Case:
        relations = tuple(self._relation(number) for number in range(self.random.randint(2, 4)))
        made = tuple(self._view(number) for number in range(views))
        late = frozenset(view.name for view in self._tail(made)) if self.random.random() < 0.5 else frozenset[str]()
        contents: dict[str, list[tuple[object, ...]]] = {relation.name: [] for relation in relations}
        return Case(self.seed, relations, made, tuple(self._step(relations, contents) for _ in range(steps)), late)

    def _tail(self, views: tuple[View, ...]) -> tuple[View, ...]:
        return views[-max(1, len(views) // 5) :]

    def _relation(self, number: int) -> Relation:
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(2, 4))]
        fields = [Field(f"{string.ascii_lowercase[index]}{number}", kind) for index, kind in enumerate(types)]
        wide = [Field(one.name, one.type, wide=one.type in NUMBERS and self.random.random() < 0.2) for one in fields]
        kind = self.random.choice(("source", "bag", "bag", "keyed"))
        if kind == "keyed":
            wide[0] = Field(wide[0].name, self.random.choice(("int", "string")))
        relation = Relation(f"r{number}", tuple(wide), kind == "source", 1 if kind == "keyed" else 0)
        self.known[relation.name] = relation.fields
        self.depth[relation.name] = 0
        return relation

    def _view(self, number: int) -> View:
        view = View(f"v{number}", self._query(DEPTH), self.random.random() < 0.8)
        self.known[view.name] = view.query.fields
        self.depth[view.name] = 1 + max(self.depth[name] for name in view.query.reads())
        return view

    def _origin(self, room: int) -> str:
        names = [name for name, depth in self.depth.items() if depth < room and self.known[name]]
        return self.random.choice(names)

    def _query(self, room: int) -> Query:
        choice = self.random.random()
        if choice < 0.2:
            return self._set_operation(room)
        if choice < 0.3:
            return self._first(room)
        if choice < 0.4 and room > 1:
            inner = self._select(self._origin(room - 1), self.known)
            return self._select(inner, {"q": inner.fields})
        return self._select(self._origin(room), self.known)

    def _select(self, source: str | Query, known: dict[str, tuple[Field, ...]]) -> Select:
        fields = known[source] if isinstance(source, str) else source.fields
        where = condition(self.random, fields) if self.random.random() < 0.5 else None
        if self.random.random() < 0.55:
            return self._grouped(source, fields, where)
        items = tuple(scalar(self.random, fields, f"c{index}") for index in range(self.random.randint(1, 4)))
        plain = Select(source, items, where, distinct=self._can_be_distinct(items) and self.random.random() < 0.3)
        return self._limited(plain) if self.random.random() < 0.2 else plain

    def _grouped(self, source: str | Query, fields: tuple[Field, ...], where: str | None) -> Select:
        keys = [scalar(self.random, fields, f"k{index}") for index in range(self.random.randint(0, 2))]
        keys = [key for key in keys if not key.field.approximate]
        items = [aggregate(self.random, fields, f"a{index}") for index in range(self.random.randint(1, 3))]
        having = "COUNT(*) > 1" if self.random.random() < 0.25 else None
        outputs = [key for key in keys if self.random.random() < 0.8] + items
        return Select(source, tuple(outputs), where, tuple(key.sql for key in keys), having)

    def _limited(self, select: Select) -> Select:
        order = self._order(select.fields)
        if not order or not self._can_be_distinct(select.items):
            return select
        offset = self.random.choice((0, 0, 1))
        return Select(
            select.source,
            select.items,
            select.where,
            distinct=select.distinct,
            order=order,
            limit=self.random.randint(1, 4),
            offset=offset,
        )

    def _order(self, fields: Sequence[Field]) -> tuple[str, ...]:
        known = [field.name for field in fields if not field.approximate]
        chosen = self.random.sample(known, min(len(known), self.random.randint(1, 2)))
        return tuple(
            f"{name}{self.random.choice(('', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST'))}" for name in chosen
        )

    def _can_be_distinct(self, items: Sequence[Item]) -> bool:
        return not any(item.field.approximate for item in items)

    def _first(self, room: int) -> Query:
        source = self._origin(room)
        fields = self.known[source]
        order = self._order(fields)
        if not order or any(field.approximate for field in fields):
            return self._select(source, self.known)
        names = [field.name for field in fields]
        partition = tuple(self.random.sample(names, self.random.randint(0, 1)))
        return First(source, fields, partition, order, self.random.randint(1, 3), self.random.random() < 0.5)

    def _set_operation(self, room: int) -> Query:
        left = self._select(self._origin(room), self.known)
        if not self._can_be_distinct(left.items) or left.limit is not None:
            return left
        right = self._matching(left.fields, self._origin(room))
        return SetOperation(self.random.choice(WORDS), left, right)

    def _matching(self, fields_needed: tuple[Field, ...], source: str) -> Select:
        """A query over `source` with the types of `fields_needed`; NULL where `source` has no such column."""
        fields = self.known[source]
        items = []
        for field in fields_needed:
            peers = [one for one in fields if one.type == field.type and not one.approximate]
            sql = self.random.choice(peers).name if peers else f"CAST(NULL AS {field.type.upper()})"
            items.append(Item(sql, field))
        where = condition(self.random, fields) if self.random.random() < 0.5 else None
        return Select(source, tuple(items), where)

    def _step(self, relations: Sequence[Relation], contents: dict[str, list[tuple[object, ...]]]) -> Step:
        """Rows for most relations; now and then a step without any."""
        changes: list[Change] = []
        if self.random.random() < 0.05:
            return ()
        for relation in self.random.sample(list(relations), max(1, len(relations) - self.random.randint(0, 2))):
            rows = contents[relation.name]
            changes += [self._change(relation, rows) for _ in range(self.random.randint(2, 8))]
        return tuple(changes)

    def _change(self, relation: Relation, rows: list[tuple[object, ...]]) -> Change:
        """Mostly new rows, often equal to older ones; deletes mostly of rows that may be there."""
        choice = self.random.random()
        if not relation.source and rows and choice < 0.3:
            row = self.random.choice(rows)
            if relation.key and self.random.random() < 0.5:
                return Change(relation.name, TOMBSTONE, row[: relation.key])
            return Change(relation.name, DELETE, row)
        if rows and choice < 0.45:
            return Change(relation.name, INSERT, self.random.choice(rows))
        row = tuple(random_value(self.random, field) for field in relation.fields)
        rows.append(row)
        return Change(relation.name, DELETE if not relation.source and choice > 0.98 else INSERT, row)
