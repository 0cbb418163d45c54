"""The connectors behind the relations of a catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.connectors import registry
from tidegate.connectors.contract import CapturedSource, PolledSource, Source
from tidegate.errors import Error


def source_of(relation: Relation) -> Source:
    """The connector of a relation that has one. Key columns may be NULL here: such rows are rejected by the table."""
    assert relation.connector is not None
    note = relation.connector
    key = relation.primary_key
    columns = tuple(replace(each, nullable=True) if each.name in key else each for each in relation.columns)
    options = relation.written_options
    with located(relation):
        return registry.source(
            note.kind, relation.name, columns, options, note.format, key=key, references=note.references
        )


@contextmanager
def located(relation: Relation) -> Iterator[None]:
    """Let errors of a connector that starts name its relation, and point into the statement that created it."""
    try:
        yield
    except Error as problem:
        problem.message = f"{relation.described} {relation.name}: {problem.message}"
        problem.text = relation.sql
        raise


def polled_source(relation: Relation) -> PolledSource | None:
    """The connector of a table that is polled; None for any other relation."""
    if relation.connector is None:
        return None
    source = source_of(relation)
    return source if isinstance(source, PolledSource) else None


def capture_sessions(catalog: Catalog) -> dict[str, list[CapturedSource]]:
    """The captured relations of a catalog by the name under which their session keeps its source position."""
    sessions: dict[str, list[CapturedSource]] = {}
    for relation in catalog.of_kind("source", "table"):
        source = None if relation.connector is None else source_of(relation)
        if isinstance(source, CapturedSource):
            digest = hashlib.sha256(source.session.encode()).hexdigest()[:16]
            sessions.setdefault(f"capture:{digest}", []).append(source)
    return sessions
