"""CREATE VIEW -> a bound view: its columns, its plan and what is known of its changes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.analyzer import Analyzer
from tidegate.bind.context import Bound, Context
from tidegate.bind.emit import capped, final_gate, gated, lateness_of, strategy_of
from tidegate.bind.events.paths import from_tables, windowed_bus
from tidegate.bind.events.views import over_events
from tidegate.bind.query import bind_query
from tidegate.bind.scope import Field
from tidegate.bind.source import bind_relation as bind_rows
from tidegate.bind.storable import check_type, storable
from tidegate.bind.unsupported import refused
from tidegate.catalog import Catalog, Relation, TimeNote
from tidegate.catalog.bus import BUS, DEFAULT_GROUPS
from tidegate.catalog.options import accept
from tidegate.core.schema import Column, Schema
from tidegate.errors import Span, Warning_, make
from tidegate.plan import Door, Node, Project, Rank, View, kept, walk
from tidegate.rules import rewrite
from tidegate.sql import clauses, parse, span_of
from tidegate.sql.statements import CreateSink, CreateView, Name, Query
from tidegate.sql.window_names import END, START
from tidegate.traits import kind as kinds
from tidegate.traits.waterline import Frontier, Line


@dataclass(frozen=True)
class BoundView:
    """A view that can be maintained. `bound` is the plan as written, `plan` the one that runs; its columns are
    `columns` followed by `hidden`, parts of its key that were not selected. `output` is another plan for what leaves
    it, if it has one; `late_to` the table that takes its late rows."""

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

    @property
    def append_only(self) -> bool:
        return self.left.traits.append_only

    @property
    def left(self) -> Node:
        """What queries and sinks see: the plan, or with `emit_final` what has left it."""
        return self.plan if self.output is None else self.output


@dataclass(frozen=True)
class Extras:
    """What is said of a view outside of its query: options, LATENESS, and the strategy that a sink forces on it.
    `results`: it is for the bus, and may have columns that views have not."""

    options: tuple[tuple[str, str], ...] = ()
    times: tuple[TimeNote, ...] = ()
    forced: str | None = None
    results: bool = False


NOTHING = Extras()


def bind_view(
    statement: CreateView | CreateSink, catalog: Catalog, analyzer: Analyzer, extras: Extras = NOTHING
) -> BoundView:
    """Binds CREATE VIEW, or the query of CREATE SINK ... AS SELECT."""
    query = statement.query
    if query is None:
        raise ValueError("a sink without a query has nothing to bind")
    aliases = statement.aliases if isinstance(statement, CreateView) else ()
    if isinstance(statement, CreateView):
        extras = replace(extras, options=accept(statement.options, "view"))
    return bind_definition(statement.name.text, query, aliases, catalog, analyzer, extras)


def view_entry(statement: CreateView, view: BoundView, times: tuple[TimeNote, ...] = ()) -> Relation:
    """The catalog's entry for a bound view. One over the event bus is kept whether or not it is said to be
    materialized: its results return to the bus."""
    return Relation(
        name=statement.name.text,
        kind="view",
        columns=view.columns,
        sql=statement.text,
        append_only=view.append_only,
        options=accept(statement.options, "view"),
        times=times,
        emit=view.emit,
        materialized=statement.materialized or BUS in view.dependencies,
        dependencies=view.dependencies,
        changes=view.kind,
        key=view.key,
        hidden=view.hidden,
    )


def bind_definition(
    name: str,
    query: Query,
    aliases: tuple[Name, ...],
    catalog: Catalog,
    analyzer: Analyzer,
    extras: Extras = NOTHING,
) -> BoundView:
    """A query under a name."""
    _check_step(query)
    options = dict(extras.options)
    select = over_events(query.select, lambda each: None if (found := catalog.find(each)) is None else found.columns)
    over_bus = select is not query.select
    _check_event_options(options, over_bus, query)
    context = Context(
        catalog,
        analyzer,
        lambda relation: view_rows(relation, catalog, analyzer),
        lateness=lateness_of(query),
        max_groups=int(options["max_groups"]) if "max_groups" in options else DEFAULT_GROUPS if over_bus else None,
        name=name,
    )
    bound = _named(name, bind_query(select, context), aliases, WINDOW_EDGES if extras.results else ())
    written = capped(_rooted(bound), context.max_groups)
    visible = len(bound.fields)
    strategy = strategy_of(query, written, extras.forced)
    if strategy is not None:
        written = gated(_unmarked(written, strategy.name), strategy, visible, query.span)
    written = _door(name, written, extras.times)
    plan = rewrite(written)
    _check_ranks(plan, query)
    output = _output(plan, visible, options.get("emit_final"), query)
    return BoundView(
        name=name,
        columns=plan.schema[:visible],
        hidden=plan.schema[visible:],
        bound=written,
        plan=plan,
        kind=kinds.of_emit(strategy.name if strategy else None, (output or plan).traits.append_only),
        key=plan.traits.key,
        emit=strategy.name if strategy else None,
        dependencies=tuple(context.dependencies),
        warnings=tuple(context.warnings),
        output=output,
        late_to=_late_table(query, catalog, tuple(context.dependencies)),
    )


def _check_event_options(options: dict[str, str], over_bus: bool, query: Query) -> None:
    """What is said of results that return to the bus, or of the time of events, needs a view over the bus."""
    for option in ("emit", "idle_timeout"):
        if option in options and not over_bus:
            message = f"option '{option}' is for views over {BUS}"
            raise make("INVALID_OPTION", message=message, hint="leave it out", span=query.span)


def _door(name: str, plan: Node, times: tuple[TimeNote, ...]) -> Node:
    """LATENESS on columns of the view."""
    types = {column.name: column.type for column in plan.schema}
    declared: list[tuple[str, Line]] = [
        (note.column, Frontier(types[note.column], name, note.column, "lateness", note.sql))
        for note in times
        if note.kind == "lateness" and note.column in types
    ]
    return Door(plan, name, tuple(declared)) if declared else plan


def _output(plan: Node, visible: int, option: str | None, query: Query) -> Node | None:
    """The gate of `emit_final`: a column's name or number."""
    if option is None:
        return None
    if query.emit is not None:
        message = "a view has EMIT or 'emit_final', not both"
        raise make("INVALID_OPTION", message=message, hint="leave one of them out", span=query.emit.span)
    names = plan.columns[:visible]
    if option.isdigit():
        found = names[int(option)] if int(option) < visible else None
    else:
        found = next((name for name in names if name.casefold() == option.casefold()), None)
    if found is None:
        message = f"'emit_final' = '{option}': the view has no such column"
        raise make("UNKNOWN_COLUMN", message=message, hint=f"its columns are {', '.join(names)}", span=query.span)
    return final_gate(plan, found, query.span)


