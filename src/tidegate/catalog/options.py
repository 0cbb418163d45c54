"""The options that WITH (...) takes on sources, tables and views. Connectors have their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.durations import EXPECTED_POSITIVE, parse_micros
from tidegate.errors import Span, did_you_mean, make


class Written(Protocol):
    """An option as the parser gives it."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def span(self) -> Span: ...


def _boolean(value: str) -> str | None:
    folded = value.casefold()
    return folded if folded in ("true", "false") else None


def _duration(value: str) -> str | None:
    return value if parse_micros(value) else None


def _count(value: str) -> str | None:
    return value if value.isdigit() and int(value) > 0 else None


def _row_or_batch(value: str) -> str | None:
    return value.casefold() if value.casefold() in ("row", "batch", "none") else None


def _any(value: str) -> str | None:
    return value


@dataclass(frozen=True)
class Known:
    """An option: where it can stand, what it accepts, and whether it does something yet."""

    on: tuple[str, ...]
    expected: str
    check: Callable[[str], str | None] = _any
    maintained: bool = True


OPTIONS: dict[str, Known] = {
    "append_only": Known(("source", "table"), "'true' or 'false'", _boolean),
    "backfill": Known(("view",), "'true' or 'false'", _boolean),
    "idle_timeout": Known(("source", "table", "view"), EXPECTED_POSITIVE, _duration),
    "max_ahead": Known(("source", "table"), EXPECTED_POSITIVE, _duration),
    "emit_final": Known(("view",), "a column or its number"),
    "max_groups": Known(("view",), "a number above zero", _count),
    "emit": Known(("view",), "'row', 'batch' or 'none'", _row_or_batch),
}


def accept(options: Sequence[Written], kind: str) -> tuple[tuple[str, str], ...]:
    """The checked options of a source, table or view, in the order written."""
    taken: dict[str, str] = {}
    for option in options:
        name = option.key.casefold()
        if name in taken:
            raise make("INVALID_OPTION", message=f"option '{name}' is given twice", span=option.span)
        taken[name] = _accept_one(option, name, kind)
    return tuple(taken.items())


def _accept_one(option: Written, name: str, kind: str) -> str:
    known = OPTIONS.get(name)
    here = [each for each, entry in OPTIONS.items() if kind in entry.on]
    if known is None or kind not in known.on:
        hint = did_you_mean(name, here, what="options")
        detail = f"a {kind} has the options {', '.join(here)}"
        raise make("UNKNOWN_OPTION", where=f"a {kind}", name=option.key, detail=detail, hint=hint, span=option.span)
    if not known.maintained:
        raise make("NOT_SUPPORTED", what=f"option '{name}'", hint="leave it out", span=option.span)
    value = known.check(option.value)
    if value is None:
        raise make("INVALID_OPTION", name=name, value=option.value, expected=known.expected, span=option.span)
    return value
