"""The query of a view -> its plan as written, with EMIT, LATENESS and options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.bind.context import Bound, Context
from tidegate.bind.emit import add_gate, cap_groups, lateness_of, strategy_of, waits_unasked
from tidegate.bind.events.views import over_events, paths_in_errors
from tidegate.bind.query import bind_query
from tidegate.bind.unsupported import check_type, make_storable, unsupported
from tidegate.catalog import Catalog, TimeNote
from tidegate.catalog.bus import BUS, DEFAULT_GROUPS
from tidegate.core.schema import Column
from tidegate.errors import Span, Warning_, make, warning
from tidegate.plan import IngressCheck, Node, Project, keep
from tidegate.sql.statements import Name, Query
from tidegate.traits.watermark import DeclaredWatermark, Watermark


@dataclass(frozen=True)
class Extras:
    """The settings of a view besides its query: options, LATENESS, and the strategy that a sink forces on it.
    `reserved` are reserved names that its columns may have."""

    options: tuple[tuple[str, str], ...] = ()
    times: tuple[TimeNote, ...] = ()
    forced: str | None = None
    reserved: tuple[str, ...] = ()


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class BoundView:
    """A view's plan as written, with the gate of its EMIT. The first `visible` columns are those of the view, the
    others parts of its key that were not selected. `emit_final` is that option, `late_to` the table of its late
    rows."""

    plan: Node
    visible: int
    emit: str | None
    emit_final: str | None
    dependencies: tuple[str, ...]
    warnings: tuple[Warning_, ...]
    late_to: str | None


def bind_definition(
    name: str, query: Query, aliases: tuple[Name, ...], context: Context, extras: Extras = NO_EXTRAS
) -> BoundView:
    """Bind a query under a name."""
    _check_step(query)
    options, catalog = dict(extras.options), context.catalog
    # Binding moves subtrees into trees of its own, and what was parsed is shared.
    tree = query.select.copy()
    select = over_events(tree, lambda each: None if (relation := catalog.find(each)) is None else relation.columns)
    over_bus = select is not tree
    _check_options(options, over_bus, query)
    context = replace(
        context,
        lateness=lateness_of(query),
        max_groups=int(options["max_groups"]) if "max_groups" in options else DEFAULT_GROUPS if over_bus else None,
        name=name,
    )
    with paths_in_errors(select):
        bound = _name_columns(name, bind_query(select, context), aliases, extras.reserved)
    plan = cap_groups(_root(bound, query.span), context.max_groups)
    visible = len(bound.fields)
    strategy = strategy_of(query, plan, extras.forced)
    if extras.forced is None and waits_unasked(query, plan, strategy):
        context.warnings.append(warning("ROWS_WAIT", name=name, span=query.span))
    if strategy is not None:
        plan = add_gate(_drop_mark(plan, strategy.name), strategy, visible, query.span)
    dependencies = tuple(context.dependencies)
    return BoundView(
        plan=_add_ingress_check(name, plan, extras.times),
        visible=visible,
        emit=strategy.name if strategy else None,
        emit_final=options.get("emit_final"),
        dependencies=dependencies,
        warnings=tuple(context.warnings),
        late_to=_late_table(query, catalog, dependencies),
    )


def _check_options(options: dict[str, str], over_bus: bool, query: Query) -> None:
    """Reject options of results and of event time if the view is not over the bus."""
    for option in ("emit", "idle_timeout"):
        if option in options and not over_bus:
            message = f"option '{option}' is for views over {BUS}"
            raise make("INVALID_OPTION", message=message, hint="leave it out", span=query.span)
    if "emit_final" in options and query.emit is not None:
        message = "a view has EMIT or 'emit_final', not both"
        raise make("INVALID_OPTION", message=message, hint="leave one of them out", span=query.emit.span)


def _add_ingress_check(name: str, plan: Node, times: tuple[TimeNote, ...]) -> Node:
    """The plan with the ingress check of LATENESS on columns of the view."""
    types = {column.name: column.type for column in plan.schema}
    declared: list[tuple[str, Watermark]] = [
        (note.column, DeclaredWatermark(types[note.column], name, note.column, "lateness", note.sql))
        for note in times
        if note.kind == "lateness" and note.column in types
    ]
    return IngressCheck(plan, name, tuple(declared)) if declared else plan


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


def _name_columns(name: str, bound: Bound, aliases: tuple[Name, ...], reserved: tuple[str, ...] = ()) -> Bound:
    """Rename the columns as in `CREATE VIEW v (a, b)`, and check that names are unique."""
    if aliases and len(aliases) != len(bound.fields):
        message = f"{name} names {len(aliases)} columns, its query has {len(bound.fields)}"
        raise make("TYPE_MISMATCH", message=message, hint="name all columns or none", span=_hull(aliases))
    names = [alias.text for alias in aliases] or [field.name for field in bound.fields]
    spans: list[Span | None] = [alias.span for alias in aliases] or [field.span for field in bound.fields]
    for number, (each, field) in enumerate(zip(names, bound.fields, strict=True)):
        if each not in reserved:
            _check_name(name, each, names[:number], spans[number])
        check_type(Column(each, field.type), spans[number])
    return Bound(bound.plan, tuple(replace(field, name=to) for field, to in zip(bound.fields, names, strict=True)))


def _check_name(view: str, column: str, before: list[str], span: Span | None) -> None:
    if column.casefold() in (other.casefold() for other in before):
        message = f"{view} would have two columns {column}"
        raise make("ALREADY_EXISTS", message=message, hint="name one of them with AS", span=span)
    if column.startswith("__"):
        message = f"column {column}: names that begin with two underscores are reserved"
        raise make("NOT_SUPPORTED", message=message, hint="name it with AS", span=span)


def _root(bound: Bound, span: Span) -> Node:
    """The plan with the visible columns first, under their names, and with types that can be stored."""
    plan = bound.plan
    columns = [(field.column, field.name) for field in bound.fields]
    mark = plan.traits.mark
    hidden = [name for name in bound.hidden if name != mark] if plan.traits.key is not None else []
    columns += [(name, f"__k{number}") for number, name in enumerate(hidden)]
    columns += [(mark, "__m")] if mark is not None else []
    return make_storable(Project(plan, tuple(keep(plan, old, new) for old, new in columns)), span)


def _drop_mark(plan: Node, strategy: str) -> Node:
    """Drop the mark of corrections below a gate, which emits other rows."""
    mark = plan.traits.mark
    if mark is None or strategy == "changes":
        return plan
    return Project(plan, tuple(keep(plan, name) for name in plan.columns if name != mark))


def _hull(names: tuple[Name, ...]) -> Span:
    return names[0].span.hull(names[-1].span)


def _check_step(query: Query) -> None:
    if query.as_of_step is not None:
        raise unsupported("AS OF STEP in a view", query.span, "query a step ad hoc: SELECT ... AS OF STEP n")