def _late_table(query: Query, catalog: Catalog, read: tuple[str, ...]) -> str | None:
    """The table of LATE DATA TO: it has the columns of the one relation that the view reads."""
    if query.late_data_to is None:
        return None
    target = query.late_data_to
    table = catalog.get(target.text, target.span)
    if table.kind != "table" or table.connector is not None:
        message = f"LATE DATA TO {table.name}: it is a {table.described}, not a table that rows can be inserted into"
        raise make(
            "NOT_SUPPORTED", message=message, hint=f"CREATE TABLE {table.name} (...) without FROM", span=target.span
        )
    if len(read) != 1:
        message = f"LATE DATA TO {table.name}: the view reads {len(read)} relations, whose late rows differ"
        raise make(
            "NOT_SUPPORTED",
            message=message,
            hint="read system.late_rows, or write one view per relation",
            span=target.span,
        )
    source = catalog.readable(read[0])
    if [(c.name.casefold(), c.type) for c in source.columns] != [(c.name.casefold(), c.type) for c in table.columns]:
        expected = ", ".join(f"{c.name} {c.type.upper()}" for c in source.columns)
        message = f"LATE DATA TO {table.name}: its columns are not those of {source.name}"
        raise make("TYPE_MISMATCH", message=message, hint=f"CREATE TABLE {table.name} ({expected})", span=target.span)
    return table.name


def rebound(catalog: Catalog, analyzer: Analyzer) -> Catalog:
    """The catalog with all views bound anew: what is known of them may change with what they read. An error if a view
    can no longer be maintained, such as one that is updated by a key that is gone."""
    fresh = Catalog()
    for relation in catalog:
        statement = parse(relation.sql).statements[0] if relation.kind == "view" else None
        if isinstance(statement, CreateView):
            relation = view_entry(statement, definition(relation, catalog, analyzer), relation.times)
        fresh = fresh.create(relation)
    return fresh


WINDOW_EDGES = ("__window_start", "__window_end")
"""What results that return to the bus have beside the columns of their view: the window that they are of."""


