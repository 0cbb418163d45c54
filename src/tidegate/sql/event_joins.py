"""Paths beside columns of other relations: `ON e.payload.customer_id = c.id` compares numbers if `c.id` is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from tidegate.core.schema import Schema
from tidegate.sql.event_values import COMPARISONS, is_path, number, own_nodes

Columns = Callable[[str], Schema | None]
"""The columns of a relation; None of what is none."""

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_BROKEN = ("float", "double", "decimal")


def beside_columns(select: exp.Select, columns: Columns) -> None:
    """Makes numbers of the paths that are compared with numeric columns."""
    types = dict(_types(select, columns))
    if not types:
        return
    for node in [each for each in own_nodes(select) if isinstance(each, COMPARISONS)]:
        for path, other in ((node.this, node.expression), (node.expression, node.this)):
            kind = _kind(other.unnest(), types)
            if is_path(path.unnest()) and kind is not None:
                path.replace(_as_type(path.unnest(), kind, exact=isinstance(node, exp.EQ)))


def _types(select: exp.Select, columns: Columns) -> Iterator[tuple[tuple[str, str], str]]:
    """The types of the columns in FROM, by relation and name, and by name alone (under no relation)."""
    for source in (select.args.get("from_"), *(select.args.get("joins") or ())):
        table = source.this if source is not None else None
        if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            for column in columns(table.name) or ():
                for qualifier in (table.alias_or_name.casefold(), ""):
                    yield (qualifier, column.name.casefold()), column.type


def _kind(tree: exp.Expr, types: Mapping[tuple[str, str], str]) -> str | None:
    """The type of a numeric column; None for anything else."""
    if not isinstance(tree, exp.Column) or is_path(tree):
        return None
    found = types.get((tree.table.casefold(), tree.name.casefold()), "")
    return found if found.startswith((*_WHOLE, *_BROKEN)) else None


def _as_type(path: exp.Expr, kind: str, exact: bool) -> exp.Expr:
    """A path as a number; to be equal to a whole number it must be one, and is of the same type."""
    if not exact or not kind.startswith(_WHOLE):
        return exp.Paren(this=number(path))
    whole = exp.EQ(this=exp.Mod(this=number(path), expression=exp.Literal.number(1)), expression=exp.Literal.number(0))
    value = exp.Cast(this=path.copy(), to=exp.DataType.build(kind))
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=whole, true=value)]))
