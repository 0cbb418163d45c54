"""Tries at CREATE what does not depend on rows: a pattern, zone, charset or index that fails for every row."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidegate.bind.context import Analyzer
from tidegate.core.schema import Schema
from tidegate.errors import make
from tidegate.plan import Filter, Node, Project, Scalar, walk
from tidegate.sql import call, render, span_of

_TAKING_CONSTANTS = """
    conv convert_timezone date_format date_part datepart decode element_at encode extract format_number format_string
    from_unixtime from_utc_timestamp like printf regexp regexp_count regexp_extract regexp_extract_all regexp_instr
    regexp_like regexp_replace regexp_substr rlike sha2 split split_part to_binary to_char to_date to_number
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar unix_timestamp
"""
TAKING_CONSTANTS = frozenset(_TAKING_CONSTANTS.split())
"""Functions with an argument that is usually constant: a pattern, a zone, a charset, a format, an index."""


def check_constants(plan: Node, analyzer: Analyzer) -> None:
    """Raise INVALID_CONSTANT for a call that fails whatever the row is, because of a constant in it."""
    for node in walk(plan):
        if not isinstance(node, Project | Filter):
            continue
        calls = [each for scalar in _scalars(node) for each in _calls_with_constants(scalar.tree)]
        if not calls:
            continue
        reasons = analyzer.failures(_columns_read(calls, node.input.schema), [render(each) for each in calls])
        for each, reason in zip(calls, reasons, strict=True):
            if reason is not None:
                raise make("INVALID_CONSTANT", call=render(each).replace("`", ""), reason=reason, span=span_of(each))


def _scalars(node: Project | Filter) -> Iterator[Scalar]:
    yield from [node.condition] if isinstance(node, Filter) else (item.expression for item in node.items)


def _calls_with_constants(tree: exp.Expr) -> list[exp.Expr]:
    """The calls to try, inner ones first."""
    found = [each for child in tree.iter_expressions() for each in _calls_with_constants(child)]
    called = call(tree)
    if called is None or isinstance(tree.parent, exp.Case) or tree.find_ancestor(exp.Lambda) or tree.find(exp.Lambda):
        return found
    constant = not tree.find(exp.Column)
    partly = called.name in TAKING_CONSTANTS and any(not each.find(exp.Column) for each in called.args)
    return [*found, tree] if constant or partly else found


def _columns_read(calls: list[exp.Expr], schema: Schema) -> Schema:
    names = {column.name for each in calls for column in each.find_all(exp.Column)}
    return tuple(column for column in schema if column.name in names)
