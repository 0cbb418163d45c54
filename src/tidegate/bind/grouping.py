"""Grouping: project keys and arguments, aggregate them, and compute the rest of the SELECT from the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from tidegate.bind.aggregates import OF_NUMBERS, BoundAggregate, bind_aggregate, contains_aggregate, is_aggregate
from tidegate.bind.context import Analyzer
from tidegate.bind.events.views import EXTRACTED
from tidegate.bind.expressions import canonical_text, typed_items, types_of
from tidegate.bind.scope import WRITTEN
from tidegate.bind.unsupported import cast, check_comparable, check_type, make_storable, unsupported
from tidegate.core.schema import Column
from tidegate.core.types import without_void
from tidegate.errors import Span, make
from tidegate.ir.specs import AggregateCall
from tidegate.ir.windows import WindowSpec
from tidegate.plan import Aggregate, Distinct, Node, Project, WindowAggregate, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of


@dataclass(frozen=True)
class Grouped:
    """An aggregated relation, and expressions that were over single rows as expressions over it."""

    plan: Node
    keys: tuple[str, ...]
    trees: tuple[exp.Expr, ...]


def check_grouped(keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]) -> None:
    """Reject aggregates in aggregates or keys, and columns that have many values in a group."""
    calls = {text: text for text in _collect_calls(trees)}
    by_text = {canonical_text(tree): name for name, tree in _named_keys(keys).items()}
    for tree in trees:
        _lift(tree, by_text, calls)


@dataclass(frozen=True)
class Windows:
    """The windows of a grouping, with the ALLOWED LATENESS (microseconds) and `max_groups` of its view."""

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
    """Aggregate `plan` by the keys, and per window. `trees` are all expressions of the SELECT above the grouping."""
    named = _named_keys(keys)
    calls = _collect_calls(trees)
    below = _Arguments(dict(named.items()))
    time = None if windows is None else below.name(column_tree(windows.spec.time), "t")
    bound = [
        (_with_casts(bind_aggregate(node), analyzer, plan), f"__a{number}")
        for number, node in enumerate(calls.values())
    ]
    used = [below.of_call(aggregate) for aggregate, _ in bound]
    columns = typed_items(analyzer, plan, list(below.columns.items()) or [("__one", exp.true())])
    by_name = {item.name: item.schema for item in columns}
    _check_keys(named, by_name, _hull(keys))
    for node, (aggregate, _), (args, _) in zip(calls.values(), bound, used, strict=True):
        _check_arguments(aggregate, [by_name[arg] for arg in args], span_of(node))
    arguments = make_storable(Project(plan, columns), _hull(trees))
    types = types_of(analyzer, plan.schema, list(calls.values()))
    aggregates = tuple(
        _aggregate_call(aggregate, out, columns_used, without_void(type.type), arguments)
        for (aggregate, out), columns_used, type in zip(bound, used, types, strict=True)
    )
    outs = {text: out for text, (_, out) in zip(calls, bound, strict=True)}
    by_text = {canonical_text(tree): name for name, tree in named.items()}
    identity = tuple(named)
    if windows is None or time is None:
        grouped = _aggregate(arguments, identity, aggregates)
    else:
        spec = replace(windows.spec, time=time)
        grouped = WindowAggregate(arguments, spec, identity, aggregates, windows.lateness, windows.max_groups)
        identity = (*identity, spec.start, spec.end)
        by_text |= {canonical_text(column_tree(edge)): edge for edge in (spec.start, spec.end)}
    return Grouped(grouped, identity, tuple(_lift(tree, by_text, outs) for tree in trees))


def _with_casts(aggregate: BoundAggregate, analyzer: Analyzer, plan: Node) -> BoundAggregate:
    """The aggregate with the casts that Spark makes: a text (NULL if it is none) and a time (its seconds) as a number
    for aggregates of numbers, and any value as a text for LISTAGG."""
    if aggregate.func not in OF_NUMBERS | {"listagg"}:
        return aggregate
    types = types_of(analyzer, plan.schema, aggregate.args)

    def converted(tree: exp.Expr, type: str) -> exp.Expr:
        if aggregate.func == "listagg":
            return tree if type in ("string", "binary") else cast(tree, "string")
        return cast(tree, "double") if type in ("string", "timestamp") else tree

    pairs = zip(aggregate.args, types, strict=True)
    return replace(aggregate, args=tuple(converted(tree, of.type) for tree, of in pairs))


def _check_keys(keys: Mapping[str, exp.Expr], columns: Mapping[str, Column], span: Span | None) -> None:
    """Reject keys that cannot be stored or compared."""
    for name, tree in keys.items():
        check_type(columns[name], span_of(tree))
    check_comparable((columns[name] for name in keys), "GROUP BY", span)


def _check_arguments(aggregate: BoundAggregate, args: Sequence[Column], span: Span | None) -> None:
    """Reject arguments of an aggregate that cannot be stored, joined, or compared where it compares them."""
    for column in args:
        check_type(column, span)
        if aggregate.func == "listagg" and column.type == "binary":
            raise unsupported(
                f"{aggregate.written.upper()}() of BINARY", span, "write BASE64(...) or HEX(...) around it"
            )
    if aggregate.compares:
        check_comparable(args, f"{aggregate.written.upper()}() of", span, "aggregate")


def _aggregate_call(
    aggregate: BoundAggregate, out: str, used: tuple[tuple[str, ...], str | None], type: str, below: Node
) -> AggregateCall:
    """The call for the kernel; `used` are the columns of its arguments and of its filter."""
    args, condition = used
    types = {column.name: column.type for column in below.schema}
    return AggregateCall(
        func=aggregate.func,
        args=args,
        arg_types=tuple(types[arg] for arg in args),
        out=out,
        type=type,
        distinct=aggregate.distinct,
        filter=condition,
        options=aggregate.options,
    )


def _hull(trees: Sequence[exp.Expr]) -> Span | None:
    spans = [span for tree in trees if (span := span_of(tree)) is not None]
    return reduce(Span.hull, spans) if spans else None


def _aggregate(below: Node, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Node:
    """One row per group; without aggregates these are the distinct keys."""
    if calls or not keys:
        return Aggregate(below, keys, calls)
    return Distinct(below if below.columns == keys else Project(below, tuple(keep(below, name) for name in keys)))


class _Arguments:
    """The columns that an aggregate needs below it: keys, arguments and filters, each expression once."""

    def __init__(self, keys: dict[str, exp.Expr]) -> None:
        self.columns = keys
        self._names = {canonical_text(tree): name for name, tree in keys.items()}

    def of_call(self, aggregate: BoundAggregate) -> tuple[tuple[str, ...], str | None]:
        """The columns of the arguments and of the filter of a call."""
        args = tuple(self.name(arg, "x") for arg in aggregate.args)
        return args, None if aggregate.filter is None else self.name(aggregate.filter, "f")

    def name(self, tree: exp.Expr, prefix: str) -> str:
        """The column that holds an expression; a plain column is itself."""
        text = canonical_text(tree)
        if text not in self._names:
            plain = tree.name if isinstance(tree, exp.Column) else None
            self._names[text] = plain if plain and plain not in self.columns else f"__{prefix}{len(self.columns)}"
            self.columns[self._names[text]] = tree.unnest()
        return self._names[text]


def _named_keys(keys: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """Column name -> expression. A plain column keeps its name, an expression gets one; each key once."""
    named: dict[str, exp.Expr] = {}
    texts: set[str] = set()
    for key in keys:
        tree = key.unnest()
        if contains_aggregate(tree):
            message = "GROUP BY cannot hold an aggregate"
            raise make("NOT_SUPPORTED", message=message, hint="aggregate in a subquery first", span=span_of(key))
        if canonical_text(tree) not in texts:
            texts.add(canonical_text(tree))
            named[tree.name if isinstance(tree, exp.Column) else f"__g{len(named)}"] = tree
    return named


def _collect_calls(trees: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The aggregate calls in expressions, each once, by their canonical text."""
    calls: dict[str, exp.Expr] = {}
    for tree in trees:
        for node in tree.walk(prune=is_aggregate):
            if is_aggregate(node):
                _reject_nested(node)
                calls.setdefault(canonical_text(node), node)
    return calls


def _reject_nested(node: exp.Expr) -> None:
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
"""Nodes that can render like a key without being one."""


def _lift(tree: exp.Expr, keys: dict[str, str], calls: dict[str, str]) -> exp.Expr:
    """The expression over the columns of the aggregate. NOT_GROUPED for a column that has many values in a group."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Paren) and is_aggregate(node.this):
            node = node.this
        if is_aggregate(node):
            return _column_at(calls[canonical_text(node)], node)
        if not isinstance(node, _NEVER_A_KEY) and (name := keys.get(canonical_text(node))):
            return _column_at(name, node)
        if isinstance(node, exp.Column):
            raise _not_grouped(node)
        return node

    return tree.transform(replace)


def _column_at(name: str, node: exp.Expr) -> exp.Column:
    tree = column_tree(name)
    span = span_of(node)
    if span is not None:
        tree.meta.update(start=span.start, end=span.end - 1)
    return tree


def _not_grouped(node: exp.Column) -> Exception:
    name = node.meta.get(WRITTEN, node.name) if node.name.startswith(EXTRACTED) else node.name
    return make("NOT_GROUPED", name=name, hint=f"add {name} to GROUP BY, or write MAX({name})", span=span_of(node))
