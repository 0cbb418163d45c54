"""The configuration of `tidegate listen`, from flags or from a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tidegate.core.references import escape
from tidegate.errors import Error, Span, make

Role = Literal["source", "adapter"]

SOURCES = ("postgres", "notify", "outbox", "webhook", "kafka")
ADAPTERS = ("stdout", "file", "webhook", "sse", "kafka", "postgres", "redis")
EMITS = ("row", "batch")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Origin:
    """Where something was written: `listen.yaml:7` or `--webhook`. `span` is its position in `text`."""

    label: str
    text: str | None = field(default=None, repr=False)
    span: Span | None = None

    @property
    def is_flag(self) -> bool:
        return self.label.startswith("--")

    def error(self, code: str, message: str, hint: str | None = None) -> Error:
        """An error whose message begins with the location."""
        return make(code, message=f"{self.label}: {message}", hint=hint, span=self.span, text=self.text)


@dataclass(frozen=True)
class Setting:
    """One option with its value as text. `written`: the text with references, if the value has any."""

    key: str
    value: str = field(repr=False)
    origin: Origin
    written: str | None = None

    @property
    def option_text(self) -> str:
        """The value as an option of a connector in SQL."""
        return escape(self.value) if self.written is None else self.written


@dataclass(frozen=True)
class Endpoint:
    """A source or an adapter: the name of its relation, its connector, and its options."""

    name: str
    kind: str
    settings: tuple[Setting, ...]
    origin: Origin

    def get(self, key: str) -> str | None:
        return next((setting.value for setting in self.settings if setting.key == key), None)

    def with_defaults(self, others: Iterable[Setting]) -> Endpoint:
        """The endpoint with the options of `others` that it does not set itself."""
        own = {setting.key for setting in self.settings}
        added = tuple(setting for setting in others if setting.key not in own)
        return Endpoint(self.name, self.kind, (*self.settings, *added), self.origin)


@dataclass(frozen=True)
class View:
    """A query with a name. `origin` shows the query's own text."""

    name: str
    query: str
    origin: Origin
    emit: Setting | None = None
    max_groups: Setting | None = None


@dataclass(frozen=True)
class Config:
    """The whole configuration. `channels`, `emit` and `max_groups` are defaults for adapters and views;
    `metrics_at` is where the port of the metrics was written."""

    sources: tuple[Endpoint, ...] = ()
    views: tuple[View, ...] = ()
    adapters: tuple[Endpoint, ...] = ()
    channels: Setting | None = None
    emit: Setting | None = None
    max_groups: Setting | None = None
    data: Path | None = None
    temporary: bool | None = None
    metrics_port: int | None = None
    metrics_at: Origin | None = None
    metrics_host: str | None = None
    master: str | None = None
    file: Path | None = None


def default_name(role: Role, kind: str) -> str:
    """The name of a source or adapter that has none. All names share one namespace, so an adapter gets a suffix if its
    kind can also be a source."""
    return f"{kind}_sink" if role == "adapter" and kind in SOURCES else kind


def checked_name(name: str, what: str, origin: Origin) -> str:
    """A name that can be written in SQL without quotes."""
    if _NAME.fullmatch(name):
        return name
    suggestion = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")
    hint = "a name has letters, digits and _, and does not begin with a digit"
    if _NAME.fullmatch(suggestion):
        hint = f"{hint}: {suggestion}"
    raise origin.error("INVALID_OPTION", f"'{name}' cannot be the name of {what}", hint)


def checked_emit(value: str, origin: Origin) -> Setting:
    if value.casefold() not in EMITS:
        raise origin.error("INVALID_OPTION", f"emit cannot be '{value}'", "expected 'row' or 'batch'")
    return Setting("emit", value.casefold(), origin)


def checked_max_groups(value: str, origin: Origin) -> Setting:
    if not re.fullmatch(r"\d[\d_]*", value) or int(value) < 1:
        raise origin.error("INVALID_OPTION", f"max_groups cannot be '{value}'", "expected a whole number from 1")
    return Setting("max_groups", str(int(value)), origin)


def checked_port(value: str, name: str, origin: Origin) -> int:
    if not value.isdecimal() or int(value) > 65535:
        hint = "expected a port from 0 to 65535; 0 takes a free one"
        raise origin.error("INVALID_OPTION", f"{name} cannot be '{value}'", hint)
    return int(value)
