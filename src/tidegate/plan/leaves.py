"""What all nodes of a plan have in common, how plans are walked, and the nodes that rows come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from tidegate.catalog.relation import Relation
from tidegate.core.schema import Schema, names
from tidegate.traits import Traits, state
from tidegate.traits.watermark import DeclaredWatermark, Watermark, Watermarks, greatest


@dataclass(frozen=True)
class Node:
    """Part of a plan. `schema` and `traits` follow from the rest."""

    schema: Schema = field(init=False, repr=False, compare=False)
    traits: Traits = field(init=False, repr=False, compare=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        return names(self.schema)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The same operation over other inputs."""
        return self

    def _derive(self, schema: Schema, traits: Traits) -> None:
        doubled = {name for name in names(schema) if names(schema).count(name) > 1}
        if doubled:
            raise ValueError(f"{type(self).__name__} has two columns named {sorted(doubled)}")
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "traits", traits)

    def _require(self, columns: tuple[str, ...] | frozenset[str], below: Node) -> None:
        missing = set(columns) - set(below.columns)
        if missing:
            raise ValueError(f"{type(self).__name__} needs {sorted(missing)}, its input has {list(below.columns)}")


@dataclass(frozen=True)
class Scan(Node):
    """The rows of a source or table."""

    relation: Relation

    def __post_init__(self) -> None:
        relation = self.relation
        if relation.kind not in ("source", "table"):
            raise ValueError(f"{relation.name} is a {relation.kind}, not an input")
        append_only = relation.kind == "source" or relation.append_only
        lines = declared_watermarks(relation)
        stored = state.of_table(relation.primary_key) if self.stored else state.NONE
        key = relation.primary_key or None
        self._derive(relation.columns, Traits(key, append_only, lines, stored))

    @property
    def stored(self) -> bool:
        """True if rows pass an operator that keeps them: a table does, unless it is an append-only bag."""
        relation = self.relation
        return relation.kind == "table" and not (relation.append_only and not relation.primary_key)


def declared_watermarks(relation: Relation) -> Watermarks:
    """The watermarks that a relation declares. A column with both WATERMARK FOR and LATENESS has the larger."""
    types = {column.name: column.type for column in relation.columns}
    found: dict[str, list[Watermark]] = {}
    for note in relation.times:
        if note.kind in ("watermark", "lateness"):
            kind: Literal["watermark", "lateness"] = "watermark" if note.kind == "watermark" else "lateness"
            line = DeclaredWatermark(types[note.column], relation.name, note.column, kind, note.sql)
            found.setdefault(note.column, []).append(line)
    return tuple((column, greatest(lines)) for column, lines in found.items())


@dataclass(frozen=True)
class View(Node):
    """The content of a maintained view. Rules do not look inside, so that its operators are shared as they are."""

    name: str
    plan: Node

    def __post_init__(self) -> None:
        self._derive(self.plan.schema, replace(self.plan.traits, state=state.NONE))


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for below in node.inputs:
        yield from walk(below)


def rewrite_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Applies a rule to every node, inputs first. Nodes that do not change stay the same objects."""
    inputs = tuple(rewrite_up(below, rule) for below in node.inputs)
    changed = any(new is not old for new, old in zip(inputs, node.inputs, strict=True))
    return rule(node.with_inputs(inputs) if changed else node)
