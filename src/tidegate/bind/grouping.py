"""GROUP BY, HAVING and aggregates: keys and arguments are projected, aggregated, and the rest computed from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.aggregates import bind_aggregate, contains_aggregate, is_aggregate
from tidegate.bind.context import Analyzer
from tidegate.bind.events.views import TAKEN
from tidegate.bind.scope import WRITTEN
from tidegate.bind.unsupported import check_comparable, make_storable, unsupported
from tidegate.errors import Span, make
from tidegate.ir.specs import AggregateCall
from tidegate.ir.windows import WindowSpec
from tidegate.plan import Aggregate, Distinct, Node, Project, WindowAggregate, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import call, render, span_of


@dataclass(frozen=True)
class Grouped:
    """An aggregated relation, and expressions that were over single rows as expressions over it."""

    plan: Node
    keys: tuple[str, ...]
    trees: tuple[exp.Expr, ...]


def same_text(tree: exp.Expr) -> str:
    """A text that is equal for expressions that mean the same but for the case of functions and outer parentheses."""

    def lower(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            return exp.Anonymous(this=node.this.lower(), expressions=node.expressions)
        return node

    return render(tree.unnest().transform(lower))


def check_group(clause: exp.Group) -> None:
    """Refuses several groupings at once."""
    several = [*clause.args.get("rollup", ()), *clause.args.get("cube", ()), *clause.args.get("grouping_sets", ())]
    several += [node for node in clause.expressions if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)]
    for node in several:
        words = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}.get(type(node), "GROUPING SETS")
        hint = "write one SELECT per grouping and UNION ALL them"
        raise unsupported(words, span_of(node) or span_of(clause), hint)


def check_grouped(keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]) -> None:
    """Refuses aggregates in aggregates or keys, and columns that have many values in a group."""
    calls = {text: text for text in _collect_calls(trees)}
    by_text = {same_text(tree): name for name, tree in _named_keys(keys).items()}
    for tree in trees:
        _lift(tree, by_text, calls)


@dataclass(frozen=True)
class Windows:
    """Groups are per window too: which windows, and what WindowAggregate is told besides."""

    spec: WindowSpec
    lateness: int
    max_groups: int | None


def group(
    analyzer: Analyzer,
    plan: Node,
    keys: Sequence[exp.Expr],
    trees: Sequence[exp.Expr],
    windows: Windows | None = None,
) -> Grouped:
    """Aggregates `plan` by the keys, and per window. `trees` are all expressions of the SELECT above the grouping."""
    named = _named_keys(keys)
    calls = _collect_calls(trees)
    wants = {text: bind_aggregate(node) for text, node in calls.items()}
    below = _Arguments(dict(named.items()))
    time = None if windows is None else below.name(column_tree(windows.spec.time), "t")
    specs = [
        (want, tuple(below.name(arg, "x") for arg in want.args), below.optional(want.filter, "f"))
        for want in wants.values()
    ]
    columns = typing.items(analyzer, plan, list(below.columns.items()) or [("__one", exp.true())])
    check_comparable((item.schema for item in columns if item.name in named), "GROUP BY", _hull(keys))
    arguments = make_storable(Project(plan, columns))
    types = typing.types_of(analyzer, plan.schema, list(calls.values()))
    by_name = {column.name: column.type for column in arguments.schema}
    made = tuple(
        AggregateCall(
            func=want.func,
            args=args,
            arg_types=tuple(by_name[arg] for arg in args),
            out=f"__a{number}",
            type=types[number].type,
            distinct=want.distinct,
            filter=condition,
            options=want.options,
        )
        for number, (want, args, condition) in enumerate(specs)
    )
    outs = {text: f"__a{number}" for number, text in enumerate(calls)}
    by_text = {same_text(tree): name for name, tree in named.items()}
    identity = tuple(named)
    if windows is None or time is None:
        grouped = _grouped(arguments, identity, made)
    else:
        spec = replace(windows.spec, time=time)
        grouped = WindowAggregate(arguments, spec, identity, made, windows.lateness, windows.max_groups)
        identity = (*identity, spec.start, spec.end)
        by_text |= {same_text(column_tree(edge)): edge for edge in (spec.start, spec.end)}
    return Grouped(grouped, identity, tuple(_lift(tree, by_text, outs) for tree in trees))


def _hull(trees: Sequence[exp.Expr]) -> Span | None:
    spans = [span for tree in trees if (span := span_of(tree)) is not None]
    return reduce(Span.hull, spans) if spans else None


def _grouped(below: Node, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Node:
    """Groups without aggregates are distinct keys."""
    if calls or not keys:
        return Aggregate(below, keys, calls)
    return Distinct(below if below.columns == keys else Project(below, tuple(keep(below, name) for name in keys)))


class _Arguments:
    """The columns that an aggregate needs below it: keys, arguments and filters, each expression once."""

    def __init__(self, keys: dict[str, exp.Expr]) -> None:
        self.columns = keys
        self._names = {same_text(tree): name for name, tree in keys.items()}

    def optional(self, tree: exp.Expr | None, prefix: str) -> str | None:
        return None if tree is None else self.name(tree, prefix)

    def name(self, tree: exp.Expr, prefix: str) -> str:
        """The column that holds an expression; a plain column is itself."""
        text = same_text(tree)
        if text not in self._names:
            plain = tree.name if isinstance(tree, exp.Column) else None
            self._names[text] = plain if plain and plain not in self.columns else f"__{prefix}{len(self.columns)}"
            self.columns[self._names[text]] = tree.unnest()
        return self._names[text]


def _named_keys(keys: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """Column name -> expression. A plain column keeps its name, an expression gets one; each key once."""
    found: dict[str, exp.Expr] = {}
    texts: set[str] = set()
    for key in keys:
        tree = key.unnest()
        if contains_aggregate(tree):
            message = "GROUP BY cannot hold an aggregate"
            raise make("NOT_SUPPORTED", message=message, hint="aggregate in a subquery first", span=span_of(key))
        if same_text(tree) not in texts:
            texts.add(same_text(tree))
            found[tree.name if isinstance(tree, exp.Column) else f"__g{len(found)}"] = tree
    return found


def _collect_calls(trees: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The aggregate calls in expressions, each once."""
    found: dict[str, exp.Expr] = {}
    for tree in trees:
        for node in tree.walk(prune=is_aggregate):
            if is_aggregate(node):
                _refuse_nested(node)
                found.setdefault(same_text(node), node)
    return found


