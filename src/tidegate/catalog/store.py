"""The catalog as a file: what was created, in order, with the SQL that made it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tidegate.catalog.catalog import Catalog
from tidegate.catalog.relation import ConnectorNote, Relation, TimeNote
from tidegate.core.schema import Column, Schema
from tidegate.errors import make

VERSION = 1


def save(catalog: Catalog, path: Path) -> None:
    """Writes the whole file or leaves the old one."""
    document = {"version": VERSION, "relations": [_to_json(relation) for relation in catalog]}
    draft = path.with_suffix(path.suffix + ".new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load(path: Path) -> Catalog:
    """The catalog of a file, empty if there is none; FOLDER_VERSION if another version wrote it."""
    if not path.exists():
        return Catalog()
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("version") != VERSION:
        raise make("FOLDER_VERSION", folder=path.parent, found=document.get("version"), expected=VERSION)
    return Catalog(tuple(_from_json(entry) for entry in document["relations"]))


def _to_json(relation: Relation) -> dict[str, Any]:
    connector = relation.connector
    return {
        "name": relation.name,
        "kind": relation.kind,
        "sql": relation.sql,
        "columns": _columns_to_json(relation.columns),
        "primary_key": list(relation.primary_key),
        "append_only": relation.append_only,
        "times": [[note.column, note.kind, note.sql] for note in relation.times],
        "connector": connector and [connector.kind, [list(pair) for pair in connector.options], connector.format],
        "options": [list(pair) for pair in relation.options],
        "emit": relation.emit,
        "materialized": relation.materialized,
        "dependencies": list(relation.dependencies),
        "changes": relation.changes,
        "key": None if relation.key is None else list(relation.key),
        "hidden": _columns_to_json(relation.hidden),
    }


def _from_json(entry: dict[str, Any]) -> Relation:
    connector = entry["connector"]
    return Relation(
        name=entry["name"],
        kind=entry["kind"],
        sql=entry["sql"],
        columns=_columns_from_json(entry["columns"]),
        primary_key=tuple(entry["primary_key"]),
        append_only=entry["append_only"],
        times=tuple(TimeNote(*note) for note in entry["times"]),
        connector=connector and ConnectorNote(connector[0], _pairs(connector[1]), connector[2]),
        options=_pairs(entry["options"]),
        emit=entry["emit"],
        materialized=entry["materialized"],
        dependencies=tuple(entry["dependencies"]),
        changes=entry["changes"],
        key=None if entry["key"] is None else tuple(entry["key"]),
        hidden=_columns_from_json(entry["hidden"]),
    )


def _columns_to_json(schema: Schema) -> list[list[object]]:
    return [[column.name, column.type, column.nullable] for column in schema]


def _columns_from_json(entries: list[list[Any]]) -> Schema:
    return tuple(Column(*entry) for entry in entries)


def _pairs(entries: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in entries)
