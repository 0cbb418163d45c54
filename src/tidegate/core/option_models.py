"""Options declared as a pydantic model: the name, type, default, description and secrecy of each in one place.

    class StreamOptions(OptionModel):
        port: Annotated[int, Parsed(parse_port, "a port")] = Field(8080, description="Port to listen on.")
        token: str | None = Field(None, description="Token that clients must send.", json_schema_extra=SECRET)

`StreamOptions.take(bag)` reads them; `StreamOptions.model_json_schema()` describes them to other programs. An option
whose name has dots is declared with it as the field's alias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from tidegate.core.durations import EXPECTED, EXPECTED_POSITIVE, parse_duration, parse_positive
from tidegate.core.options import Bag, parse_size
from tidegate.core.secrets import declare_secret
from tidegate.errors import Error, Span, enumerated, make

SECRET: JsonDict = {"secret": True}
"""Marks an option whose value is masked wherever it is displayed."""

Spans = Mapping[str, Span | None]


@dataclass(frozen=True)
class Parsed:
    """How the text of an option becomes a value. `parse` raises ValueError or KeyError for what is not `expected`."""

    parse: Callable[[str], Any]
    expected: str


class Prefixed(tuple[str, ...]):
    """All options that begin with one of the prefixes, as a mapping of names without it."""

    def __new__(cls, *prefixes: str) -> Self:
        return super().__new__(cls, prefixes)


class Aliases(tuple[str, ...]):
    """Other spellings of an option, such as those of other systems."""

    def __new__(cls, *names: str) -> Self:
        return super().__new__(cls, names)


class OptionModel(BaseModel):
    """The options of a connector."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name, field in cls.model_fields.items():
            if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("secret"):
                aliases = next((item for item in field.metadata if isinstance(item, Aliases)), ())
                for spelling in (field.alias or name, *aliases):
                    declare_secret(spelling)

    @classmethod
    def take(cls, bag: Bag, parsers: Mapping[str, Parsed] | None = None, **examples: str) -> Self:
        """Take the declared options out of a bag, in their order, and check them together. `parsers` and `examples` are
        those that depend on the statement: how its values are read, and what required ones could be."""
        spans = {name: bag.span_of(field.alias or name) for name, field in cls.model_fields.items()}
        values = {
            name: _take(bag, field.alias or name, field, examples.get(name), (parsers or {}).get(name))
            for name, field in cls.model_fields.items()
        }
        options = cls(**{name: value for name, value in values.items() if value is not None})
        options.check(spans)
        return options

    def check(self, spans: Spans) -> None:
        """Raise an error for values that are not allowed, or not together. `spans` are the places of the options."""


def _take(bag: Bag, name: str, field: FieldInfo, example: str | None, parsed: Parsed | None) -> Any:
    declared = {type(item): item for item in field.metadata}
    if Prefixed in declared:
        return {key: value for prefix in declared[Prefixed] for key, value in bag.take_prefixed(prefix).items()}
    aliases, example = declared.get(Aliases, ()), example or str((field.examples or [""])[0])
    parsed = parsed or declared.get(Parsed)
    if parsed is not None:
        value = bag.take(name, parsed.parse, parsed.expected, aliases=aliases)
        if value is None and field.is_required():
            raise make("MISSING_OPTION", where=bag.where, name=name, hint=f"add {name} = '{example}'", span=bag.span)
        return value
    if field.is_required():
        return bag.required(name, example, aliases)
    if field.annotation is bool:
        return bag.boolean(name, field.default)
    text = bag.text(name, aliases=aliases)
    return text if field.default is None else text or field.default


def whole_number(minimum: int) -> Parsed:
    def parse(text: str) -> int:
        number = int(text.replace("_", ""))
        if number < minimum:
            raise ValueError(text)
        return number

    return Parsed(parse, f"a whole number from {minimum}")


def choice(*allowed: str) -> Parsed:
    """One of several words, case-insensitive."""
    words = {word.casefold(): word for word in allowed}
    return Parsed(lambda text: words[text.strip().casefold()], enumerated([f"'{word}'" for word in allowed]))


ANY_TEXT = Parsed(str, "text")
"""A text that can be empty; otherwise an empty text is the default."""

DURATION = Parsed(parse_duration, EXPECTED)
POSITIVE_DURATION = Parsed(parse_positive, EXPECTED_POSITIVE)
SIZE = Parsed(parse_size, "a size in bytes such as '64mb'")
SECONDS = Parsed(lambda text: parse_duration(text).total_seconds(), EXPECTED)
"""A duration, as a number of seconds."""


def not_zero(name: str, example: str, spans: Spans) -> Error:
    return make(
        "INVALID_OPTION", message=f"{name} cannot be zero", hint=f"write {name} = '{example}'", span=spans[name]
    )
