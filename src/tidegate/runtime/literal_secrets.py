"""Statements without the secrets that were written in them: references stand in their places."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tidegate.core.secrets import is_secret, mask_comments, secret_parts
from tidegate.errors.secrets import REFERENCES
from tidegate.sql import statements as s
from tidegate.storage.secrets_file import Secrets

T = TypeVar("T", bound=s.Statement)


def without_secrets(statement: T, secrets: Secrets) -> T:
    """The statement with references to its literal secrets, as it is stored. Its spans still point into the text that
    was parsed."""
    if not isinstance(statement, s.CreateRelation | s.CreateSink | s.CreateView):
        return statement
    text = statement.text
    if isinstance(statement, s.CreateView) or statement.connector is None:
        return replace(statement, text=mask_comments(text))
    written = statement.connector.options
    options = tuple(replace(each, value=_hidden(each.key, each.value, secrets)) for each in written)
    changed = [(old, new) for old, new in zip(written, options, strict=True) if old.value != new.value]
    for old, new in sorted(changed, key=lambda pair: -pair[0].span.start):
        assert old.value_span is not None
        start, end = old.value_span.start - statement.span.start, old.value_span.end - statement.span.start
        text = text[:start] + _literal(new.value) + text[end:]
    connector = replace(statement.connector, options=options)
    return replace(statement, text=mask_comments(text), connector=connector)


def _hidden(key: str, value: str, secrets: Secrets) -> str:
    """The value of an option with references in the places of secrets."""
    if is_secret(key):
        return value if not value or REFERENCES.fullmatch(value) else secrets.reference(value)
    for start, end in reversed(secret_parts(value)):
        value = value[:start] + secrets.reference(value[start:end]) + value[end:]
    return value


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
