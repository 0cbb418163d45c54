"""The options of sources, tables and views in WITH (...). Connectors have their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.durations import EXPECTED_POSITIVE, parse_micros
from tidegate.errors import Span, did_you_mean, make


class Written(Protocol):
    """An option as parsed."""

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


def _on_error(value: str) -> str | None:
    return value.casefold() if value.casefold() in ("quarantine", "stop") else None


def _any(value: str) -> str | None:
    return value


@dataclass(frozen=True)
class KnownOption:
    """An option: the kinds of relations that have it, its expected values and its check."""

    on: tuple[str, ...]
    expected: str
    check: Callable[[str], str | None] = _any


NO_BACKFILL = "backfill is not supported: a view sees the rows of a source that arrive after it was created"
OPTIONS: dict[str, KnownOption] = {
    "append_only": KnownOption(("source", "table"), "'true' or 'false'", _boolean),
    "backfill": KnownOption(("view",), "'true' or 'false'", _boolean),
    "idle_timeout": KnownOption(("source", "table", "view"), EXPECTED_POSITIVE, _duration),
    "max_ahead": KnownOption(("source", "table"), EXPECTED_POSITIVE, _duration),
    "emit_final": KnownOption(("view",), "a column or its number"),
    "on_error": KnownOption(("view",), "'quarantine' or 'stop'", _on_error),
    "max_groups": KnownOption(("view",), "a number above zero", _count),
    "emit": KnownOption(("view",), "'row', 'batch' or 'none'", _row_or_batch),
}


def accept(options: Sequence[Written], kind: str) -> tuple[tuple[str, str], ...]:
    """The checked options of a source, table or view, in the order written."""
    accepted: dict[str, str] = {}
    for option in options:
        name = option.key.casefold()
        if name in accepted:
            raise make("INVALID_OPTION", message=f"option '{name}' is given twice", span=option.span)
        accepted[name] = _accept_one(option, name, kind)
    return tuple(accepted.items())


def _accept_one(option: Written, name: str, kind: str) -> str:
    known = OPTIONS.get(name)
    here = [each for each, entry in OPTIONS.items() if kind in entry.on]
    if known is None or kind not in known.on:
        hint = did_you_mean(name, here, what="options")
        detail = f"a {kind} has the options {', '.join(here)}"
        raise make("UNKNOWN_OPTION", where=f"a {kind}", name=option.key, detail=detail, hint=hint, span=option.span)
    value = known.check(option.value)
    if value is None:
        raise make("INVALID_OPTION", name=name, value=option.value, expected=known.expected, span=option.span)
    if (name, value) == ("backfill", "true"):
        raise make("NOT_SUPPORTED", message=NO_BACKFILL, hint="insert the earlier rows again", span=option.span)
    return value
