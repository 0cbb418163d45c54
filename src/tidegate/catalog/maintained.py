"""The part of a catalog that a pipeline maintains."""

from __future__ import annotations

from tidegate.catalog.bus import BUS
from tidegate.catalog.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.sql.statements import CreateSink


def maintained_relations(catalog: Catalog) -> tuple[Relation, ...]:
    """The relations whose changes are logged, in order of creation."""
    read = {name for sink in catalog.of_kind("sink") if not own_rows(sink) for name in sink.dependencies}
    return tuple(
        relation
        for relation in catalog
        if relation.stored or relation.name in read or (relation.kind == "sink" and own_rows(relation))
    )


def own_rows(sink: Relation) -> bool:
    """True if the rows of a sink are logged under its own name: it has a query, or forces a strategy on its view."""
    statement = sink.statement
    return sink.emit is not None or (isinstance(statement, CreateSink) and statement.query is not None)


def uses_bus(catalog: Catalog) -> bool:
    """True if something feeds or reads the event bus."""
    return any(BUS in relation.dependencies or not relation.columns for relation in catalog)


def event_views(catalog: Catalog) -> tuple[Relation, ...]:
    """The views over the event bus whose results return to it."""
    return tuple(view for view in catalog.of_kind("view") if BUS in view.dependencies and view.option("emit") != "none")
