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
Given = Iterable[tuple[str, str, Span | None]]

_SIZE = re.compile(r"(\d+)\s*(k|m|g)?i?b?", re.IGNORECASE)
_TRUTH = {"true": True, "false": False}


class Bag:
    """The options of one connector. `where` names it in error texts; `span` is where it stands in the statement."""

    def __init__(self, where: str, given: Given, span: Span | None = None) -> None:
        self.where = where
        self.span = span
        self._left: dict[str, tuple[str, str, Span | None]] = {}
        self._known: list[str] = []
        for key, value, at in given:
            self._add(key, value, at)

    def _add(self, key: str, value: str, at: Span | None) -> None:
        folded = folded_key(key)
        if folded in self._left:
            raise make("INVALID_OPTION", message=f"option '{key}' is given twice", hint="leave one out", span=at)
        self._left[folded] = (key, value, at)

    def text(self, name: str, default: str | None = None, aliases: Sequence[str] = ()) -> str | None:
        return self.take(name, str, "text", default, aliases)

    def required(self, name: str, example: str, aliases: Sequence[str] = ()) -> str:
        value = self.text(name, aliases=aliases)
        if value is None:
            for key, _, at in self._left.values():
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
            found = self._left.pop(folded_key(spelling), None)
            if found is not None:
                return self._parsed(found, parse, expected)
        return default

    def _parsed(self, found: tuple[str, str, Span | None], parse: Callable[[str], T], expected: str) -> T:
        key, value, at = found
        try:
            return parse(value)
        except (ValueError, KeyError):
            raise invalid(key, value, expected, at) from None

    def family(self, prefix: str) -> dict[str, Bag]:
        """Takes out `fields.<member>.<option>` for a prefix `fields`, as one bag per member in small letters."""
        members: dict[str, list[tuple[str, str, Span | None]]] = {}
        for folded in [key for key in self._left if key.startswith(prefix + ".")]:
            key, value, at = self._left.pop(folded)
            member, _, option = key[len(prefix) + 1 :].rpartition(".")
            members.setdefault(member.casefold(), []).append((option, value, at))
        return {member: Bag(f"{prefix}.{member}", given, given[0][2]) for member, given in members.items()}

    def passed(self, prefix: str) -> dict[str, str]:
        """Takes out every option that begins with a prefix, for a client that knows them itself: names without the
        prefix, as they were written."""
        self._known.append(f"{prefix}*")
        found = [key for key in self._left if key.startswith(prefix)]
        return {key[len(prefix) :]: value for key, value, _ in (self._left.pop(folded) for folded in found)}

    def span_of(self, name: str) -> Span | None:
        """Where an option stands that has not been taken yet; the connector's own place if it is not given."""
        found = self._left.get(folded_key(name))
        return found[2] if found is not None and found[2] is not None else self.span

    def finish(self) -> None:
        """Everything must have been taken."""
        for key, _, at in self._left.values():
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
    """Options are the same in any case, with `-` or `_`; the names of fields keep their hyphens."""
    folded = key.casefold()
    return folded if folded.startswith("fields.") else folded.replace("-", "_")


def invalid(key: str, value: str, expected: str, span: Span | None) -> Error:
    """An option with a value that it cannot have."""
    return make("INVALID_OPTION", name=key, value=masked(key, value), expected=expected, span=span)


def checked_format(bag: Bag, found: str | None, known: Sequence[str], default: str | None = None) -> str:
    """A format that the connector has, `default` if none was given."""
    chosen = found or default
    if chosen is None:
        hint = f"add format = '{known[0]}', or write FORMAT {known[0].upper()}"
        raise make("MISSING_OPTION", where=bag.where, name="format", hint=hint, span=bag.span)
    if chosen not in known:
        message = f"{bag.where} has no format {chosen}"
        close = did_you_mean(chosen, known, "formats")
        raise make("UNKNOWN_FORMAT", message=message, hint=close, span=bag.span)
    return chosen


def options_shown(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be shown: secrets are starred out."""
    return {key: masked(key, value) for key, value in options.items()}


def parse_size(text: str) -> int:
    """`1024`, `64kb`, `64 MB`, `1GiB`, in bytes; k, m and g are powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    power = {"": 0, "k": 1, "m": 2, "g": 3}[(found[2] or "").casefold()]
    return int(found[1]) * int(1024**power)


def _at_least(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text.replace("_", ""))
        if number < minimum:
            raise ValueError(text)
        return number

    return parse


def _one_of(text: str, allowed: Sequence[str]) -> str:
    return {word.casefold(): word for word in allowed}[text.strip().casefold()]
