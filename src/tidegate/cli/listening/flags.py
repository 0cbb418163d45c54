"""The flags of `tidegate listen` as configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate.cli.listening.config import (
    Config,
    Endpoint,
    Origin,
    Role,
    Setting,
    View,
    checked_emit,
    checked_max_groups,
    checked_name,
    checked_port,
    default_name,
)
from tidegate.cli.listening.environment import missing
from tidegate.errors import Span


class Flag(NamedTuple):
    """A flag that is one option of a source or an adapter. `required`: the endpoint needs it."""

    role: Role
    kind: str
    option: str
    required: bool = False


FLAGS = {
    "--postgres": Flag("source", "postgres", "url", True),
    "--table": Flag("source", "postgres", "tables"),
    "--publication": Flag("source", "postgres", "publication"),
    "--slot": Flag("source", "postgres", "slot"),
    "--snapshot": Flag("source", "postgres", "snapshot"),
    "--notify": Flag("source", "notify", "channels", True),
    "--outbox": Flag("source", "outbox", "table", True),
    "--webhook-source": Flag("source", "webhook", "port", True),
    "--webhook-source-secret-env": Flag("source", "webhook", "secret"),
    "--kafka-source": Flag("source", "kafka", "bootstrap_servers", True),
    "--kafka-source-topic": Flag("source", "kafka", "topic", True),
    "--stdout": Flag("adapter", "stdout", ""),
    "--file": Flag("adapter", "file", "path", True),
    "--webhook": Flag("adapter", "webhook", "url", True),
    "--webhook-secret-env": Flag("adapter", "webhook", "secret"),
    "--sse": Flag("adapter", "sse", "port", True),
    "--sse-token-env": Flag("adapter", "sse", "token"),
    "--kafka": Flag("adapter", "kafka", "bootstrap_servers", True),
    "--kafka-topic": Flag("adapter", "kafka", "topic", True),
    "--postgres-sink": Flag("adapter", "postgres", "url", True),
    "--postgres-sink-table": Flag("adapter", "postgres", "table", True),
    "--redis": Flag("adapter", "redis", "url", True),
    "--redis-stream": Flag("adapter", "redis", "stream", True),
}


def endpoints(values: Mapping[str, str], role: Role, environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The sources or adapters of the flags that have a value. A flag that ends in -env names the environment variable
    with the value."""
    by_kind: dict[str, Endpoint] = {}
    for name, value in values.items():
        flag, origin = FLAGS[name], Origin(name)
        if flag.role != role:
            continue
        if not value.strip():
            raise origin.error("INVALID_OPTION", "its value is empty", "if it is a variable of the shell: is it set?")
        endpoint = by_kind.setdefault(flag.kind, Endpoint(default_name(role, flag.kind), flag.kind, (), origin))
        if flag.option:
            setting = Setting(flag.option, value, origin)
            if name.endswith("-env"):
                setting = _from_environment(flag.option, value, environment, origin)
            by_kind[flag.kind] = endpoint.with_defaults([setting])
    return tuple(by_kind.values())


def _from_environment(option: str, name: str, environment: Mapping[str, str], origin: Origin) -> Setting:
    """An option whose value stays in the environment: the statement has a reference."""
    if name not in environment:
        raise missing(name, origin, f"export {name}=...")
    is_name = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    return Setting(option, environment[name], origin, f"${{{name}}}" if is_name else None)


def read_view(text: str) -> View:
    """`name:SELECT ...`; only the first colon counts."""
    name, colon, query = text.partition(":")
    name = name.strip()
    if not colon or len(name.split()) != 1:
        excerpt = text.strip() if len(text.strip()) <= 40 else f"{text.strip()[:40]}..."
        origin = Origin("--view-query")
        raise origin.error("INVALID_OPTION", f"'{excerpt}' has no name", "write --view-query 'name:SELECT ...'")
    checked_name(name, "a view", Origin("--view-query"))
    origin = Origin(f"--view-query {name}")
    if not query.strip():
        raise origin.error("MISSING_OPTION", f"view {name} has no query", f"write --view-query '{name}:SELECT ...'")
    return View(name, query, Origin(origin.label, query, Span(0, len(query))))


def flag_config(
    values: Mapping[str, str],
    views: Sequence[str],
    environment: Mapping[str, str],
    *,
    channels: Sequence[str] = (),
    emit: str | None = None,
    max_groups: int | None = None,
    data: Path | None = None,
    temporary: bool = False,
    metrics_port: int | None = None,
    metrics_host: str | None = None,
    master: str | None = None,
) -> Config:
    """The configuration that the flags set."""
    return Config(
        sources=endpoints(values, "source", environment),
        views=tuple(read_view(text) for text in views),
        adapters=endpoints(values, "adapter", environment),
        channels=Setting("channels", ", ".join(channels), Origin("--channel")) if channels else None,
        emit=None if emit is None else checked_emit(emit, Origin("--view-emit")),
        max_groups=None if max_groups is None else checked_max_groups(str(max_groups), Origin("--view-max-groups")),
        data=data,
        temporary=temporary or None,
        metrics_port=None if metrics_port is None else checked_port(str(metrics_port), "it", Origin("--metrics-port")),
        metrics_at=None if metrics_port is None else Origin("--metrics-port"),
        metrics_host=metrics_host,
        master=master,
    )
