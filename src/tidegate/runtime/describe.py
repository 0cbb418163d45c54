"""SHOW, SHOW CREATE and DESCRIBE."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.core.schema import Column
from tidegate.core.secrets import mask_sql
from tidegate.runtime.contents import Contents


def show(catalog: Catalog, contents: Contents, what: str) -> pa.Table:
    """SHOW: the relations of one kind."""
    if what == "tables":
        return contents.rows("system.tables")
    relations = [relation for relation in catalog if _matches(relation, what)]
    if what in ("sources", "streams"):
        return _table(relations, connector=lambda each: each.connector.kind.upper() if each.connector else None)
    if what == "sinks":
        return _table(
            relations,
            relation=lambda each: each.dependencies[0] if each.dependencies else None,
            connector=lambda each: each.connector.kind.upper() if each.connector else None,
        )
    return _table(
        relations,
        kind=lambda each: each.changes,
        emit=lambda each: (each.emit or "changes").upper().replace("_", " "),
        key=lambda each: None if each.key is None else ", ".join(each.key),
        materialized=lambda each: each.materialized,
    )


def _matches(relation: Relation, what: str) -> bool:
    match what:
        case "sources" | "streams":
            return relation.kind == "source"
        case "views":
            return relation.kind == "view"
        case "materialized views" | "queries":
            return relation.kind == "view" and relation.materialized
        case "sinks":
            return relation.kind == "sink"
    return False


def _table(relations: list[Relation], **columns: Any) -> pa.Table:
    rows = {"name": pa.array([each.name for each in relations], pa.string())}
    for name, value in columns.items():
        kind = pa.bool_() if name == "materialized" else pa.string()
        rows[name] = pa.array([value(each) for each in relations], kind)
    return pa.table(rows)


def show_create(relation: Relation) -> pa.Table:
    """The statement that made a relation, secrets masked."""
    return pa.table({"name": [relation.name], "sql": [mask_sql(relation.sql)]})


def describe(relation: Relation, extended: bool) -> pa.Table:
    """column_name, data_type, nullable; extended: also what is known of each column."""
    columns = relation.columns
    rows: dict[str, pa.Array] = {
        "column_name": pa.array([column.name for column in columns], pa.string()),
        "data_type": pa.array([column.type.upper() for column in columns], pa.string()),
        "nullable": pa.array([_nullable(relation, column) for column in columns], pa.bool_()),
    }
    if extended:
        notes = {note.column: f"{note.kind} {note.sql or ''}".strip() for note in relation.times}
        rows["key"] = pa.array([column.name in _key(relation) for column in columns], pa.bool_())
        rows["time"] = pa.array([notes.get(column.name) for column in columns], pa.string())
    return pa.table(rows)


def _nullable(relation: Relation, column: Column) -> bool:
    """False for a declared key or NOT NULL column; always True for a view, since the key of a group may be NULL."""
    return relation.kind == "view" or (column.nullable and column.name not in relation.primary_key)


def _key(relation: Relation) -> tuple[str, ...]:
    return relation.primary_key or relation.key or ()