def results_of(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> BoundView:
    """A view over the bus as its results return there: with its windows, and with the parts of its key."""
    key = (relation, catalog.upstream(relation), "results")
    found = _definitions.get(key)
    if found is None:
        statement = parse(relation.sql).statements[0]
        assert isinstance(statement, CreateView)
        query, aliases = statement.query, statement.aliases
        edges = _edges(query.select)
        if edges is not None:
            query = replace(query, select=edges)
            aliases = aliases and (*aliases, *(Name(edge, query.span) for edge in WINDOW_EDGES))
        extras = Extras(options=relation.options, times=relation.times, results=True)
        found = _definitions[key] = bind_definition(relation.name, query, aliases, catalog, analyzer, extras)
    return found


def _edges(query: exp.Query) -> exp.Query | None:
    """The query with the edges of its window selected too; None if it has none."""
    if not isinstance(query, exp.Select) or query.args.get("distinct"):
        return None
    if clauses(query).window is None and not any(windowed_bus(table) for table in from_tables(query)):
        return None
    result = query.copy()
    for edge, name in zip((START, END), WINDOW_EDGES, strict=True):
        result.append("expressions", exp.alias_(exp.column(edge), name, quoted=True))
    return result


_definitions: OrderedDict[object, BoundView] = OrderedDict()
_REMEMBERED = 1000


def definition(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> BoundView:
    """A view of the catalog, bound from its SQL. Remembered as long as nothing it reads changes."""
    key = (relation, catalog.upstream(relation))
    found = _definitions.get(key)
    if found is None:
        statement = parse(relation.sql).statements[0]
        assert isinstance(statement, CreateView | CreateSink)
        found = _definitions[key] = _bound_again(relation, statement, catalog, analyzer)
        while len(_definitions) > _REMEMBERED:
            _definitions.popitem(last=False)
    return found


def _bound_again(
    relation: Relation, statement: CreateView | CreateSink, catalog: Catalog, analyzer: Analyzer
) -> BoundView:
    extras = Extras(times=relation.times, forced=relation.emit if relation.kind == "sink" else None)
    if statement.query is None:
        return forced_view(relation.name, catalog.get(relation.dependencies[0]), extras, catalog, analyzer)
    return bind_view(statement, catalog, analyzer, extras)


def forced_view(name: str, view: Relation, extras: Extras, catalog: Catalog, analyzer: Analyzer) -> BoundView:
    """A view under another name, with the strategy that a sink forces on it."""
    statement = parse(view.sql).statements[0]
    assert isinstance(statement, CreateView)
    extras = replace(extras, options=view.options, times=view.times)
    return bind_definition(name, statement.query, statement.aliases, catalog, analyzer, extras)


def view_rows(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> Bound:
    """What a query sees of a view: a maintained one as it is, a plain one as if it were written there."""
    view = definition(relation, catalog, analyzer)
    plan: Node = View(relation.name, view.plan) if relation.materialized else view.plan
    return Bound(plan, tuple(Field(each.name, each.name, each.type, each.nullable) for each in view.columns))


def relation_rows(relation: Relation, catalog: Catalog, analyzer: Analyzer) -> Bound:
    """The rows of any relation that can be read."""
    return bind_rows(relation, Context(catalog, analyzer, lambda view: view_rows(view, catalog, analyzer)))


def _named(name: str, bound: Bound, aliases: tuple[Name, ...], reserved: tuple[str, ...] = ()) -> Bound:
    """The columns under the names of `CREATE VIEW v (a, b)`, each name once."""
    if aliases and len(aliases) != len(bound.fields):
        message = f"{name} names {len(aliases)} columns, its query has {len(bound.fields)}"
        raise make("TYPE_MISMATCH", message=message, hint="name all columns or none", span=_hull(aliases))
    names = [alias.text for alias in aliases] or [field.name for field in bound.fields]
    spans: list[Span | None] = [alias.span for alias in aliases] or [field.span for field in bound.fields]
    for place, (each, field) in enumerate(zip(names, bound.fields, strict=True)):
        if each not in reserved:
            _check_name(name, each, names[:place], spans[place])
        check_type(Column(each, field.type), spans[place])
    return Bound(bound.plan, tuple(replace(field, name=to) for field, to in zip(bound.fields, names, strict=True)))


def _check_name(view: str, column: str, before: list[str], span: Span | None) -> None:
    if column.casefold() in (other.casefold() for other in before):
        message = f"{view} would have two columns {column}"
        raise make("ALREADY_EXISTS", message=message, hint="name one of them with AS", span=span)
    if column.startswith("__"):
        message = f"column {column}: names that begin with two underscores are reserved"
        raise make("NOT_SUPPORTED", message=message, hint="name it with AS", span=span)


def _rooted(bound: Bound) -> Node:
    """The plan with the visible columns in front, under their names, and storable."""
    plan = bound.plan
    columns = [(field.column, field.name) for field in bound.fields]
    mark = plan.traits.mark
    hidden = [name for name in bound.hidden if name != mark] if plan.traits.key is not None else []
    columns += [(name, f"__k{number}") for number, name in enumerate(hidden)]
    columns += [(mark, "__m")] if mark is not None else []
    return storable(Project(plan, tuple(kept(plan, old, new) for old, new in columns)))


def _unmarked(plan: Node, strategy: str) -> Node:
    """What waits at a gate is no longer tied to what it corrects."""
    mark = plan.traits.mark
    if mark is None or strategy == "changes":
        return plan
    return Project(plan, tuple(kept(plan, name) for name in plan.columns if name != mark))


def _hull(names: tuple[Name, ...]) -> Span:
    return names[0].span.hull(names[-1].span)


def _check_step(query: Query) -> None:
    if query.as_of_step is not None:
        raise refused("AS OF STEP in a view", query.span, "query a step ad hoc: SELECT ... AS OF STEP n")


def _check_ranks(plan: Node, query: Query) -> None:
    """A rank that no filter bounds would have to be renumbered on every change."""
    unbounded = next((node for node in walk(plan) if isinstance(node, Rank)), None)
    if unbounded is None:
        return
    window = query.select.find(exp.Window)
    name = unbounded.function.upper()
    hint = f"keep the first rows: SELECT * FROM (SELECT ..., {name}() OVER (...) AS n FROM ...) WHERE n <= 10"
    detail = "every change could renumber all rows of its partition"
    raise refused(f"{name}() without a limit", span_of(window) if window else query.span, hint, detail)
