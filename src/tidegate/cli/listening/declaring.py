"""Apply a configuration to a data folder: create what is new, replace what changed, drop what is not listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate import sql
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.cli.listening.statements import CREATE, REPLACE, Definition, quoted
from tidegate.connectors import registry
from tidegate.core.references import expand
from tidegate.database import runtime_of
from tidegate.errors import Error, Span, make, render
from tidegate.runtime.literal_secrets import without_secrets
from tidegate.sql import statements as s
from tidegate.sql.parsing import statements
from tidegate.storage.ledger import ScriptStatement

if TYPE_CHECKING:
    from tidegate import Database
    from tidegate.catalog.relation import Relation

LEDGER = "listen"
"""The origin of these statements in the ledger. Relations of other origins are left alone."""


def check(definitions: Sequence[Definition]) -> None:
    """Raise for syntax errors and for unknown options of connectors, before anything starts."""
    for definition in definitions:
        try:
            _check_options(_parse_one(definition))
        except Error as problem:
            raise definition.locate(problem) from None


def _check_options(statement: s.Statement) -> None:
    match statement:
        case s.CreateRelation(connector=s.Connector() as connector, name=name):
            registry.source(connector.kind, name.text, (), _options(connector), connector.format, connector.span)
        case s.CreateSink(connector=connector, name=name):
            options = _options(connector)
            registry.sink(
                connector.kind, name.text, EVENTS.columns, options, connector.format, connector.span, reads=BUS
            )


def _options(connector: s.Connector) -> list[tuple[str, str, Span | None]]:
    return [(option.key, option.value, option.span) for option in connector.options]


def declare(db: Database, definitions: Sequence[Definition]) -> list[str]:
    """Apply the definitions; returns notes on what was replaced or dropped, and warnings."""
    names = {definition.name.casefold() for definition in definitions}
    notes = _drop_unlisted(db, names)
    notes += [note for definition in definitions if (note := _apply(db, definition)) is not None]
    return notes + _drop_unlisted(db, names)


def _drop_unlisted(db: Database, names: set[str]) -> list[str]:
    """Drop relations that are neither listed in `names` nor read by others, readers first."""
    notes = []
    catalog = runtime_of(db).catalog
    for relation in reversed(catalog.value.relations):
        if relation.name.casefold() in names or not _is_ours(db, relation) or catalog.value.dependents(relation.name):
            continue
        db.sql(f"DROP {relation.described.upper()} {quoted(relation.name)}")
        notes.append(f"{relation.kind} {relation.name} is no longer listed and was dropped")
    return notes


def _apply(db: Database, definition: Definition) -> str | None:
    existing = runtime_of(db).catalog.value.find(definition.name)
    statement = _parse_one(definition)
    text = statement.text
    if existing is None:
        return _run(db, definition, text, CREATE, None)
    stored = without_secrets(statement, runtime_of(db).secrets).text
    if _significant_tokens(existing.sql) == _significant_tokens(stored) or _is_earlier(existing, statement):
        return None
    if not _is_ours(db, existing):
        raise definition.locate(
            make(
                "ALREADY_EXISTS",
                message=f"{existing.name} exists already in this folder, as a {existing.described}",
                hint="give it another name, or name another folder: --data DIR",
            )
        )
    restart = ", and starts from scratch" if existing.kind == "view" else ""
    note = f"{definition.kind} {definition.name} has changed{restart}"
    return _run(db, definition, REPLACE + text.removeprefix(CREATE), REPLACE, note)


def _run(db: Database, definition: Definition, text: str, first: str, note: str | None) -> str | None:
    """Run a statement. It is recorded first, so that the relation counts as declared here even if the process dies."""
    (statement,) = sql.parse(text).statements
    stored = without_secrets(statement, runtime_of(db).secrets).text
    runtime_of(db).ledger.record(ScriptStatement.of(LEDGER, stored))
    try:
        result = db.sql(text)
    except Error as problem:
        raise definition.locate(problem, first) from None
    labelled = [replace(each, message=f"{definition.name}: {each.message}") for each in result.warnings]
    warnings = [f"warning {render(each)}" for each in labelled]
    return "\n".join([*([note] if note else []), *warnings]) or None


def _is_earlier(existing: Relation, statement: s.Statement) -> bool:
    """True if an earlier version created the relation from the same configuration: its statement has values where this
    one has references to them."""
    note, connector = existing.connector, getattr(statement, "connector", None)
    if note is None or note.references or not isinstance(connector, s.Connector):
        return False
    values = tuple((option.key, expand(option.value)) for option in connector.options)
    return (note.kind, note.options, note.format) == (connector.kind, values, connector.format)


def _parse_one(definition: Definition) -> s.Statement:
    """Parse a definition, which must be one statement."""
    first, *others = sql.parse(definition.create).statements
    if others:
        hint = "leave out what follows the ;"
        raise make("SYNTAX_ERROR", message="a view is one query", hint=hint, span=others[0].span)
    return first


def _significant_tokens(text: str) -> list[tuple[object, str]]:
    """The tokens of a CREATE statement after CREATE [OR REPLACE], without comments and whitespace."""
    body = text.removeprefix(REPLACE).removeprefix(CREATE)
    return [(token.token_type, token.text) for tokens in statements(body) for token in tokens]


def _is_ours(db: Database, relation: Relation) -> bool:
    return runtime_of(db).ledger.applied(ScriptStatement.of(LEDGER, relation.sql))
