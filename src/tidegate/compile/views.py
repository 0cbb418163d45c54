"""Views: bind -> rewrite, and their entries in the catalog."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from sqlglot import exp

from tidegate.bind.context import Analyzer, Bound, Context
from tidegate.bind.emit import final_gate
from tidegate.bind.events.views import WINDOW_EDGES, with_window_edges
from tidegate.bind.relation import sink_entry
from tidegate.bind.scope import Field
from tidegate.bind.source import bind_relation as bind_rows
from tidegate.bind.unsupported import check_comparable, check_type, unsupported
from tidegate.bind.view import NO_EXTRAS, BoundView, Extras, bind_definition
from tidegate.catalog import Catalog, Relation, TimeNote
from tidegate.catalog.bus import BUS
from tidegate.catalog.options import accept
from tidegate.circuit.lower import circuit_of
from tidegate.core.schema import Schema
from tidegate.errors import Warning_, make
from tidegate.plan import Node, Rank, View, walk
from tidegate.rules import rewrite
from tidegate.sql import span_of
from tidegate.sql.statements import CreateSink, CreateView, Name, Query
from tidegate.traits import kind as kinds


@dataclass(frozen=True)
class CompiledView:
    """A view that can be maintained. `bound` is the plan as written, `plan` the rewritten one, which runs; its columns
    are `columns` followed by `hidden`, parts of its key that were not selected. `output` is the plan of what it emits
    if that differs, `late_to` the table that receives its late rows. `over_delayed`: it reads rows of a view that
    queries of that view do not see yet."""

    name: str
    columns: Schema
    hidden: Schema
    bound: Node
    plan: Node
    kind: kinds.Kind
    key: tuple[str, ...] | None
    emit: str | None
    dependencies: tuple[str, ...]
    warnings: tuple[Warning_, ...] = ()
    output: Node | None = None
    late_to: str | None = None
    over_delayed: bool = False

    @property
    def append_only(self) -> bool:
        return self.emitted.traits.append_only

    @property
    def emitted(self) -> Node:
        """What queries and sinks read: the plan, or with `emit_final` its final rows."""
        return self.plan if self.output is None else self.output


def compile_view(
    statement: CreateView | CreateSink, catalog: Catalog, analyzer: Analyzer, extras: Extras = NO_EXTRAS
) -> CompiledView:
    """Compile CREATE VIEW, or the query of CREATE SINK ... AS SELECT."""
    query = statement.query
    if query is None:
        raise ValueError("a sink without a query has nothing to compile")
    aliases = statement.aliases if isinstance(statement, CreateView) else ()
    if isinstance(statement, CreateView):
        extras = replace(extras, options=accept(statement.options, "view"))
    return compile_query(statement.name.text, query, aliases, catalog, analyzer, extras)


def compile_query(
    name: str,
    query: Query,
    aliases: tuple[Name, ...],
    catalog: Catalog,
    analyzer: Analyzer,
    extras: Extras = NO_EXTRAS,
) -> CompiledView:
    """Bind and rewrite a query under a name."""
    bound = bind_definition(name, query, aliases, _context(catalog, analyzer), extras)
    plan = rewrite(bound.plan)
    _check_ranks(plan, query)
    _check_columns(plan, query)
    output = _final_output(plan, bound, query)
    return CompiledView(
        name=name,
        columns=plan.schema[: bound.visible],
        hidden=plan.schema[bound.visible :],
        bound=bound.plan,
        plan=plan,
        kind=kinds.of_emit(bound.emit, (output or plan).traits.append_only),
        key=plan.traits.key,
        emit=bound.emit,
        dependencies=bound.dependencies,
        warnings=bound.warnings,
        output=output,
        late_to=bound.late_to,
        over_delayed=any(catalog.get(each.name).option("emit_final") for each in walk(plan) if isinstance(each, View)),
    )


def compile_sink(statement: CreateSink, catalog: Catalog, analyzer: Analyzer) -> tuple[Relation, CompiledView | None]:
    """The entry for a sink, and the view it is over if it has a query of its own."""
    if statement.query is not None:
        view = compile_view(statement, catalog, analyzer)
        return sink_entry(statement, view.columns, view.dependencies, view.key, view.kind, view.hidden), view
    assert statement.relation is not None
    read = catalog.readable(statement.relation.text, statement.relation.span)
    return sink_entry(statement, read.columns, (read.name,), read.key, read.changes, read.hidden), None


def view_entry(statement: CreateView, view: CompiledView, times: tuple[TimeNote, ...] = ()) -> Relation:
    """The catalog's entry for a view. One over the event bus is always maintained, since its results return to the bus,
    and so is one whose rows leave by rules of its own: a query sees what has left."""
    delays = view.emit is not None or view.output is not None or view.late_to is not None or bool(times)
    maintained = statement.materialized or BUS in view.dependencies or delays or view.over_delayed
    return Relation(
        name=statement.name.text,
        kind="view",
        columns=view.columns,
        sql=statement.text,
        append_only=view.append_only,
        options=accept(statement.options, "view"),
        times=times,
        emit=view.emit,
        materialized=maintained,
        dependencies=view.dependencies,
        changes=view.kind,
        key=view.key,
        hidden=view.hidden,
    )


def recompile(catalog: Catalog, analyzer: Analyzer) -> Catalog:
    """The catalog with every view compiled again, since its traits may change with what it reads. Raises if a view can
    no longer be maintained, such as one that is updated by a key that no longer exists."""
    fresh = Catalog()
    for relation in catalog:
        if isinstance(relation.statement, CreateView):
            relation = view_entry(relation.statement, definition(relation, catalog, analyzer), relation.times)
        fresh = fresh.create(relation)
    return fresh


_CACHED = 1000
_compiled: WeakKeyDictionary[Analyzer, OrderedDict[object, CompiledView]] = WeakKeyDictionary()
"""Compiled views by the analyzer that typed them, then by everything else that they depend on."""


def definition(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> CompiledView:
    """A view or sink of the catalog, compiled from its SQL. Cached while nothing it reads changes."""
    return _compile_once("view", relation, catalog, analyzer, lambda: _from_entry(relation, catalog, analyzer))


def results_of(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> CompiledView:
    """A view over the bus as its results return there: with its window and the hidden parts of its key."""
    return _compile_once("results", relation, catalog, analyzer, lambda: _results(relation, catalog, analyzer))


def _compile_once(
    kind: str, relation: Relation, catalog: Catalog, analyzer: Analyzer, compile_it: Callable[[], CompiledView]
) -> CompiledView:
    cache = _compiled.setdefault(analyzer, OrderedDict())
    key = (kind, relation, catalog.upstream(relation), _late_table(relation, catalog))
    if key not in cache:
        cache[key] = compile_it()
        while len(cache) > _CACHED:
            cache.popitem(last=False)
    return cache[key]


def _late_table(relation: Relation, catalog: Catalog) -> Relation | None:
    """The table of LATE DATA TO, which a view names but does not read."""
    query = getattr(relation.statement, "query", None)
    target = query.late_data_to if isinstance(query, Query) else None
    return None if target is None else catalog.find(target.text)


def _from_entry(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> CompiledView:
    statement = relation.statement
    assert isinstance(statement, CreateView | CreateSink)
    extras = Extras(times=relation.times, forced=relation.emit if relation.kind == "sink" else None)
    if statement.query is None:
        return forced_view(relation.name, catalog.get(relation.dependencies[0]), extras, catalog, analyzer)
    return compile_view(statement, catalog, analyzer, extras)


def _results(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> CompiledView:
    statement = relation.statement
    assert isinstance(statement, CreateView)
    query, aliases = statement.query, statement.aliases
    select = with_window_edges(query.select)
    if select is not query.select:
        query = replace(query, select=select)
        aliases = aliases and (*aliases, *(Name(edge, query.span) for edge in WINDOW_EDGES))
    extras = Extras(options=relation.options, times=relation.times, reserved=WINDOW_EDGES)
    return compile_query(relation.name, query, aliases, catalog, analyzer, extras)


def forced_view(name: str, view: Relation, extras: Extras, catalog: Catalog, analyzer: Analyzer) -> CompiledView:
    """A view under another name, with the strategy that a sink forces on it."""
    statement = view.statement
    assert isinstance(statement, CreateView)
    extras = replace(extras, options=view.options, times=view.times)
    return compile_query(name, statement.query, statement.aliases, catalog, analyzer, extras)


def view_rows(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> Bound:
    """The rows of a view in a query: a maintained view is read, a plain one is inlined."""
    view = definition(relation, catalog, analyzer)
    plan: Node = View(relation.name, view.plan) if relation.materialized else view.plan
    return Bound(plan, tuple(Field(each.name, each.name, each.type, each.nullable) for each in view.columns))


def relation_rows(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> Bound:
    """The rows of any relation that can be read."""
    return bind_rows(relation, _context(catalog, analyzer))


def _context(catalog: Catalog, analyzer: Analyzer) -> Context:
    return Context(catalog, analyzer, lambda view: view_rows(view, catalog, analyzer))


def _final_output(plan: Node, view: BoundView, query: Query) -> Node | None:
    """The gate of `emit_final`, whose option is the name or number of a column."""
    option = view.emit_final
    if option is None:
        return None
    names = plan.columns[: view.visible]
    if option.isdigit():
        column = names[int(option)] if int(option) < view.visible else None
    else:
        column = next((name for name in names if name.casefold() == option.casefold()), None)
    if column is None:
        message = f"'emit_final' = '{option}': the view has no such column"
        raise make("UNKNOWN_COLUMN", message=message, hint=f"its columns are {', '.join(names)}", span=query.span)
    return final_gate(plan, column, query.span)


def _check_columns(plan: Node, query: Query) -> None:
    """Reject a plan in which some operator has columns that it cannot store, or hashes columns that have no hash: no
    step could run. Binding rejects what it can point at; this finds the rest."""
    for op in circuit_of("", plan, "changelog", len(plan.columns)).ops:
        for column in (*op.columns, *(column for port in op.ports for column in port.columns)):
            check_type(column, query.span)
        for port in op.ports:
            hashed = {*port.key, *(column for _, columns in port.hashes for column in columns)}
            columns = (column for column in port.columns if column.name in hashed)
            check_comparable(columns, f"{op.label} over", query.span)


def _check_ranks(plan: Node, query: Query) -> None:
    """Reject a rank that no filter bounds: every change could renumber all rows of its partition."""
    unbounded = next((node for node in walk(plan) if isinstance(node, Rank)), None)
    if unbounded is None:
        return
    window = query.select.find(exp.Window)
    name = unbounded.function.upper()
    hint = f"keep the first rows: SELECT * FROM (SELECT ..., {name}() OVER (...) AS n FROM ...) WHERE n <= 10"
    detail = "every change could renumber all rows of its partition"
    raise unsupported(f"{name}() without a limit", span_of(window) if window else query.span, hint, detail)
