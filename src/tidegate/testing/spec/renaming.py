"""Renames the relations of a spec, so that several specs can share one database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from sqlglot import exp

from tidegate.errors import Error, Span
from tidegate.sql import name_span, parse
from tidegate.sql.statements import Name, Query, Statement
from tidegate.sql.windows import table_window, window_function
from tidegate.testing.spec import model

_DATABASE = (
    *("show ", "explain ", "as of step"),
    *("create sink", "from files", "from datagen", "set '"),
)
_SYSTEM = {"errors": ("relation", "message"), "late_rows": ("relation", "view")}
"""The system relations that specs can share, with their columns that contain names of relations."""
_SYSTEM_NAME = re.compile(r"\bsystem\.(\w+)", re.IGNORECASE)
_CLOCK = ("idle_timeout", "max_ahead", "now(", "current_timestamp", "current_date", "pgcdc_events")


def can_share(spec: model.Spec) -> bool:
    """True if a spec depends only on its own relations: it uses neither the clock, which all views share, nor a system
    relation that describes the whole database. Inputs may end only after its last step, because they end for all
    specs. A spec without steps has nothing to share."""
    runs = [item for item in spec.items if isinstance(item, model.Run)]
    if not runs or any(isinstance(run, model.Clock) for run in runs):
        return False
    if any(isinstance(run, model.End) for run in runs[:-1]):
        return False
    texts = [_text(item) + " " for item in spec.items]
    if any(word in text.lower() for word in (*_DATABASE, *_CLOCK) for text in texts):
        return False
    if any(relation.lower() not in _SYSTEM for text in texts for relation in _SYSTEM_NAME.findall(text)):
        return False
    return all(_parses(item.statement) for item in spec.items if isinstance(item, model.Rejected))


def _text(item: model.Item) -> str:
    match item:
        case model.Sql():
            return item.text
        case model.Ask():
            return item.query
        case model.Rejected() | model.Warned():
            return item.statement
        case model.Content():
            return item.relation
        case _:
            return ""


def _parses(statement: str) -> bool:
    try:
        parse(statement)
    except Error:
        return False
    return True


def ends_inputs(spec: model.Spec) -> bool:
    """True if the spec ends the inputs: it can share a database only with specs that do so as well."""
    return any(isinstance(item, model.End) for item in spec.items)


def with_prefix(spec: model.Spec, prefix: str) -> model.Spec:
    """The spec with a prefix before the name of each of its relations."""
    names = {name.lower(): prefix + name.lower() for name in _created(spec)}
    return replace(spec, items=tuple(_item(item, names, prefix) for item in spec.items), prefix=prefix)


def rename(text: str, names: Mapping[str, str]) -> str:
    """SQL with other names for relations. Only the spans of names are replaced."""
    spans = sorted({span for statement in parse(text).statements for span in _spans(statement, names)}, reverse=True)
    for span in spans:
        written = text[span.start : span.end]
        text = text[: span.start] + names[written.strip("`").lower()] + text[span.end :]
    return text


def _item(item: model.Item, names: Mapping[str, str], prefix: str) -> model.Item:
    match item:
        case model.Sql():
            return replace(item, text=rename(item.text, names))
        case model.Rejected() | model.Warned():
            return replace(item, statement=rename(item.statement, names))
        case model.Ask():
            return replace(item, query=_own_rows(rename(item.query, names), prefix))
        case model.Emits() | model.Kind():
            return replace(item, view=_name(item.view, names))
        case model.Content() | model.Late() | model.Watermark():
            return replace(item, relation=_name(item.relation, names))
        case model.Step():
            inputs = tuple(replace(each, relation=_name(each.relation, names)) for each in item.inputs)
            return replace(item, inputs=inputs)
        case _:
            return item


def _own_rows(query: str, prefix: str) -> str:
    """A query that sees only the rows of system relations that are about the spec's relations, under the names that
    the spec has for them."""

    def own(match: re.Match[str]) -> str:
        columns = _SYSTEM[match[1].lower()]
        written = ", ".join(f"replace({column}, '{prefix}', '') AS {column}" for column in columns)
        rows = f"SELECT * EXCEPT ({', '.join(columns)}), {written} FROM {match[0]}"
        return f"({rows} WHERE startswith(relation, '{prefix}')) AS {match[1]}"

    return _SYSTEM_NAME.sub(own, query)


def _name(name: str, names: Mapping[str, str]) -> str:
    return names.get(name.lower(), name)


def _created(spec: model.Spec) -> Iterator[str]:
    for item in spec.items:
        text = _text(item) if isinstance(item, (model.Sql, model.Warned)) else ""
        for statement in parse(text).statements:
            if type(statement).__name__.startswith("Create"):
                yield statement.name.text  # type: ignore[attr-defined]


def _spans(statement: Statement, names: Mapping[str, str]) -> Iterator[Span]:
    """The spans at which a statement names a relation: its own name, tables in its queries, qualifiers of columns."""
    for field in fields(statement):
        value = getattr(statement, field.name)
        if isinstance(value, Name) and field.name in ("name", "relation", "view") and value.text.lower() in names:
            yield value.span
        if isinstance(value, Query) and value.late_data_to is not None and value.late_data_to.text.lower() in names:
            yield value.late_data_to.span
        for tree in _trees(value):
            yield from _spans_in_tree(tree, names)


def _trees(value: object) -> Iterator[exp.Expr]:
    if isinstance(value, exp.Expr):
        yield value
    elif isinstance(value, Query):
        yield value.select
    elif isinstance(value, tuple):
        for item in value:
            yield from _trees(item)


def _spans_in_tree(tree: exp.Expr, names: Mapping[str, str]) -> Iterator[Span]:
    for node in tree.find_all(exp.Table, exp.Column):
        windowed = isinstance(node, exp.Table) and window_function(node.this)
        table = table_window(node)[0] if isinstance(node, exp.Table) and windowed else node
        identifier = table.this if isinstance(table, exp.Table) else table.args.get("table")
        span = name_span(identifier) if isinstance(identifier, exp.Identifier) else None
        if span is not None and identifier is not None and identifier.name.lower() in names:
            yield span
