"""Making a data folder be what the config says: new things are created, changed ones replaced, others dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate import sql
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.cli.listening.statements import CREATE, REPLACE, Definition, quoted
from tidegate.connectors import registry
from tidegate.database import runtime_of
from tidegate.errors import Error, Span, make, render
from tidegate.sql import statements as s
from tidegate.sql.parsing import statements

if TYPE_CHECKING:
    from tidegate import Database
    from tidegate.catalog.relation import Relation

LEDGER = "listen"
"""Under this name the folder keeps which statements came from here. Whatever else is in it is left alone."""


def check(found: Sequence[Definition]) -> None:
    """Refuses what is not a statement and options that connectors do not have, before anything is started."""
    for each in found:
        try:
            _check_options(_parsed(each))
        except Error as problem:
            raise each.located(problem) from None


def _check_options(statement: s.Statement) -> None:
    match statement:
        case s.CreateRelation(connector=s.Connector() as chosen, name=name):
            registry.source(chosen.kind, name.text, (), _options(chosen), chosen.format, chosen.span)
        case s.CreateSink(connector=chosen, name=name):
            given = _options(chosen)
            registry.sink(chosen.kind, name.text, EVENTS.columns, given, chosen.format, chosen.span, reads=BUS)


def _options(chosen: s.Connector) -> list[tuple[str, str, Span | None]]:
    return [(option.key, option.value, option.span) for option in chosen.options]


def declare(db: Database, found: Sequence[Definition]) -> list[str]:
    """Applies what is new, and says what became of what was there before."""
    wanted = {each.name.casefold() for each in found}
    said = _drop_unread(db, wanted)
    said += [note for each in found if (note := _apply(db, each)) is not None]
    return said + _drop_unread(db, wanted)


def _drop_unread(db: Database, wanted: set[str]) -> list[str]:
    """Drops what is not wanted any more and not read any more, readers first."""
    said = []
    catalog = runtime_of(db).catalog
    for relation in reversed(catalog.value.relations):
        listed = relation.name.casefold() in wanted
        if listed or not _is_ours(db, relation) or catalog.value.dependents(relation.name):
            continue
        db.sql(f"DROP {relation.described.upper()} {quoted(relation.name)}")
        said.append(f"{relation.kind} {relation.name} is no longer listed and was dropped")
    return said


def _apply(db: Database, definition: Definition) -> str | None:
    existing = runtime_of(db).catalog.value.find(definition.name)
    text = _parsed(definition).text
    if existing is None:
        return _run(db, definition, text, CREATE, None)
    if _words(existing.sql) == _words(text):
        return None
    if not _is_ours(db, existing):
        raise definition.located(
            make(
                "ALREADY_EXISTS",
                message=f"{existing.name} exists already in this folder, as a {existing.described}",
                hint="give it another name, or name another folder: --data DIR",
            )
        )
    anew = ", and starts from scratch" if existing.kind == "view" else ""
    note = f"{definition.kind} {definition.name} has changed{anew}"
    return _run(db, definition, REPLACE + text.removeprefix(CREATE), REPLACE, note)


def _run(db: Database, definition: Definition, text: str, first: str, note: str | None) -> str | None:
    """It is on record before it happens, so that it is known as ours however this ends."""
    runtime_of(db).ledger.record(LEDGER, text)
    try:
        result = db.sql(text)
    except Error as problem:
        raise definition.located(problem, first) from None
    said = [replace(each, message=f"{definition.name}: {each.message}") for each in result.warnings]
    warnings = [f"warning {render(each)}" for each in said]
    return "\n".join([*([note] if note else []), *warnings]) or None


def _parsed(definition: Definition) -> s.Statement:
    """The one statement that a definition is."""
    first, *others = sql.parse(definition.create).statements
    if others:
        hint = "leave out what follows the ;"
        raise make("SYNTAX_ERROR", message="a view is one query", hint=hint, span=others[0].span)
    return first


def _words(text: str) -> list[tuple[object, str]]:
    """A CREATE statement without its first words, comments and blanks."""
    body = text.removeprefix(REPLACE).removeprefix(CREATE)
    return [(token.token_type, token.text) for tokens in statements(body) for token in tokens]


def _is_ours(db: Database, relation: Relation) -> bool:
    return runtime_of(db).ledger.applied(LEDGER, relation.sql)
