"""Which connectors there are, and how a statement's words become one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.catalog.bus import BUS, is_bus
from tidegate.connectors.base import AnySource, Sink, SinkSpec, Source, SourceSpec
from tidegate.core.options import Bag, Given
from tidegate.core.schema import Schema
from tidegate.errors import Error, Span, did_you_mean, enumerated, make

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


def _files_source(spec: SourceSpec, bag: Bag) -> Source:
    from tidegate.connectors.files.source import FilesSource

    return FilesSource.build(spec, bag)


def _datagen_source(spec: SourceSpec, bag: Bag) -> Source:
    from tidegate.connectors.datagen.source import DatagenSource

    return DatagenSource.build(spec, bag)


def _kafka_source(spec: SourceSpec, bag: Bag) -> Source:
    from tidegate.connectors.kafka.source import KafkaSource

    return KafkaSource.build(spec, bag)


def _postgres_source(spec: SourceSpec, bag: Bag) -> Source:
    from tidegate.connectors.postgres.source import PostgresSource

    return PostgresSource.build(spec, bag)


def _notify_source(spec: SourceSpec, bag: Bag) -> AnySource:
    from tidegate.connectors.notify.source import NotifySource

    return NotifySource.build(spec, bag)


def _outbox_source(spec: SourceSpec, bag: Bag) -> AnySource:
    from tidegate.connectors.outbox.source import OutboxSource

    return OutboxSource.build(spec, bag)


def _webhook_source(spec: SourceSpec, bag: Bag) -> AnySource:
    from tidegate.connectors.webhook.source import WebhookSource

    return WebhookSource.build(spec, bag)


def _postgres_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.postgres.sink import PostgresSink

    return PostgresSink.build(spec, bag)


def _redis_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.redis.sink import RedisSink

    return RedisSink.build(spec, bag)


def _file_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.file.sink import FileSink

    return FileSink.build(spec, bag)


def _webhook_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.webhook.sink import WebhookSink

    return WebhookSink.build(spec, bag)


def _sse_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.sse.sink import SseSink

    return SseSink.build(spec, bag)


def _kafka_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.kafka.sink import KafkaSink

    return KafkaSink.build(spec, bag)


def _files_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.files.sink import FilesSink

    return FilesSink.build(spec, bag)


def _stdout_sink(spec: SinkSpec, bag: Bag) -> Sink:
    from tidegate.connectors.stdout.sink import StdoutSink

    return StdoutSink.build(spec, bag)


SOURCES: dict[str, Callable[[SourceSpec, Bag], AnySource]] = {
    "FILES": _files_source,
    "DATAGEN": _datagen_source,
    "KAFKA": _kafka_source,
    "POSTGRES": _postgres_source,
    "NOTIFY": _notify_source,
    "OUTBOX": _outbox_source,
    "WEBHOOK": _webhook_source,
}
FEEDING = {"KAFKA": False, "POSTGRES": False, "NOTIFY": True, "OUTBOX": True, "WEBHOOK": True}
"""The connectors whose sources may be without columns, to feed the bus; True: they are always."""
SINKS: dict[str, Callable[[SinkSpec, Bag], Sink]] = {
    "FILES": _files_sink,
    "STDOUT": _stdout_sink,
    "KAFKA": _kafka_sink,
    "FILE": _file_sink,
    "POSTGRES": _postgres_sink,
    "REDIS": _redis_sink,
    "SSE": _sse_sink,
    "WEBHOOK": _webhook_sink,
}


def source(
    kind: str,
    relation: str,
    columns: Schema,
    options: Given,
    format: str | None = None,
    span: Span | None = None,
    key: tuple[str, ...] = (),
) -> AnySource:
    """The source that `FROM kind (options) [FORMAT format]` asks for, with every option checked."""
    name = canonical(kind)
    if name not in SOURCES:
        raise _no_connector(kind, name, "source", SOURCES, SINKS, span)
    if not columns and name not in FEEDING:
        message = f"source {relation} has no columns, and {name} has no events for {BUS}"
        raise make(
            "SYNTAX_ERROR", message=message, hint=f"write CREATE SOURCE {relation} (column TYPE, ...)", span=span
        )
    if columns and name in FEEDING and FEEDING[name]:
        message = f"{name} has no columns: what it captures are events of {BUS}"
        hint = f"write CREATE SOURCE {relation} FROM {name} (...), and read FROM {BUS}"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=span)
    given = list(options)
    bag = Bag(name, given, span)
    spec = SourceSpec(name, relation, columns, {key: value for key, value, _ in given}, _format(bag, kind, format), key)
    built = SOURCES[name](spec, bag)
    bag.finish()
    return built


def sink(
    kind: str,
    name: str,
    columns: Schema,
    options: Given,
    format: str | None = None,
    span: Span | None = None,
    key: tuple[str, ...] = (),
    reads: str = "",
) -> Sink:
    """The sink that `INTO kind (options) [FORMAT format]` asks for, with every option checked. One that reads the bus
    may say which `channels` it wants; that is not its own affair."""
    found = _SINK_ALIASES.get(kind.upper()) or canonical(kind)
    if found not in SINKS:
        raise _no_connector(kind, found, "sink", SINKS, SOURCES, span)
    given = list(options)
    bag = Bag(found, given, span)
    if is_bus(reads):
        bag.take("channels", channel_patterns, "patterns such as 'pgcdc:orders, pgcdc:_view:*'")
    given_options = {key: value for key, value, _ in given}
    spec = SinkSpec(found, name, columns, given_options, _format(bag, kind, format), key, reads)
    built = SINKS[found](spec, bag)
    bag.finish()
    return built


def channel_patterns(text: str) -> tuple[str, ...]:
    """`pgcdc:orders, pgcdc:_view:*` as its parts."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise ValueError(text)
    return found


def canonical(kind: str) -> str:
    """A connector's one name: `filesystem` is FILES, `postgres-cdc` is POSTGRES_CDC."""
    upper = kind.upper().replace("-", "_")
    return _ALIASES.get(upper, upper)


def _format(bag: Bag, kind: str, clause: str | None) -> str | None:
    """FORMAT x, format = 'x' and Flink's 'value.format' = 'x' are the same thing; they may not differ. The connector
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
    chosen = clause or option
    return chosen.casefold() if chosen else None


def _no_connector(
    kind: str, name: str, role: str, there: Mapping[str, object], others: Mapping[str, object], span: Span | None
) -> Error:
    known = sorted(there)
    if name in others:
        message = f"{name} cannot be a {role}"
    elif name in _NOT_YET:
        message = f"connector {name} is not built in yet"
    else:
        return make("UNKNOWN_CONNECTOR", name=kind, hint=did_you_mean(name, known, "connectors"), span=span)
    return make("NOT_SUPPORTED", message=message, hint=f"a {role} can be {enumerated(known)}", span=span)
