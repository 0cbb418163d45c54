"""The base of all nodes of a plan, walking and rewriting, and the nodes that rows come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tidegate.catalog.relation import Relation
from tidegate.core.schema import Schema, names
from tidegate.traits import Traits, state
from tidegate.traits.watermark import DeclaredWatermark, Watermark, Watermarks, greatest


@dataclass(frozen=True)
class Node:
    """Part of a plan: immutable, and valid by construction. A node derives `schema` and `traits` when it is made, and
    raises ValueError if its parts do not fit."""

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
class Unary(Node):
    """A node over one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


class Binary(Node):
    """A node over two inputs, which are its fields `left` and `right`."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        sides: dict[str, Any] = {"left": inputs[0], "right": inputs[1]}
        return replace(self, **sides)


@dataclass(frozen=True)
class Scan(Node):
    """The rows of a source or table."""

    relation: Relation

    def __post_init__(self) -> None:
        relation = self.relation
        if relation.kind not in ("source", "table"):
            raise ValueError(f"{relation.name} is a {relation.kind}, not an input")
        append_only = relation.kind == "source" or relation.append_only
        watermarks = declared_watermarks(relation)
        stored = state.of_table(relation.primary_key) if self.stored else state.NONE
        key = relation.primary_key or None
        self._derive(relation.columns, Traits(key, append_only, watermarks, stored))

    @property
    def stored(self) -> bool:
        """True if an operator stores the rows, as for every table but an append-only bag."""
        relation = self.relation
        return relation.kind == "table" and not (relation.append_only and not relation.primary_key)


def declared_watermarks(relation: Relation) -> Watermarks:
    """The watermarks that a relation declares. A column with both WATERMARK FOR and LATENESS has the larger."""
    types = {column.name: column.type for column in relation.columns}
    declared: dict[str, list[Watermark]] = {}
    for note in relation.times:
        if note.kind in ("watermark", "lateness"):
            kind: Literal["watermark", "lateness"] = "watermark" if note.kind == "watermark" else "lateness"
            watermark = DeclaredWatermark(types[note.column], relation.name, note.column, kind, note.sql)
            declared.setdefault(note.column, []).append(watermark)
    return tuple((column, greatest(watermarks)) for column, watermarks in declared.items())


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
    """Apply a rule to every node, inputs first. Nodes that do not change stay the same objects."""
    inputs = tuple(rewrite_up(below, rule) for below in node.inputs)
    changed = any(new is not old for new, old in zip(inputs, node.inputs, strict=True))
    return rule(node.with_inputs(inputs) if changed else node)
