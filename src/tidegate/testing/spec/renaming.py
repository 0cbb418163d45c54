"""Gives the relations of a spec other names, so that several specs can share one database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from sqlglot import exp

from tidegate.errors import Span
from tidegate.sql import name_span, parse
from tidegate.sql.statements import Name, Query, Statement
from tidegate.sql.windows import table_window, window_function
from tidegate.testing.spec import model

ALONE = (model.Refused, model.Warned, model.Clock)
_DATABASE = (
    *("system.", "show ", "describe ", "explain ", "as of step"),
    *("create sink", "from files", "from datagen", "set '"),
)
_CLOCK = ("idle_timeout", "max_ahead", "now(", "current_timestamp", "current_date", "pgcdc_events")


def can_share(spec: model.Spec) -> bool:
    """True if a spec names only its own relations: no errors, not the database itself, and not the clock, which is one
    for all views of a pipeline. Inputs may end, which ends those of the whole pack, after the last step."""
    runs = [item for item in spec.items if isinstance(item, model.Run)]
    if any(isinstance(item, ALONE) for item in spec.items) or any(isinstance(run, model.End) for run in runs[:-1]):
        return False
    said = [item.text for item in spec.items if isinstance(item, model.Sql)]
    said += [item.query + " " for item in spec.items if isinstance(item, model.Ask)]
    said += [item.relation for item in spec.items if isinstance(item, model.Content)]
    return not any(word in text.lower() for word in (*_DATABASE, *_CLOCK) for text in said)


def ends_inputs(spec: model.Spec) -> bool:
    """True if the inputs end: a pack in which one spec does this must have only such specs."""
    return any(isinstance(item, model.End) for item in spec.items)


def with_prefix(spec: model.Spec, prefix: str) -> model.Spec:
    """The same spec with the prefix before the name of each of its relations."""
    names = {name.lower(): prefix + name.lower() for name in _created(spec)}
    return replace(spec, items=tuple(_item(item, names) for item in spec.items))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """SQL with other names for relations: what is renamed is found by its place, so nothing else changes."""
    spans = sorted({span for statement in parse(text).statements for span in _places(statement, names)}, reverse=True)
    for span in spans:
        written = text[span.start : span.end]
        text = text[: span.start] + names[written.strip("`").lower()] + text[span.end :]
    return text


def _item(item: model.Item, names: Mapping[str, str]) -> model.Item:
    match item:
        case model.Sql():
            return replace(item, text=renamed(item.text, names))
        case model.Ask():
            return replace(item, query=renamed(item.query, names))
        case model.Emits() | model.Kind():
            return replace(item, view=_name(item.view, names))
        case model.Content() | model.Late() | model.Watermark():
            return replace(item, relation=_name(item.relation, names))
        case model.Step():
            given = tuple(replace(one, relation=_name(one.relation, names)) for one in item.inputs)
            return replace(item, inputs=given)
        case _:
            return item


def _name(name: str, names: Mapping[str, str]) -> str:
    return names.get(name.lower(), name)


def _created(spec: model.Spec) -> Iterator[str]:
    for item in spec.items:
        for statement in parse(item.text).statements if isinstance(item, model.Sql) else ():
            if type(statement).__name__.startswith("Create"):
                yield statement.name.text  # type: ignore[attr-defined]


def _places(statement: Statement, names: Mapping[str, str]) -> Iterator[Span]:
    """Where a statement names a relation: its own name, tables in its queries, the part before a column's dot."""
    for field in fields(statement):
        value = getattr(statement, field.name)
        if isinstance(value, Name) and field.name in ("name", "relation", "view") and value.text.lower() in names:
            yield value.span
        if isinstance(value, Query) and value.late_data_to is not None and value.late_data_to.text.lower() in names:
            yield value.late_data_to.span
        for tree in _trees(value):
            yield from _places_in_tree(tree, names)


def _trees(value: object) -> Iterator[exp.Expr]:
    if isinstance(value, exp.Expr):
        yield value
    elif isinstance(value, Query):
        yield value.select
    elif isinstance(value, tuple):
        for one in value:
            yield from _trees(one)


def _places_in_tree(tree: exp.Expr, names: Mapping[str, str]) -> Iterator[Span]:
    for node in tree.find_all(exp.Table, exp.Column):
        windowed = isinstance(node, exp.Table) and window_function(node.this)
        table = table_window(node)[0] if isinstance(node, exp.Table) and windowed else node
        identifier = table.this if isinstance(table, exp.Table) else table.args.get("table")
        span = name_span(identifier) if isinstance(identifier, exp.Identifier) else None
        if span is not None and identifier is not None and identifier.name.lower() in names:
            yield span
