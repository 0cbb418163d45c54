"""What names mean inside one SELECT: the columns of its FROM, under their qualifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.catalog.schema import Column, Schema
from tidegate.errors import Span, did_you_mean, make
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of


@dataclass(frozen=True)
class Field:
    """A visible column: its name, the column of the plan that holds it, and where it was selected."""

    name: str
    column: str
    type: str
    nullable: bool = True
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Scope:
    """The fields of one relation in FROM. `alias` is its qualifier, None if it has none. `shadowed` are names that the
    relation has and that windows over it have too: with its qualifier they could be either."""

    alias: str | None
    fields: tuple[Field, ...]
    shadowed: frozenset[str] = frozenset()

    @property
    def schema(self) -> Schema:
        """The visible columns as a relation."""
        return tuple(Column(each.name, each.type, each.nullable) for each in self.fields)

    def find(self, name: str) -> tuple[Field, ...]:
        folded = name.casefold()
        return tuple(each for each in self.fields if each.name.casefold() == folded)

    def is_alias(self, name: str) -> bool:
        return self.alias is not None and self.alias.casefold() == name.casefold()

    def star(self, node: exp.Expr, qualifier: str | None, excluded: list[exp.Expr]) -> tuple[Field, ...]:
        """The fields that `*`, `t.*` or `* EXCEPT (...)` stands for."""
        if qualifier is not None and not self.is_alias(qualifier):
            hint = f"FROM has {self.alias}" if self.alias else "the relation in FROM has no name: give it one with AS"
            raise make("UNKNOWN_RELATION", name=qualifier, span=span_of(node), hint=hint)
        gone = {self._known(each).name.casefold() for each in excluded}
        return tuple(each for each in self.fields if each.name.casefold() not in gone)

    def _known(self, node: exp.Expr) -> Field:
        found = self.find(node.name)
        if not found:
            raise unknown_column(node, node.name, self)
        return found[0]


Fallback = Callable[[exp.Column], exp.Expr | None]


def resolve(tree: exp.Expr, scope: Scope, fallback: Fallback | None = None) -> exp.Expr:
    """A copy in which every column is a bare column of the plan. `fallback` knows names that FROM does not have."""

    def replace(node: exp.Expr) -> exp.Expr:
        return _resolve_column(node, scope, fallback) if isinstance(node, exp.Column) else node

    return tree.transform(replace)


def _resolve_column(node: exp.Column, scope: Scope, fallback: Fallback | None) -> exp.Expr:
    parts = node.parts
    if len(parts) > 1 and scope.is_alias(parts[0].name) and scope.find(parts[1].name):
        _check_shadowed(node, parts[1].name, scope)
        return _field_access(node, scope, parts[1], parts[2:])
    if scope.find(parts[0].name):
        return _field_access(node, scope, parts[0], parts[1:])
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


def _field_access(node: exp.Column, scope: Scope, name: exp.Expr, rest: list[exp.Expr]) -> exp.Expr:
    """`a.b.c` of a struct column a is `a['b']['c']`: unlike `a`.`b` it can only mean a field."""
    found = scope.find(name.name)
    if len(found) > 1:
        raise make(
            "AMBIGUOUS_COLUMN",
            message=f"there are {len(found)} columns {name.name}",
            hint="give them different names with AS where they are selected",
            span=span_of(node),
        )
    tree: exp.Expr = _placed(column_tree(found[0].column), node)
    for part in rest:
        tree = exp.Bracket(this=tree, expressions=[exp.Literal.string(part.name)])
    return tree


def _placed(tree: exp.Column, node: exp.Column) -> exp.Column:
    span = span_of(node)
    if span is not None:
        tree.meta.update(start=span.start, end=span.end - 1)
    return tree


def unknown_column(node: exp.Expr, name: str, scope: Scope) -> Exception:
    """UNKNOWN_COLUMN with the nearest names."""
    known = [each.name for each in scope.fields]
    span = span_of(node)
    parts = node.parts if isinstance(node, exp.Column) else [node]
    first = parts[0].name
    if len(parts) > 1 and not scope.is_alias(first):
        hint = f"FROM has {scope.alias}: write {scope.alias}.{parts[-1].name}" if scope.alias else None
        return make("UNKNOWN_COLUMN", message=f"there is no relation {first} for {name}", hint=hint, span=span)
    return make("UNKNOWN_COLUMN", name=name, hint=did_you_mean(parts[-1].name, known, what="columns"), span=span)
