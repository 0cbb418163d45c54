"""The configuration of a file and of flags, merged and completed with defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from tidegate.catalog.bus import BUS, RESULTS
from tidegate.cli.listening.config import Config, Endpoint, Origin, Setting, View
from tidegate.cli.listening.flags import FLAGS
from tidegate.errors import make

CONNECTION = ("url", "host", "hostname", "port", "database", "dbname", "user", "username", "password", "sslmode")
"""Options of the connection to PostgreSQL, which its sources share."""

T = TypeVar("T")


def merge(file: Config, flags: Config) -> Config:
    """Merge a file with flags. Flags override the file: option by option for sources and adapters, as a whole for
    views."""
    _check_unique("view", file.views)
    _check_unique("view", flags.views)
    _check_unique("source", file.sources)
    _check_unique("adapter", file.adapters)
    by_flag = {view.name.casefold() for view in flags.views}
    return Config(
        sources=_endpoints(file.sources, flags.sources),
        views=(*(view for view in file.views if view.name.casefold() not in by_flag), *flags.views),
        adapters=_endpoints(file.adapters, flags.adapters),
        channels=flags.channels or file.channels,
        emit=flags.emit,
        max_groups=flags.max_groups,
        data=flags.data or (None if flags.temporary else file.data),
        temporary=flags.temporary if flags.temporary or flags.data else file.temporary,
        metrics_port=_first(flags.metrics_port, file.metrics_port),
        metrics_at=flags.metrics_at or file.metrics_at,
        metrics_host=flags.metrics_host or file.metrics_host,
        master=flags.master or file.master,
        file=file.file,
    )


def _first(value: T | None, other: T | None) -> T | None:
    return value if value is not None else other


def _endpoints(file: Sequence[Endpoint], flags: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    in_file = {each.name: each for each in file}
    in_flags = {each.name: each for each in flags}
    merged = [replace(in_flags[name].with_defaults(each.settings), origin=each.origin) if name in in_flags else each
            for name, each in in_file.items()]  # fmt: skip
    return (*merged, *(each for name, each in in_flags.items() if name not in in_file))


def _check_unique(noun: str, items: Iterable[View] | Iterable[Endpoint]) -> None:
    origins: dict[str, Origin] = {}
    for item in items:
        first = origins.setdefault(item.name.casefold(), item.origin)
        if first is not item.origin:
            hint = f"the first one is {first.label}: give one of them another name"
            raise item.origin.error("INVALID_OPTION", f"{noun} {item.name} is declared twice", hint)


def complete_config(config: Config) -> Config:
    """Add defaults, and raise if something is missing."""
    _check_defaults(config)
    sources = _with_connection(config.sources)
    for each in chain(sources, config.adapters):
        _check_flags(each)
    completed = replace(
        config,
        sources=_with_tables(sources),
        views=tuple(_with_view_defaults(view, config) for view in config.views),
        adapters=tuple(each.with_defaults([*_format(each), _channels(config)]) for each in config.adapters),
    )
    _check_not_empty(completed)
    _check_names(completed)
    return completed


def _check_defaults(config: Config) -> None:
    if config.data and config.temporary:
        raise make("INVALID_OPTION", message="--data and --temporary contradict each other", hint="leave one out")
    for setting in (config.emit, config.max_groups):
        if setting is not None and not config.views:
            hint = "add --view-query 'name:SELECT ...'"
            raise setting.origin.error("INVALID_OPTION", "there is no view that it applies to", hint)
    if config.channels is not None and not config.adapters:
        hint = "add --stdout, or another adapter"
        raise config.channels.origin.error("INVALID_OPTION", "there is no adapter that it applies to", hint)


def _with_connection(sources: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """NOTIFY and OUTBOX read the database of `postgres`, unless they name another one."""
    postgres = next((each for each in sources if each.name == "postgres"), None)
    shared = [] if postgres is None else [each for each in postgres.settings if each.key in CONNECTION]
    return tuple(
        each.with_defaults(shared) if each.kind in ("notify", "outbox") and not _has_address(each) else each
        for each in sources
    )


def _has_address(endpoint: Endpoint) -> bool:
    return any(setting.key in ("url", "host", "hostname") for setting in endpoint.settings)


def _with_tables(sources: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Leave out a `postgres` source that only names the database for others: it captures nothing itself."""
    borrowed = any(each.kind in ("notify", "outbox") for each in sources)
    bare = [each for each in sources if each.kind == "postgres" and each.get("tables") is None]
    for each in bare:
        if borrowed and {setting.key for setting in each.settings} <= set(CONNECTION):
            continue
        add = "--table orders, or --table '*'" if each.origin.is_flag else "tables: [orders], or tables: '*'"
        raise each.origin.error("MISSING_OPTION", "the tables to capture are missing", f"add {add} for all tables")
    return tuple(each for each in sources if each not in bare)


def _check_flags(endpoint: Endpoint) -> None:
    """Raise if a required flag is missing. Options of a file are checked by the connector."""
    if not endpoint.origin.is_flag:
        return
    needed = {name: flag for name, flag in FLAGS.items() if flag.kind == endpoint.kind and flag.required}
    role = FLAGS[endpoint.origin.label].role
    if endpoint.kind in ("notify", "outbox"):
        needed["--postgres"] = FLAGS["--postgres"]
    for name, flag in needed.items():
        if flag.role == role and endpoint.get(flag.option) is None:
            raise endpoint.origin.error("MISSING_OPTION", f"{name} is missing", f"add {name} ...")


def _with_view_defaults(view: View, config: Config) -> View:
    return replace(view, emit=view.emit or config.emit, max_groups=view.max_groups or config.max_groups)


def _format(adapter: Endpoint) -> list[Setting]:
    return [Setting("format", "json", adapter.origin)] if adapter.kind in ("stdout", "kafka") else []


def _channels(config: Config) -> Setting:
    """The channels of view results if there are views, else all channels."""
    if config.channels is not None:
        return config.channels
    return Setting("channels", f"{RESULTS}*" if config.views else "*", Origin("--channel"))


def _check_not_empty(config: Config) -> None:
    if not config.sources:
        hint = "add --postgres URL --table NAME, or --config FILE.yaml"
        raise make("MISSING_OPTION", message="there is nothing to listen to", hint=hint)
    if not config.views and not config.adapters:
        hint = "add --stdout, or --view-query 'name:SELECT ...'"
        raise make("MISSING_OPTION", message="there is no view and no adapter, so there would be no output", hint=hint)


def _check_names(config: Config) -> None:
    nouns: dict[str, str] = {BUS: "bus"}
    for noun, items in (("source", config.sources), ("view", config.views), ("adapter", config.adapters)):
        for item in items:
            other = nouns.setdefault(item.name.casefold(), noun)
            if other != noun:
                message = f"{noun} {item.name} has the name of the {other}"
                raise item.origin.error("INVALID_OPTION", message, f"give the {noun} another name")
