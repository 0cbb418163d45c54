"""The context in which a query is bound, and the result of binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from tidegate.bind.scope import Field
from tidegate.catalog import Catalog, Relation
from tidegate.core.schema import Schema
from tidegate.errors import Warning_
from tidegate.plan import Node, Project, keep


class Analyzer(Protocol):
    """Types and values as Spark computes them. Raises `tidegate.Error` without a span where Spark fails."""

    def columns(self, schema: Schema, exprs: Sequence[str]) -> Schema:
        """Names and types of Spark SQL expressions (aliased or not) over a relation with these columns."""
        ...

    def query(self, sql: str, relations: Mapping[str, Schema]) -> Schema:
        """The columns of a whole SELECT over relations with these columns."""
        ...

    def failures(self, schema: Schema, exprs: Sequence[str]) -> tuple[str | None, ...]:
        """Why each expression fails for all of a few ordinary rows; None if there is one for which it does not."""
        ...

    def literal(self, expr: str) -> object:
        """The value of an expression without columns."""
        ...


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan, and the visible columns of it. Hidden columns are parts of its key."""

    plan: Node
    fields: tuple[Field, ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        visible = {each.column for each in self.fields}
        return tuple(name for name in self.plan.columns if name not in visible)

    def visible(self) -> Node:
        """A plan with exactly the visible columns."""
        columns = tuple(each.column for each in self.fields)
        if columns == self.plan.columns:
            return self.plan
        return Project(self.plan, tuple(keep(self.plan, name) for name in columns))


@dataclass(frozen=True)
class Context:
    """The relations and named subqueries that a query can read. `dependencies` collects the relations it does read,
    `warnings` those for its author. `name` is that of the view. `lateness` (ALLOWED LATENESS, in microseconds) and
    `max_groups` apply to every windowed grouping."""

    catalog: Catalog
    analyzer: Analyzer
    view: Callable[[Relation], Bound]
    ctes: Mapping[str, tuple[exp.CTE, Context]] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    lateness: int = 0
    max_groups: int | None = None
    name: str = ""
    warnings: list[Warning_] = field(default_factory=list)

    def with_ctes(self, query: exp.Query) -> Context:
        """The context inside a query with a WITH clause: each subquery sees those before it."""
        inner = self
        clause = query.args.get("with_")
        for cte in clause.expressions if clause else ():
            inner = replace(inner, ctes={**inner.ctes, cte.alias.casefold(): (cte, inner)})
        return inner


def unique(name: str, taken: set[str]) -> str:
    """A column name that is not in `taken`, whatever the case. It is added to `taken`."""
    candidate, number = name, 1
    while candidate.casefold() in taken:
        candidate, number = f"{name}__{number}", number + 1
    taken.add(candidate.casefold())
    return candidate
