"""Random queries as small trees: they print as SQL and know their simpler forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol


@dataclass(frozen=True)
class Field:
    """A column of a relation or query. `approximate`: its value may differ in the last digits, so nothing may depend
    on it; `wide`: it may hold the ends of its type's range, so that means of it are not exact in doubles."""

    name: str
    type: str
    approximate: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Item:
    """An expression of a SELECT with the field it gives."""

    sql: str
    field: Field


@dataclass(frozen=True)
class Select:
    """SELECT [DISTINCT] items FROM source [WHERE] [GROUP BY] [HAVING] [ORDER BY ... LIMIT ... OFFSET]."""

    source: str | Query
    items: tuple[Item, ...]
    where: str | None = None
    group: tuple[str, ...] = ()
    having: str | None = None
    distinct: bool = False
    order: tuple[str, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(item.field for item in self.items)

    def sql(self) -> str:
        words = ["SELECT DISTINCT" if self.distinct else "SELECT"]
        words.append(", ".join(f"{item.sql} AS {item.field.name}" for item in self.items))
        words.append(f"FROM {self.source if isinstance(self.source, str) else f'({self.source.sql()}) AS q'}")
        words += [f"WHERE {self.where}"] if self.where else []
        words += [f"GROUP BY {', '.join(self.group)}"] if self.group else []
        words += [f"HAVING {self.having}"] if self.having else []
        words += [f"ORDER BY {', '.join(self.order)} LIMIT {self.limit}"] if self.limit is not None else []
        words += [f"OFFSET {self.offset}"] if self.offset else []
        return " ".join(words)

    def reads(self) -> set[str]:
        return {self.source} if isinstance(self.source, str) else self.source.reads()

    def simpler(self) -> Iterator[Query]:
        if not isinstance(self.source, str):
            yield self.source
            yield from (replace(self, source=one) for one in self.source.simpler() if one.fields == self.source.fields)
        yield from (replace(self, **{part: empty}) for part, empty in EMPTY.items() if getattr(self, part) != empty)
        if len(self.items) > 1:
            for index in range(len(self.items)):
                yield replace(self, items=self.items[:index] + self.items[index + 1 :])


EMPTY: dict[str, Any] = {"where": None, "having": None, "distinct": False, "offset": 0, "limit": None}


@dataclass(frozen=True)
class SetOperation:
    """Two queries of the same types, put together by UNION, EXCEPT or INTERSECT [ALL]."""

    word: str
    left: Query
    right: Query

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields

    def sql(self) -> str:
        return f"({self.left.sql()}) {self.word} ({self.right.sql()})"

    def reads(self) -> set[str]:
        return self.left.reads() | self.right.reads()

    def simpler(self) -> Iterator[Query]:
        yield self.left
        yield self.right
        yield from (replace(self, left=one) for one in self.left.simpler() if one.fields == self.left.fields)
        yield from (replace(self, right=one) for one in self.right.simpler() if one.fields == self.right.fields)


@dataclass(frozen=True)
class First:
    """The first n rows of each partition by ROW_NUMBER, with or without their numbers."""

    source: str
    columns: tuple[Field, ...]
    partition: tuple[str, ...]
    order: tuple[str, ...]
    limit: int
    numbered: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.columns, Field(self.place, "int")) if self.numbered else self.columns

    @property
    def place(self) -> str:
        """The name of the number: another one than those of the columns, which may be numbers of another such query."""
        return "place" + "_" * sum(field.name.startswith("place") for field in self.columns)

    def sql(self) -> str:
        names = ", ".join(field.name for field in self.columns)
        partition = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        window = f"ROW_NUMBER() OVER ({partition}ORDER BY {', '.join(self.order)})"
        outer = ", ".join(field.name for field in self.fields)
        numbered = f"SELECT {names}, {window} AS {self.place} FROM {self.source}"
        return f"SELECT {outer} FROM ({numbered}) WHERE {self.place} <= {self.limit}"

    def reads(self) -> set[str]:
        return {self.source}

    def simpler(self) -> Iterator[Query]:
        if self.numbered:
            yield replace(self, numbered=False)
        if len(self.order) > 1:
            yield replace(self, order=self.order[:1])
        if self.partition:
            yield replace(self, partition=())


class Other(Protocol):
    """A query of some other form, such as a join."""

    @property
    def fields(self) -> tuple[Field, ...]: ...
    def sql(self) -> str: ...
    def reads(self) -> set[str]: ...
    def simpler(self) -> Iterator[Query]: ...


Query = Select | SetOperation | First | Other
