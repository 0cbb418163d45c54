"""Makes a random case with time from a seed: annotated inputs, disorder, windows, EMIT, and a clock that moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.model.random_views.case import CLOCK, END, Case, Change, Relation, Step, View
from tests.model.random_views.expressions import aggregate, condition, scalar
from tests.model.random_views.queries import Field, Item, Query, Select
from tests.model.random_views.values import random_value
from tests.model.random_views.windows import SPELLINGS, WindowSelect, random_window
from tidegate.testing.oracle.inputs import DELETE, INSERT, TOMBSTONE

TIME = "t"
WAITING = ("ON WATERMARK", "ON WINDOW CLOSE", "FINAL")
PLAIN = ("int", "bigint", "double", "string", "boolean")
BEGINNINGS = (datetime(2020, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 30, tzinfo=UTC))


@dataclass(frozen=True)
class Known:
    """What a query may read: `time` is a column with a watermark, `depth` the number of views below it."""

    fields: tuple[Field, ...]
    time: str | None
    depth: int = 0


def make_timed(seed: int, views: int, steps: int = 4) -> Case:
    """A case with so many views and steps with rows."""
    return _Maker(seed).case(views, steps)


class _Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"time {seed}")
        self.known: dict[str, Known] = {}
        self.present: dict[str, datetime] = {}

    def case(self, views: int, steps: int) -> Case:
        relations = tuple(self._relation(number) for number in range(3))
        made = tuple(self._view(number) for number in range(views))
        contents: dict[str, list[tuple[Any, ...]]] = {relation.name: [] for relation in relations}
        ran: list[Step] = []
        for _ in range(steps):
            ran.append(self._step(relations, contents))
            if self.random.random() < 0.3:
                ran.append((Change("", CLOCK, (f"+{self.random.choice((1, 4, 10, 25))}s",)),))
        if self.random.random() < 0.5:
            ran.append((Change("", END, ()),))
        return Case(self.seed, relations, made, tuple(ran))

    def _relation(self, number: int) -> Relation:
        name, letters = f"r{number}", "abc"[: self.random.randint(2, 3)]
        kind = self.random.choice(("source", "source", "source", "bag", "keyed"))
        others = [Field(f"{letter}{number}", self.random.choice(PLAIN)) for letter in letters]
        if kind == "keyed":
            others[0] = Field(others[0].name, self.random.choice(("int", "string")))
        time = Field(f"{TIME}{number}", "timestamp")
        note, extra = self._annotation(time.name, kind)
        relation = Relation(
            name,
            (*others, time),
            kind == "source",
            1 if kind == "keyed" else 0,
            notes=((len(others), note),) if note else (),
            extra=extra,
        )
        self.known[name] = Known(relation.fields, time.name)
        self.present[name] = self.random.choice(BEGINNINGS)
        return relation

    def _annotation(self, time: str, kind: str) -> tuple[str, tuple[str, ...]]:
        """WATERMARK FOR, LATENESS or both, now and then with hold-back."""
        delay = self.random.choice((0, 5, 15))
        lateness = f"LATENESS INTERVAL '{self.random.choice((0, 5, 20))}' SECOND"
        watermark = (f"WATERMARK FOR {time} AS {time} - INTERVAL '{delay}' SECOND",)
        hold = " WATERMARK INTERVAL '3' SECOND" if kind == "source" and self.random.random() < 0.1 else ""
        choice = self.random.random()
        if choice < 0.55:
            return hold.strip(), watermark
        return lateness + hold, watermark if choice > 0.9 else ()

    def _view(self, number: int) -> View:
        name = f"v{number}"
        source = self.random.choice([one for one, known in self.known.items() if known.depth < 3])
        known = self.known[source]
        choice = self.random.random()
        query: Query | WindowSelect
        if known.time is None or choice < 0.08:
            query, tail, time = self._plain(source)
        elif choice < 0.6:
            query, tail, time = self._windowed(source, known.time)
        elif choice < 0.72:
            query, tail, time = self._in_windows(source, known.time)
        elif choice < 0.85:
            query, tail, time = self._projected(source, known.time)
        else:
            query, tail, time = self._by_minute(source, known.time)
        self.known[name] = Known(query.fields, time, known.depth + 1)
        return View(name, query, True, tail)

    def _windowed(self, source: str, time: str) -> tuple[WindowSelect, tuple[str, ...], str | None]:
        fields = self.known[source].fields
        window = random_window(self.random)
        spelling = self.random.choice(SPELLINGS if window.in_spark else SPELLINGS[:3])
        if window.kind == "session" and spelling in ("from", "flink"):
            spelling = "group"
        others = tuple(field for field in fields if field.name != time and field.type in PLAIN)
        chosen = [scalar(self.random, others, "k0")] if others and self.random.random() < 0.5 else []
        keys = [key for key in chosen if not key.field.approximate and key.sql in {one.name for one in others}]
        aggregates = self._aggregates(fields)
        edges = [Item("window_start", Field("ws", "timestamp")), Item("window_end", Field("we", "timestamp"))]
        tail = self._tail(windowed=True)
        having = "COUNT(*) > 1" if self.random.random() < 0.15 else None
        where = condition(self.random, others) if others and self.random.random() < 0.35 else None
        query = WindowSelect(
            source, time, window, spelling, (*edges, *keys, *aggregates), tuple(key.sql for key in keys), where, having
        )
        lost = any("EVERY" in part for part in tail)
        return query, tail, None if lost else "we"

    def _in_windows(self, source: str, time: str) -> tuple[WindowSelect, tuple[str, ...], str | None]:
        """Every row with its window; what reads it goes by the window's end or by the row's own time."""
        fields = self.known[source].fields
        window = random_window(self.random)
        others = [field for field in fields if field.name != time and field.type in PLAIN]
        edges = [Item("window_start", Field("ws", "timestamp")), Item("window_end", Field("we", "timestamp"))]
        items = [*edges, Item(time, Field("pt", "timestamp"))]
        items += [scalar(self.random, others, "c0")] if others else []
        where = condition(self.random, others) if others and self.random.random() < 0.3 else None
        tail = self._tail(windowed=False) if self.random.random() < 0.7 else ()
        spelling = self.random.choice(SPELLINGS[:2])
        query = WindowSelect(source, time, window, spelling, tuple(items), where=where, grouped=False)
        return query, tail, "we" if window.kind == "session" else self.random.choice(("we", "pt", "pt"))

    def _aggregates(self, fields: Sequence[Field]) -> list[Item]:
        return [aggregate(self.random, fields, f"a{index}") for index in range(self.random.randint(1, 2))]

    def _projected(self, source: str, time: str) -> tuple[Query, tuple[str, ...], str | None]:
        """Rows that wait for their time, or pass."""
        fields = self.known[source].fields
        others = [field for field in fields if field.name != time]
        items = [Item(time, Field("pt", "timestamp"))]
        for index in range(self.random.randint(1, 2) if others else 0):
            items.append(scalar(self.random, others, f"c{index}"))
        items = [item for index, item in enumerate(items) if not index or item.field.type != "timestamp"]
        where = condition(self.random, fields) if self.random.random() < 0.4 else None
        tail = self._tail(windowed=False) if self.random.random() < 0.7 else ()
        return Select(source, tuple(items), where), tail, "pt"

    def _by_minute(self, source: str, time: str) -> tuple[Query, tuple[str, ...], str | None]:
        """Groups that close when time has passed their key."""
        key = Item(f"date_trunc('MINUTE', {time})", Field("m", "timestamp"))
        items = self._aggregates(self.known[source].fields)
        tail = self._tail(windowed=False, keyed=True) if self.random.random() < 0.8 else ()
        lost = any("EVERY" in part for part in tail)
        return Select(source, (key, *items), None, (key.sql,)), tail, None if lost else "m"

    def _plain(self, source: str) -> tuple[Query, tuple[str, ...], str | None]:
        """An aggregate without time, over whatever is out below."""
        fields = self.known[source].fields
        keys = [key for key in [scalar(self.random, fields, "k0")] if not key.field.approximate]
        items = (*keys, aggregate(self.random, fields, "a0"))
        tail = ("EMIT EVERY INTERVAL '10' SECOND",) if self.random.random() < 0.3 else ()
        return Select(source, items, None, tuple(key.sql for key in keys)), tail, None

    def _tail(self, windowed: bool, keyed: bool = False) -> tuple[str, ...]:
        """ALLOWED LATENESS and EMIT, or nothing at all."""
        options = [*WAITING, "CHANGES"]
        options += ["ON UPDATE", "EVERY INTERVAL '10' SECOND", "EVERY INTERVAL '3' SECOND"] if windowed or keyed else []
        emit = self.random.choice(options)
        late = f"ALLOWED LATENESS INTERVAL '{self.random.choice((5, 30))}' SECOND"
        tail = [late] if windowed and emit != "FINAL" and self.random.random() < 0.4 else []
        return (*tail, f"EMIT {emit}") if not windowed or self.random.random() < 0.85 else tuple(tail)

    def _step(self, relations: Sequence[Relation], contents: dict[str, list[tuple[Any, ...]]]) -> Step:
        changes: list[Change] = []
        for relation in self.random.sample(list(relations), self.random.randint(1, len(relations))):
            self.present[relation.name] += timedelta(seconds=self.random.choice((0, 3, 10, 20)))
            rows = contents[relation.name]
            changes += [self._change(relation, rows) for _ in range(self.random.randint(2, 7))]
        return tuple(changes)

    def _change(self, relation: Relation, rows: list[tuple[Any, ...]]) -> Change:
        """Mostly new rows, in disorder; of tables, deletes of rows that may be there."""
        choice = self.random.random()
        if not relation.source and rows and choice < 0.25:
            row = self.random.choice(rows)
            if relation.key and self.random.random() < 0.5:
                return Change(relation.name, TOMBSTONE, row[: relation.key])
            return Change(relation.name, DELETE, row)
        if rows and choice < 0.35:
            return Change(relation.name, INSERT, self.random.choice(rows))
        values = [random_value(self.random, field) for field in relation.fields[:-1]]
        rows.append((*values, self._moment(relation.name)))
        return Change(relation.name, INSERT, rows[-1])

    def _moment(self, relation: str) -> datetime | None:
        choice = self.random.random()
        if choice < 0.06:
            return None
        away = self.random.randint(-30, 12) if choice < 0.5 else self.random.randint(-4, 4)
        return self.present[relation] + timedelta(seconds=away, milliseconds=self.random.choice((0, 0, 0, 250)))
