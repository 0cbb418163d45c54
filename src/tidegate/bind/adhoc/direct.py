"""Ad-hoc queries that need no Spark: columns of one relation as they are, sorted and cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from tidegate.catalog import Relation
from tidegate.core.schema import names
from tidegate.ir.specs import Order

CLAUSES = {"expressions", "from_", "order", "limit", "offset"}
ORDERED_ALIKE = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double"}
    | {"string", "date", "timestamp", "timestamp_ntz"}
)
"""The types, beside decimals, that Spark and Polars order alike. Strings with a collation are not among them."""
UNKNOWN = -1


@dataclass(frozen=True)
class DirectSelect:
    """`SELECT columns FROM relation ORDER BY order LIMIT limit OFFSET offset`."""

    columns: tuple[str, ...]
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


def direct_select(tree: exp.Expr, relation: Relation, table_name: str) -> DirectSelect | None:
    """The query, if it has no expressions; None if Spark has to run it. The relation is called `table_name` in it."""
    if not isinstance(tree, exp.Select) or _used(tree) - CLAUSES or not _is_whole(tree.args["from_"].this, table_name):
        return None
    columns = _columns(tree.expressions, names(relation.columns))
    order = _order(tree.args.get("order"), relation)
    limit, offset = _number(tree.args.get("limit")), _number(tree.args.get("offset"))
    if columns is None or order is None or limit == UNKNOWN or offset == UNKNOWN:
        return None
    return DirectSelect(columns, order, limit, offset or 0)


def _used(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _is_whole(source: exp.Expr, table_name: str) -> bool:
    """True for a relation without TABLESAMPLE, PIVOT and other names for its columns."""
    if not isinstance(source, exp.Table) or _used(source) - {"this", "alias"} or source.name != table_name:
        return False
    alias = source.args.get("alias")
    return alias is None or not alias.args.get("columns")


def _columns(items: list[exp.Expr], known: tuple[str, ...]) -> tuple[str, ...] | None:
    if len(items) == 1 and isinstance(items[0], exp.Star) and not _used(items[0]):
        return known
    return _named(items, known)


def _named(items: Iterable[exp.Expr], known: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names of columns, if these are nothing but columns, in the case in which they were declared."""
    columns = tuple(item.name if isinstance(item, exp.Column) and not item.table else "" for item in items)
    return columns if set(columns) <= set(known) else None


def _order(order: exp.Expr | None, relation: Relation) -> tuple[Order, ...] | None:
    if order is None:
        return ()
    if _used(order) - {"expressions"} or not all(isinstance(each, exp.Ordered) for each in order.expressions):
        return None
    known = tuple(column.name for column in relation.columns if _is_ordered_alike(column.type))
    columns = _named([each.this for each in order.expressions], known)
    if columns is None or len(set(columns)) < len(columns):
        return None
    return tuple(
        Order(column, bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
        for column, each in zip(columns, order.expressions, strict=True)
    )


def _is_ordered_alike(type: str) -> bool:
    return type in ORDERED_ALIKE or type.startswith("decimal(")


def _number(clause: exp.Expr | None) -> int | None:
    """The number of LIMIT or OFFSET, UNKNOWN if it is not a literal."""
    if clause is None:
        return None
    value = clause.expression
    literal = isinstance(value, exp.Literal) and value.is_int and not _used(clause) - {"expression"}
    return int(value.name) if literal else UNKNOWN
