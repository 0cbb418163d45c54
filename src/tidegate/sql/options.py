"""`WITH ('k' = 'v', ...)`, `FROM KAFKA (k = 'v', ...)`, `FORMAT ...`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from tidegate.errors import Span
from tidegate.sql.cursor import Cursor, word
from tidegate.sql.statements import Connector, Option

# Options of a relation or view itself; in WITH ('connector' = ...) all others are the connector's.
RELATION_OPTIONS = frozenset(
    {"append_only", "backfill", "emit", "emit_final", "idle_timeout", "max_ahead", "max_groups"}
)


@dataclass(frozen=True)
class Attachments:
    """The connector and the options of a relation or sink."""

    connector: Connector | None
    options: tuple[Option, ...]


def read_attachments(cursor: Cursor, introduced_by: str) -> Attachments:
    """`FROM X (...)`, `FORMAT ...` and `WITH (...)`, each at most once and in any order."""
    explicit: Connector | None = None
    options: tuple[Option, ...] = ()
    format_: str | None = None
    format_options: tuple[Option, ...] = ()
    while True:
        if explicit is None and cursor.at(introduced_by):
            explicit = _connector(cursor, introduced_by)
        elif not options and cursor.take("WITH"):
            options = read_options(cursor, "WITH")
        elif format_ is None and cursor.at("FORMAT"):
            format_, format_options = _format(cursor)
        else:
            return _combine(cursor, explicit, options, format_, format_options)


def read_options(cursor: Cursor, after: str) -> tuple[Option, ...]:
    """`(k = 'v', ...)`; an empty pair of parentheses is fine."""
    cursor.expect("(", after=after, hint=f"write {after} ('name' = 'value', ...)")
    options: list[Option] = []
    while not cursor.take(")"):
        if options and not cursor.take(","):
            cursor.fail(f"expected , or ) after {options[-1].key} = ...{cursor.instead()}")
        options.append(_option(cursor, options))
    return tuple(options)


def _option(cursor: Cursor, before: list[Option]) -> Option:
    start = cursor.start_token()
    key = _key(cursor)
    cursor.expect("=", after=f"option {key}", hint=f"write {key} = 'value'")
    first = cursor.start_token()
    value = _value(cursor, key)
    span, value_span = cursor.since(start), cursor.since(first)
    if any(option.key.lower() == key.lower() for option in before):
        cursor.fail(f"option {key} is given twice", span=span)
    return Option(key, value, span, value_span)


def _key(cursor: Cursor) -> str:
    if (token := cursor.here) is not None and token.token_type == TokenType.STRING:
        cursor._advance()
        return token.text
    return _text_until(cursor, "an option's name", ("=", ",", ")", "("))


def _value(cursor: Cursor, key: str) -> str:
    if (token := cursor.here) is not None and token.token_type == TokenType.STRING:
        cursor._advance()
        return token.text
    return _text_until(cursor, f"a value for option {key}", (",", ")", "=", "("))


def _text_until(cursor: Cursor, what: str, until: tuple[str, ...]) -> str:
    """The text up to one of these tokens: `scan.startup.mode`, `-1`, `10s`."""
    start = cursor.start_token()
    if cursor.here is None or word(cursor.here) in until:
        cursor.fail(f"expected {what}{cursor.instead()}")
    while cursor.here is not None and word(cursor.here) not in until:
        if cursor.here.start > start.start and cursor.here.start > cursor._prev.end + 1:
            cursor.fail(f"expected {' or '.join(until[:2])}{cursor.instead()}", hint="quote values that contain blanks")
        cursor._advance()
    span = cursor.since(start)
    return cursor.sql[span.start : span.end].strip("`")


def _connector(cursor: Cursor, introduced_by: str) -> Connector:
    start = cursor.start_token()
    cursor._advance()
    kind = cursor.name(f"a connector after {introduced_by}")
    options = read_options(cursor, kind.text) if cursor.at("(") else ()
    return Connector(kind.text.lower(), options, None, cursor.since(start))


def _format(cursor: Cursor) -> tuple[str, tuple[Option, ...]]:
    """`FORMAT JSON`, or RisingWave's `FORMAT PLAIN ENCODE JSON (...)`: plain + json = json, debezium + avro =
    debezium-avro; JSON is the default encoding."""
    cursor._advance()
    name = cursor.name("a format after FORMAT").text.lower()
    if cursor.take("ENCODE"):
        encoding = cursor.name("an encoding after ENCODE").text.lower()
        name = encoding if name in ("plain", "native") else name if encoding == "json" else f"{name}-{encoding}"
    return name, read_options(cursor, "FORMAT") if cursor.at("(") else ()


def _combine(
    cursor: Cursor,
    explicit: Connector | None,
    options: tuple[Option, ...],
    format_: str | None,
    format_options: tuple[Option, ...],
) -> Attachments:
    connector, rest = (explicit, options) if explicit else _from_with(options)
    if connector is None:
        if format_ is not None:
            cursor.fail("FORMAT says how a connector's rows are written, but there is no connector")
        return Attachments(None, rest)
    own = tuple(o for o in connector.options if o.key.lower() in RELATION_OPTIONS)
    theirs = (*(o for o in connector.options if o.key.lower() != "format" and o not in own), *format_options)
    named = next((o for o in connector.options if o.key.lower() == "format"), None)
    if named is not None and format_ is not None:
        cursor.fail("the format is given twice", span=named.span)
    return Attachments(
        Connector(connector.kind, theirs, named.value.lower() if named else format_, connector.span), (*rest, *own)
    )


def _from_with(options: tuple[Option, ...]) -> tuple[Connector | None, tuple[Option, ...]]:
    """`WITH ('connector' = 'kafka', ...)`: the options that are not the relation's own are the connector's."""
    named = next((o for o in options if o.key.lower() == "connector"), None)
    if named is None:
        return None, options
    own = tuple(o for o in options if o.key.lower() in RELATION_OPTIONS)
    theirs = tuple(o for o in options if o is not named and o not in own)
    span: Span = options[0].span.hull(options[-1].span)
    return Connector(named.value.lower(), theirs, None, span), own
