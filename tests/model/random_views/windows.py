"""Random windows in every spelling, and queries that group by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.model.random_views.queries import Field, Item

SPELLINGS = ("from", "flink", "group", "spark")


@dataclass(frozen=True)
class Window:
    """`lengths` in seconds, in the order of the function's arguments."""

    kind: str
    lengths: tuple[int, ...]
    offset: int = 0

    def arguments(self) -> str:
        written = [f"INTERVAL '{length}' SECOND" for length in (*self.lengths, *([self.offset] if self.offset else []))]
        return ", ".join(written)

    def spark(self, time: str) -> str:
        """As Spark spells it: the size comes first."""
        lengths = [f"'{length} seconds'" for length in reversed(self.lengths)]
        return f"{'session_window' if self.kind == 'session' else 'window'}({time}, {', '.join(lengths)})"

    @property
    def in_spark(self) -> bool:
        return self.kind != "cumulate" and not self.offset


def random_window(random: Random) -> Window:
    kind = random.choice(("tumble", "tumble", "hop", "cumulate", "session", "session"))
    lengths = {
        "tumble": ((10,), (30,), (7,)),
        "hop": ((5, 10), (10, 30), (10, 25)),
        "cumulate": ((10, 30), (5, 10)),
        "session": ((5,), (12,)),
    }[kind]
    offset = random.choice((0, 0, 0, 3)) if kind != "session" else 0
    return Window(kind, random.choice(lengths), offset)


@dataclass(frozen=True)
class WindowSelect:
    """SELECT items FROM source GROUP BY a window and keys, or (not `grouped`) of every row with its window. Items named
    `ws` and `we` are the window's edges."""

    source: str
    time: str
    window: Window
    spelling: str
    items: tuple[Item, ...]
    keys: tuple[str, ...] = ()
    where: str | None = None
    having: str | None = None
    grouped: bool = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(item.field for item in self.items)

    def sql(self) -> str:
        call = f"{self.window.kind.upper()}"
        arguments = self.window.arguments()
        origin, group = self.source, f"{call}({self.time}, {arguments})"
        if self.spelling == "from":
            origin, group = f"{call}({self.source}, {self.time}, {arguments})", "window_start, window_end"
        elif self.spelling == "flink":
            origin = f"TABLE({call}(TABLE {self.source}, DESCRIPTOR({self.time}), {arguments}))"
            group = "window_start, window_end"
        elif self.spelling == "spark":
            group = self.window.spark(self.time)
        items = ", ".join(f"{self._edge(item.sql)} AS {item.field.name}" for item in self.items)
        words = [f"SELECT {items} FROM {origin}"]
        words += [f"WHERE {self.where}"] if self.where else []
        words += [f"GROUP BY {', '.join([group, *self.keys])}"] if self.grouped else []
        words += [f"HAVING {self.having}"] if self.having else []
        return " ".join(words)

    def _edge(self, sql: str) -> str:
        if sql not in ("window_start", "window_end") or self.spelling in ("from", "flink"):
            return sql
        edge = sql.removeprefix("window_")
        if self.spelling == "spark":
            return f"{'session_window' if self.window.kind == 'session' else 'window'}.{edge}"
        return f"{self.window.kind.upper()}_{edge.upper()}({self.time}, {self.window.arguments()})"

    def reads(self) -> set[str]:
        return {self.source}

    def simpler(self) -> Iterator[WindowSelect]:
        if self.spelling != "from":
            yield replace(self, spelling="from")
        yield from [replace(self, where=None)] if self.where else []
        yield from [replace(self, having=None)] if self.having else []
        if self.window.offset:
            yield replace(self, window=replace(self.window, offset=0))
        for index, item in enumerate(self.items):
            if len(self.items) > 1 and item.sql not in ("window_start", "window_end", *self.keys):
                yield replace(self, items=self.items[:index] + self.items[index + 1 :])
        for key in self.keys:
            items_left = tuple(item for item in self.items if item.sql != key)
            if items_left:
                yield replace(self, keys=tuple(one for one in self.keys if one != key), items=items_left)
