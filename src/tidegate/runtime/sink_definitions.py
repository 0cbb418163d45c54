"""Sinks as the catalog defines them: the connector, the channels it reads, and checks that it can apply the changes."""

from __future__ import annotations

from tidegate import errors
from tidegate.catalog.bus import is_bus
from tidegate.catalog.maintained import own_rows
from tidegate.catalog.relation import Relation
from tidegate.connectors import registry
from tidegate.connectors.contract import Sink
from tidegate.core.references import expand
from tidegate.runtime.sources import located
from tidegate.sql import statements as s


def build(relation: Relation) -> Sink:
    """The connector behind a sink of the catalog."""
    assert relation.connector is not None
    note, key = relation.connector, visible_key(relation)
    reads = relation.dependencies[0] if not own_rows(relation) else ""
    with located(relation):
        return registry.sink(
            note.kind,
            relation.name,
            relation.columns,
            relation.written_options,
            note.format,
            key=key,
            reads=reads,
            references=note.references,
        )


def patterns_of(relation: Relation) -> tuple[str, ...]:
    """The channel patterns of a sink of the bus; none if it reads all channels."""
    assert relation.connector is not None
    channels = {key.casefold(): value for key, value in relation.connector.options}.get("channels")
    if channels is None or not is_bus(relation.dependencies[0]):
        return ()
    return registry.channel_patterns(expand(channels) if relation.connector.references else channels)


def visible_key(relation: Relation) -> tuple[str, ...]:
    """The key, if all of its columns are visible; hidden columns cannot identify rows at the destination."""
    key = relation.key or ()
    return key if all(relation.column(name) for name in key) else ()


def check_fits(sink: Sink, relation: Relation, statement: s.CreateSink) -> None:
    """Raise if a sink cannot apply the changes of its relation, when it is created."""
    read = statement.name.text if statement.relation is None else statement.relation.text
    able = sink.abilities
    if able.accepts == "append" and relation.changes != "append":
        raise errors.make(
            "SINK_CANNOT_TAKE",
            message=f"{sink.spec.kind} in append mode takes only insertions, and {read} also changes rows",
            detail=f"the changelog kind of {read} is {relation.changes}",
            hint=f"write {able.changelog_option} to get every change with its op, or a view with"
            " EMIT ON WINDOW CLOSE or EMIT FINAL, whose rows only ever come",
            span=statement.connector.span,
        )
    if able.needs_key and relation.key is None:
        raise errors.make(
            "SINK_CANNOT_TAKE",
            message=f"{sink.spec.kind} replaces rows by their key, and {read} has none",
            hint=f"GROUP BY a key in {read}, or choose a sink that takes every change",
            span=statement.connector.span,
        )
