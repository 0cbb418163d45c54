"""Helpers that build plans from SQL expressions over plain columns, without Spark."""

from __future__ import annotations

from tidegate.catalog import Column, Relation, TimeNote
from tidegate.ir.specs import AggregateCall, Order
from tidegate.plan import Aggregate, Filter, Item, Node, Project, Rank, Scalar, Scan
from tidegate.plan.explain import explain_plan
from tidegate.plan.scalar import column_tree
from tidegate.sql import parse
from tidegate.sql.statements import Select

BIDS = Relation(
    name="bids",
    kind="source",
    columns=(Column("item", "string"), Column("price", "bigint"), Column("ts", "timestamp")),
    sql="",
    append_only=True,
    times=(TimeNote("ts", "watermark"),),
)
USERS = Relation(
    name="users",
    kind="table",
    columns=(Column("id", "int", False), Column("name", "string")),
    sql="",
    primary_key=("id",),
)


def scan(relation: Relation = BIDS) -> Scan:
    return Scan(relation)


def scalar(sql: str) -> Scalar:
    """An expression whose names are columns."""
    statement = parse(f"SELECT {sql}").statements[0]
    assert isinstance(statement, Select)
    tree = statement.query.select.expressions[0]
    return Scalar(tree.transform(lambda node: column_tree(node.name) if node.key == "column" else node))


def project(below: Node, **items: str) -> Project:
    """A projection; a plain column keeps its type, any other expression is a BIGINT."""
    types = {column.name: column.type for column in below.schema}
    return Project(below, tuple(Item(name, scalar(sql), types.get(sql, "bigint")) for name, sql in items.items()))


def where(below: Node, sql: str) -> Filter:
    return Filter(below, scalar(sql))


def total(below: Node, key: str = "item", value: str = "price") -> Aggregate:
    """SUM and MAX of a value by a key."""
    calls = tuple(
        AggregateCall(func, (value,), ("bigint",), out, "bigint") for func, out in (("sum", "s"), ("max", "m"))
    )
    return Aggregate(below, (key,) if key else (), calls)


def rank(below: Node, partition: str = "item", order: str = "price") -> Rank:
    return Rank(below, (partition,), (Order(order, True, False),), "row_number", "n")


def shape(plan: Node) -> str:
    """EXPLAIN without traits."""
    return "\n".join(line.split("  [")[0] for line in explain_plan(plan).splitlines())
