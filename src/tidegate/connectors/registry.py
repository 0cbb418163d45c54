"""Finds the connector of a statement by its name, and builds the source or sink that the statement asks for."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, NamedTuple

from tidegate.catalog.bus import BUS, is_bus
from tidegate.connectors.contract import ColumnPolicy, Connector, Sink, SinkSpec, Source, SourceSpec
from tidegate.core.options import Bag, OptionItems, folded_key
from tidegate.core.references import expand
from tidegate.core.schema import Schema
from tidegate.core.secrets import remember
from tidegate.errors import Error, Span, did_you_mean, enumerated, make

GROUP = "tidegate.connectors"
"""The entry point group of connectors in other packages."""


class BuiltIn(NamedTuple):
    """Where the builders of a connector are, as `module:function` below this package; imported when first used."""

    source: str | None = None
    sink: str | None = None
    columns: ColumnPolicy = "required"

    def load(self) -> Connector:
        return Connector(_load(self.source), _load(self.sink), self.columns)


BUILT_IN = {
    "DATAGEN": BuiltIn(source="datagen.source:DatagenSource.build"),
    "FILE": BuiltIn(sink="file.sink:FileSink.build"),
    "FILES": BuiltIn(source="files.source:FilesSource.build", sink="files.sink:FilesSink.build"),
    "KAFKA": BuiltIn(source="kafka.source:build", sink="kafka.sink:KafkaSink.build", columns="optional"),
    "NOTIFY": BuiltIn(source="postgres.notify:NotifySource.build", columns="none"),
    "OUTBOX": BuiltIn(source="postgres.outbox:OutboxSource.build", columns="none"),
    "POSTGRES": BuiltIn(source="postgres.source:build", sink="postgres.sink:PostgresSink.build", columns="optional"),
    "REDIS": BuiltIn(sink="redis.sink:RedisSink.build"),
    "SSE": BuiltIn(sink="sse.sink:SseSink.build"),
    "STDOUT": BuiltIn(sink="stdout.sink:StdoutSink.build"),
    "WEBHOOK": BuiltIn(
        source="webhook.source:WebhookSource.build", sink="webhook.sink:WebhookSink.build", columns="none"
    ),
}

_ALIASES = {
    "FILE": "FILES",
    "FILESYSTEM": "FILES",
    "PRINT": "STDOUT",
    "CONSOLE": "STDOUT",
    "UPSERT_KAFKA": "KAFKA",
    "POSTGRES_CDC": "POSTGRES",
    "POSTGRESQL": "POSTGRES",
    "LISTEN": "NOTIFY",
    "HTTP": "WEBHOOK",
}
_SINK_ALIASES = {"FILE": "FILE"}
_NOT_YET = ("MYSQL", "DELTA", "ICEBERG", "JDBC", "KINESIS", "PULSAR", "S3", "MQTT", "NATS")


def source(
    kind: str,
    relation: str,
    columns: Schema,
    options: OptionItems,
    format: str | None = None,
    span: Span | None = None,
    key: tuple[str, ...] = (),
    references: bool = True,
) -> Source:
    """Build the source of `FROM kind (options) [FORMAT format]`, with every option validated. `references`: those in
    the values of options are replaced."""
    name = canonical(kind)
    connector = _find(name)
    if connector is None or connector.source is None:
        raise _no_connector(kind, name, "source", connector, span)
    _check_columns(name, relation, columns, connector.columns, span)
    items = list(options)
    bag = _bag(name, items, span, references)
    bag.format = _format(bag, kind, format)
    texts = {key: value for key, value, _ in items}
    spec = SourceSpec(name, relation, columns, texts, bag.format, key, references)
    result = connector.source(spec, bag)
    bag.finish()
    return result


def sink(
    kind: str,
    name: str,
    columns: Schema,
    options: OptionItems,
    format: str | None = None,
    span: Span | None = None,
    key: tuple[str, ...] = (),
    reads: str = "",
    references: bool = True,
) -> Sink:
    """Build the sink of `INTO kind (options) [FORMAT format]`, with every option validated. The option `channels` of a
    sink that reads the bus is taken here: the runtime filters events, not the sink."""
    connector_name = _SINK_ALIASES.get(kind.upper()) or canonical(kind)
    connector = _find(connector_name)
    if connector is None or connector.sink is None:
        raise _no_connector(kind, connector_name, "sink", connector, span)
    items = list(options)
    bag = _bag(connector_name, items, span, references)
    if is_bus(reads):
        bag.take("channels", channel_patterns, "patterns such as 'pgcdc:orders, pgcdc:_view:*'")
    texts = {key: value for key, value, _ in items}
    bag.format = _format(bag, kind, format)
    spec = SinkSpec(connector_name, name, columns, texts, bag.format, key, reads)
    result = connector.sink(spec, bag)
    bag.finish()
    return result


def _bag(name: str, items: list[tuple[str, str, Span | None]], span: Span | None, references: bool) -> Bag:
    """The options with their references replaced. Their secrets are remembered, to be hidden in texts of libraries."""
    values = [(key, _value(key, value, at) if references else value, at) for key, value, at in items]
    for key, value, _ in values:
        remember(key, value)
    return Bag(name, values, span, {folded_key(key): value for key, value, _ in items})


def _value(key: str, text: str, at: Span | None) -> str:
    def fail(code: str, message: str, hint: str) -> Error:
        return make(code, message=f"option '{key}': {message}", hint=hint, span=at)

    return expand(text, fail=fail)


def channel_patterns(text: str) -> tuple[str, ...]:
    """Split `pgcdc:orders, pgcdc:_view:*` at its commas."""
    patterns = tuple(part.strip() for part in text.split(","))
    if not all(patterns):
        raise ValueError(text)
    return patterns


def canonical(kind: str) -> str:
    """Return a connector's one name: `filesystem` is FILES, `postgres-cdc` is POSTGRES."""
    upper = kind.upper().replace("-", "_")
    return _ALIASES.get(upper, upper)


