"""Options declared as a pydantic model: the name, type, default, description and secrecy of each in one place.

    class StreamOptions(OptionModel):
        port: Annotated[int, Parsed(parse_port, "a port")] = Field(8080, description="Port to listen on.")
        token: str | None = Field(None, description="Token that clients must send.", json_schema_extra=SECRET)

`StreamOptions.take(bag)` reads them; `StreamOptions.model_json_schema()` describes them to other programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from tidegate.core.durations import EXPECTED, parse_duration
from tidegate.core.options import Bag
from tidegate.errors import Error, Span, make

SECRET: JsonDict = {"secret": True}
"""Marks an option whose value must not be shown."""

Spans = Mapping[str, Span | None]


@dataclass(frozen=True)
class Parsed:
    """How the text of an option becomes a value. `parse` raises ValueError or KeyError for what is not `expected`."""

    parse: Callable[[str], Any]
    expected: str


@dataclass(frozen=True)
class Prefixed:
    """All options that begin with a prefix, as a mapping of names without it."""

    prefix: str


class OptionModel(BaseModel):
    """The options of a connector."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def take(cls, bag: Bag) -> Self:
        """Take the declared options out of a bag, in their order, and check them together."""
        spans = {name: bag.span_of(name) for name in cls.model_fields}
        values = {name: _take(bag, name, field) for name, field in cls.model_fields.items()}
        options = cls(**{name: value for name, value in values.items() if value is not None})
        options.check(spans)
        return options

    def check(self, spans: Spans) -> None:
        """Raise an error for values that are not allowed, or not together. `spans` are the places of the options."""


def _take(bag: Bag, name: str, field: FieldInfo) -> Any:
    for how in field.metadata:
        if isinstance(how, Prefixed):
            return bag.passed(how.prefix)
        if isinstance(how, Parsed):
            return bag.take(name, how.parse, how.expected)
    if field.is_required():
        return bag.required(name, str((field.examples or [""])[0]))
    if field.annotation is bool:
        return bag.boolean(name)
    return bag.text(name) if field.default is None else bag.text(name) or field.default


def whole_number(minimum: int) -> Parsed:
    def parse(text: str) -> int:
        number = int(text.replace("_", ""))
        if number < minimum:
            raise ValueError(text)
        return number

    return Parsed(parse, f"a whole number from {minimum}")


SECONDS = Parsed(lambda text: parse_duration(text).total_seconds(), EXPECTED)
"""A duration, as a number of seconds."""


def not_zero(name: str, example: str, spans: Spans) -> Error:
    return make(
        "INVALID_OPTION", message=f"{name} cannot be zero", hint=f"write {name} = '{example}'", span=spans[name]
    )
