"""Options are taken out of a bag one by one; what is left over at the end is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from tidegate.core.durations import EXPECTED, EXPECTED_POSITIVE, parse_duration, parse_positive
from tidegate.core.secrets import masked
from tidegate.errors import Error, Span, did_you_mean, enumerated, make, nearest

T = TypeVar("T")
OptionItems = Iterable[tuple[str, str, Span | None]]

_SIZE = re.compile(r"(\d+)\s*(k|m|g)?i?b?", re.IGNORECASE)
_TRUTH = {"true": True, "false": False}


class Bag:
    """The options of one connector. `where` names it in error texts; `span` is where it stands in the statement;
    `format` is the FORMAT of the statement, until `checked_format` takes it."""

    def __init__(
        self, where: str, options: OptionItems, span: Span | None = None, written: Mapping[str, str] | None = None
    ) -> None:
        """`written`: values as they were written, which errors show, by folded key; the others are as in `options`."""
        self.where = where
        self.span = span
        self._written = written or {}
        self.format: str | None = None
        self._remaining: dict[str, tuple[str, str, Span | None]] = {}
        self._known: list[str] = []
        for key, value, at in options:
            self._add(key, value, at)

    def _add(self, key: str, value: str, at: Span | None) -> None:
        folded = folded_key(key)
        if folded in self._remaining:
            raise make("INVALID_OPTION", message=f"option '{key}' is given twice", hint="leave one out", span=at)
        self._remaining[folded] = (key, value, at)

    def text(self, name: str, default: str | None = None, aliases: Sequence[str] = ()) -> str | None:
        return self.take(name, str, "text", default, aliases)

    def required(self, name: str, example: str, aliases: Sequence[str] = ()) -> str:
        value = self.text(name, aliases=aliases)
        if value is None:
            for key, _, at in self._remaining.values():
                if nearest(key, [name]):
                    raise self.unknown(key, at)
            raise make("MISSING_OPTION", where=self.where, name=name, hint=f"add {name} = '{example}'", span=self.span)
        return value

    def integer(
        self, name: str, default: int | None = None, minimum: int = 0, aliases: Sequence[str] = ()
    ) -> int | None:
        return self.take(name, _at_least(minimum), f"a whole number from {minimum}", default, aliases)

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self.take(name, lambda text: _TRUTH[text.strip().casefold()], "'true' or 'false'", default)
        return bool(value)

    def duration(self, name: str, default: timedelta | None = None) -> timedelta | None:
        return self.take(name, parse_duration, EXPECTED, default)

    def positive_duration(
        self, name: str, default: timedelta | None = None, aliases: Sequence[str] = ()
    ) -> timedelta | None:
        return self.take(name, parse_positive, EXPECTED_POSITIVE, default, aliases)

    def size(self, name: str, default: int | None = None) -> int | None:
        return self.take(name, parse_size, "a size in bytes such as '64mb'", default)

    def choice(self, name: str, allowed: Sequence[str], default: str | None = None) -> str | None:
        expected = enumerated([f"'{word}'" for word in allowed])
        return self.take(name, lambda text: _one_of(text, allowed), expected, default)

    def take(
        self,
        name: str,
        parse: Callable[[str], T],
        expected: str,
        default: T | None = None,
        aliases: Sequence[str] = (),
    ) -> T | None:
        """Takes an option out. `parse` raises ValueError or KeyError for a value that is not `expected`."""
        self._known.append(name)
        for spelling in (name, *aliases):
            option = self._remaining.pop(folded_key(spelling), None)
            if option is not None:
                return self._parse(option, parse, expected)
        return default

    def _parse(self, option: tuple[str, str, Span | None], parse: Callable[[str], T], expected: str) -> T:
        key, value, at = option
        try:
            return parse(value)
        except (ValueError, KeyError):
            raise invalid(key, self._written.get(folded_key(key), value), expected, at) from None

    def family(self, prefix: str) -> dict[str, Bag]:
        """Takes out `fields.<member>.<option>` for a prefix `fields`, as one bag per member in small letters."""
        members: dict[str, list[tuple[str, str, Span | None]]] = {}
        for folded in [key for key in self._remaining if key.startswith(prefix + ".")]:
            key, value, at = self._remaining.pop(folded)
            member, _, option = key[len(prefix) + 1 :].rpartition(".")
            members.setdefault(member.casefold(), []).append((option, value, at))
        return {member: Bag(f"{prefix}.{member}", options, options[0][2]) for member, options in members.items()}

    def take_prefixed(self, prefix: str) -> dict[str, str]:
        """Take all options that begin with a prefix, for a client that checks them itself. Names are as they were
        written, without the prefix."""
        self._known.append(f"{prefix}*")
        keys = [key for key in self._remaining if key.startswith(prefix)]
        return {key[len(prefix) :]: value for key, value, _ in (self._remaining.pop(folded) for folded in keys)}

    def span_of(self, name: str) -> Span | None:
        """The span of an option that has not been taken yet; that of the connector if the option is not set."""
        option = self._remaining.get(folded_key(name))
        return option[2] if option is not None and option[2] is not None else self.span

    def finish(self) -> None:
        """Raise UNKNOWN_OPTION if an option has not been taken, UNKNOWN_FORMAT if the format has not."""
        if self.format is not None:
            message = f"{self.where} has no formats"
            raise make("UNKNOWN_FORMAT", message=message, hint="leave FORMAT out", span=self.span)
        for key, _, at in self._remaining.values():
            raise self.unknown(key, at)

    def unknown(self, key: str, at: Span | None) -> Error:
        known = sorted(set(self._known))
        close = did_you_mean(key, known, "options")
        return make(
            "UNKNOWN_OPTION",
            where=self.where,
            name=key,
            detail=f"options of {self.where}: {', '.join(known)}",
            hint=close if close is not None and close.startswith("did") else "leave it out",
            span=at,
        )


def folded_key(key: str) -> str:
    """The key of an option: case does not matter, and `-` is `_`; the names of fields keep their hyphens."""
    folded = key.casefold()
    return folded if folded.startswith("fields.") else folded.replace("-", "_")


def invalid(key: str, value: str, expected: str, span: Span | None) -> Error:
    """The error for an option with a value that is not allowed."""
    return make("INVALID_OPTION", name=key, value=masked(key, value), expected=expected, span=span)


def checked_format(bag: Bag, format: str | None, formats: Sequence[str], default: str | None = None) -> str:
    """The format, or `default` if it is None; raises if the connector does not have it. A connector that does not call
    this has no formats."""
    bag.format = None
    name = format or default
    if name is None:
        hint = f"add format = '{formats[0]}', or write FORMAT {formats[0].upper()}"
        raise make("MISSING_OPTION", where=bag.where, name="format", hint=hint, span=bag.span)
    if name not in formats:
        message = f"{bag.where} has no format {name}"
        close = did_you_mean(name, formats, "formats")
        raise make("UNKNOWN_FORMAT", message=message, hint=close, span=bag.span)
    return name


def mask_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options with their secrets masked."""
    return {key: masked(key, value) for key, value in options.items()}


def parse_size(text: str) -> int:
    """`1024`, `64kb`, `64 MB`, `1GiB`, in bytes; k, m and g are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    power = {"": 0, "k": 1, "m": 2, "g": 3}[(match[2] or "").casefold()]
    return int(match[1]) * int(1024**power)


def _at_least(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text.replace("_", ""))
        if number < minimum:
            raise ValueError(text)
        return number

    return parse


def _one_of(text: str, allowed: Sequence[str]) -> str:
    return {word.casefold(): word for word in allowed}[text.strip().casefold()]