def _find(name: str) -> Connector | None:
    """Return a connector; those of other packages cannot replace one that is built in."""
    if name in BUILT_IN:
        return BUILT_IN[name].load()
    entry = _installed(tuple(sys.path)).get(name)
    return None if entry is None else _load_entry(name, entry)


@cache
def _installed(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the connectors of installed packages by name. Scanning packages takes a while, so once per search path."""
    return {canonical(entry.name): entry for entry in entry_points(group=GROUP)}


def _load(location: str | None) -> Any:
    return None if location is None else resolve_name(f"tidegate.connectors.{location}")


def _load_entry(name: str, entry: EntryPoint) -> Connector:
    try:
        connector = entry.load()
    except (ImportError, AttributeError) as problem:
        raise _broken(name, entry, str(problem)) from problem
    if not isinstance(connector, Connector):
        raise _broken(name, entry, f"it is of type {type(connector).__name__}, not Connector")
    return connector


def _broken(name: str, entry: EntryPoint, reason: str) -> Error:
    package = entry.dist.name if entry.dist is not None else "its package"
    return make(
        "UNKNOWN_CONNECTOR",
        message=f"connector {name} cannot be loaded from {entry.value}",
        detail=reason,
        hint=f"install or update {package}",
    )


def _check_columns(name: str, relation: str, columns: Schema, policy: ColumnPolicy, span: Span | None) -> None:
    if not columns and policy == "required":
        message = f"source {relation} has no columns, and {name} has no events for {BUS}"
        hint = f"write CREATE SOURCE {relation} (column TYPE, ...)"
        raise make("SYNTAX_ERROR", message=message, hint=hint, span=span)
    if columns and policy == "none":
        message = f"{name} has no columns: what it captures are events of {BUS}"
        hint = f"write CREATE SOURCE {relation} FROM {name} (...), and read FROM {BUS}"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=span)


def _format(bag: Bag, kind: str, clause: str | None) -> str | None:
    """Return the format of FORMAT x, format = 'x' or Flink's 'value.format' = 'x', which may not differ. The connector
    upsert-kafka is KAFKA with a format upsert-x."""
    at = bag.span_of("format")
    option = bag.text("format", aliases=("value.format",))
    if kind.upper().replace("-", "_") == "UPSERT_KAFKA":
        return f"upsert-{(clause or option or 'json').casefold()}"
    if clause and option and clause.casefold() != option.casefold():
        raise make(
            "INVALID_OPTION",
            message=f"FORMAT {clause.upper()} and format = '{option}' contradict each other",
            hint="leave one out",
            span=at,
        )
    name = clause or option
    return name.casefold() if name else None


def _no_connector(kind: str, name: str, role: str, connector: Connector | None, span: Span | None) -> Error:
    names = _names(role)
    if connector is not None:
        message = f"{name} cannot be a {role}"
    elif name in _NOT_YET:
        message = f"connector {name} is not built in yet"
    else:
        return make("UNKNOWN_CONNECTOR", name=kind, hint=did_you_mean(name, names, "connectors"), span=span)
    return make("NOT_SUPPORTED", message=message, hint=f"a {role} can be {enumerated(names)}", span=span)


def _names(role: str) -> list[str]:
    """Return the connectors that can be a source or a sink. Those of other packages are not loaded for it."""
    built_in = [name for name, entry in BUILT_IN.items() if getattr(entry, role) is not None]
    return sorted({*built_in, *_installed(tuple(sys.path))})
