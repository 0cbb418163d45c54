"""What names mean inside one SELECT: the columns of its FROM, under their qualifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.bind.events.values import PATH
from tidegate.catalog.bus import EVENTS
from tidegate.core.schema import Column, Schema
from tidegate.errors import Span, did_you_mean, make, nearest
from tidegate.plan.scalar import column_tree
from tidegate.sql import render, span_of


@dataclass(frozen=True)
class Field:
    """A visible column: its name, the column of the plan that holds it, and the span where it was selected. `clock`: it
    is PROCTIME(), which only joins can read."""

    name: str
    column: str
    type: str
    nullable: bool = True
    span: Span | None = field(default=None, compare=False)
    clock: bool = False


RESERVED = "__"
WRITTEN = "written"


@dataclass(frozen=True)
class Scope:
    """The fields of FROM. `alias` is the qualifier of its one relation, None if it has none. `shadowed` are names that
    both the relation and the windows over it have: with the qualifier they would be ambiguous. `parts` are the
    relations of a join, each under its own qualifier."""

    alias: str | None
    fields: tuple[Field, ...]
    shadowed: frozenset[str] = frozenset()
    parts: tuple[Scope, ...] = ()

    @property
    def schema(self) -> Schema:
        """The visible columns as a relation."""
        return tuple(Column(each.name, each.type, each.nullable) for each in self.fields if not each.clock)

    @property
    def unseen(self) -> bool:
        """True if it was added to FROM for a subquery: `*` does not cover it, and only its qualifier resolves to it."""
        return self.alias is not None and self.alias.startswith(RESERVED)

    def find(self, name: str) -> tuple[Field, ...]:
        folded = name.casefold()
        return tuple(each for each in self.fields if each.name.casefold() == folded)

    def is_alias(self, name: str) -> bool:
        return self.alias is not None and self.alias.casefold() == name.casefold()

    def find_relation(self, qualifier: str) -> Scope | None:
        """The relation with that qualifier."""
        return next((each for each in (self, *self.parts) if each.is_alias(qualifier)), None)

    @property
    def qualifiers(self) -> str:
        """The qualifiers in FROM, for hints."""
        return ", ".join(each.alias for each in (self, *self.parts) if each.alias is not None and not each.unseen)

    def star(self, node: exp.Expr, qualifier: str | None, excluded: list[exp.Expr]) -> tuple[Field, ...]:
        """The fields that `*`, `t.*` or `* EXCEPT (...)` stands for."""
        owner = self if qualifier is None else self.find_relation(qualifier)
        if owner is None:
            named = self.qualifiers
            hint = f"FROM has {named}" if named else "the relation in FROM has no name: give it one with AS"
            raise make("UNKNOWN_RELATION", name=qualifier, span=span_of(node), hint=hint)
        dropped = {owner._get(each).name.casefold() for each in excluded}
        return tuple(each for each in owner.fields if each.name.casefold() not in dropped and not each.clock)

    def _get(self, node: exp.Expr) -> Field:
        fields = self.find(node.name)
        if not fields:
            raise unknown_column(node, node.name, self)
        return fields[0]


Fallback = Callable[[exp.Column], exp.Expr | None]


def resolve(tree: exp.Expr, scope: Scope, fallback: Fallback | None = None, clocks: bool = False) -> exp.Expr:
    """A copy in which every column is a bare column of the plan. `fallback` resolves names that FROM does not have;
    `clocks` allows columns that are PROCTIME()."""

    def replace(node: exp.Expr) -> exp.Expr:
        return _resolve_column(node, scope, fallback, clocks) if isinstance(node, exp.Column) else node

    return tree.transform(replace)


def _resolve_column(node: exp.Column, scope: Scope, fallback: Fallback | None, clocks: bool) -> exp.Expr:
    parts = node.parts
    owner = scope.find_relation(parts[0].name) if len(parts) > 1 else None
    if owner is not None and owner.find(parts[1].name):
        _check_shadowed(node, parts[1].name, owner)
        return _field_access(node, owner, parts[1], parts[2:], clocks)
    if scope.find(parts[0].name):
        return _field_access(node, scope, parts[0], parts[1:], clocks)
    other = fallback(node) if fallback else None
    if other is None:
        raise unknown_column(node, ".".join(part.name for part in parts), scope)
    return other


def _check_shadowed(node: exp.Column, name: str, scope: Scope) -> None:
    if name.casefold() in scope.shadowed:
        raise make(
            "AMBIGUOUS_COLUMN",
            message=f"{scope.alias} has a column {name}, and so have its windows",
            hint=f"write {name} for the window's; rename the other in a subquery: "
            f"(SELECT ..., {name} AS first_{name.removeprefix('window_')} FROM {scope.alias})",
            span=span_of(node),
        )


def _field_access(node: exp.Column, scope: Scope, name: exp.Expr, path: list[exp.Expr], clocks: bool) -> exp.Expr:
    """`a.b.c` of a struct column a is `a['b']['c']`: unlike `a`.`b` it can only mean a field."""
    fields = scope.find(name.name)
    owners = [part.alias for part in scope.parts if part.alias is not None and part.find(name.name)]
    if len(fields) > 1 and len(owners) > 1:
        both = " or ".join(f"{owner}.{name.name}" for owner in owners)
        raise make(
            "AMBIGUOUS_COLUMN", name=name.name, candidates=" and ".join(owners), qualified=both, span=span_of(node)
        )
    if len(fields) > 1:
        raise make(
            "AMBIGUOUS_COLUMN",
            message=f"there are {len(fields)} columns {name.name}",
            hint="give them different names with AS where they are selected",
            span=span_of(node),
        )
    if fields[0].clock and not clocks:
        raise make(
            "NOT_SUPPORTED",
            message=f"{name.name} is PROCTIME(): only the time bounds of a join can read it",
            hint="for a value, pass the time in as a column; to filter by the clock, write WHERE ts > NOW() - ...",
            span=span_of(node),
        )
    tree: exp.Expr = _with_position(column_tree(fields[0].column), node)
    for part in path:
        tree = exp.Bracket(this=tree, expressions=[exp.Literal.string(part.name)])
    return tree


def _with_position(tree: exp.Column, node: exp.Column) -> exp.Column:
    span = span_of(node)
    if span is not None:
        tree.meta.update(start=span.start, end=span.end - 1)
    tree.meta[WRITTEN] = node.meta.get(PATH) or ".".join(part.name for part in node.parts)
    return tree


def source_text(tree: exp.Expr) -> str:
    """An expression with its columns as they were written, for messages."""

    def swap(node: exp.Expr) -> exp.Expr:
        name = node.meta.get(WRITTEN) or node.meta.get(PATH)
        return exp.var(name) if isinstance(node, exp.Column) and name else node

    return render(tree.copy().transform(swap))


def unknown_column(node: exp.Expr, name: str, scope: Scope) -> Exception:
    """UNKNOWN_COLUMN with the nearest names."""
    known = [each.name for each in scope.fields]
    span = span_of(node)
    parts = node.parts if isinstance(node, exp.Column) else [node]
    first = parts[0].name
    owner = scope.find_relation(first) if len(parts) > 1 else None
    if len(parts) > 1 and owner is None:
        hint = f"FROM has {scope.alias}: write {scope.alias}.{parts[-1].name}" if scope.alias else None
        hint = f"FROM has {scope.qualifiers}" if scope.parts else hint
        hint = f"values of the payload are paths: payload.{name}" if _of_events(scope) else hint
        return make("UNKNOWN_COLUMN", message=f"there is no relation {first} for {name}", hint=hint, span=span)
    known = [each.name for each in owner.fields] if owner is not None else known
    hint = did_you_mean(parts[-1].name, known, what="columns")
    if owner is None and _of_events(scope) and not nearest(name, known):
        hint = f"values of the payload are paths: payload.{name}"
    return make("UNKNOWN_COLUMN", name=name, hint=hint, span=span)


def _of_events(scope: Scope) -> bool:
    """True if the scope has the columns of the event bus."""
    return {column.name for column in EVENTS.columns} <= {each.name for each in scope.fields}