def _refuse_nested(node: exp.Expr) -> None:
    inner = [each for each in node.find_all(exp.AggFunc) if each is not node and not _unwraps_to(node, each)]
    if inner:
        message = "an aggregate cannot hold another aggregate"
        raise make("NOT_SUPPORTED", message=message, hint="aggregate in a subquery first", span=span_of(inner[0]))


def _unwraps_to(node: exp.Expr, inner: exp.Expr) -> bool:
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        node = node.this
        if node is inner:
            return True
    return False


_NEVER_A_KEY = (exp.Identifier, exp.Paren, exp.Literal, exp.Ordered)
"""What may print like a key but is something around it."""


def _lift(tree: exp.Expr, keys: dict[str, str], calls: dict[str, str]) -> exp.Expr:
    """The expression over the aggregate's columns; NOT_GROUPED for a column that has many values in a group."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Paren) and is_aggregate(node.this):
            node = node.this
        if is_aggregate(node):
            return _at(calls[same_text(node)], node)
        if not isinstance(node, _NEVER_A_KEY) and (name := keys.get(same_text(node))):
            return _at(name, node)
        if isinstance(node, exp.Column):
            raise _not_grouped(node)
        return node

    return tree.transform(replace)


def _at(name: str, node: exp.Expr) -> exp.Column:
    tree = column_tree(name)
    span = span_of(node)
    if span is not None:
        tree.meta.update(start=span.start, end=span.end - 1)
    return tree


def _not_grouped(node: exp.Column) -> Exception:
    name = node.meta.get(WRITTEN, node.name) if node.name.startswith(TAKEN) else node.name
    return make("NOT_GROUPED", name=name, hint=f"add {name} to GROUP BY, or write MAX({name})", span=span_of(node))


def unsupported_in_where(tree: exp.Expr) -> None:
    """WHERE sees single rows."""
    for node in tree.walk():
        if is_aggregate(node):
            found = call(node)
            name = found.name.upper() if found else "an aggregate"
            message = f"WHERE cannot hold {name}: it is evaluated before rows are grouped"
            raise make("NOT_SUPPORTED", message=message, hint="write it in HAVING", span=span_of(node))
        if isinstance(node, exp.Window):
            message = "WHERE cannot hold OVER (...)"
            raise make("NOT_SUPPORTED", message=message, hint="write it in QUALIFY", span=span_of(node))
