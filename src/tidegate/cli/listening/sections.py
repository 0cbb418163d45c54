"""The sections of the YAML file as configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tidegate.cli.listening.config import (
    Config,
    Origin,
    Setting,
    View,
    checked_emit,
    checked_max_groups,
    checked_name,
    checked_port,
)
from tidegate.cli.listening.document import Fields, Items, Node, Scalar, read_document
from tidegate.cli.listening.endpoints import adapters, join_values, sources
from tidegate.errors import did_you_mean

VIEW_KEYS = ("name", "query", "emit", "max_groups")


def read_config(path: Path, text: str, environment: Mapping[str, str]) -> Config:
    """The configuration that a file sets."""
    root = read_document(path, text, environment)
    config = Config(file=path)
    if root is None:
        return config
    if not isinstance(root, Fields):
        raise root.origin.error("INVALID_OPTION", f"the file is {kind(root)}, not a map", "write keys such as views:")
    for key, node in root.fields.items():
        if key not in SECTIONS:
            raise unknown_key(key, SECTIONS, "the file", root.keys[key])
        config = SECTIONS[key](config, key, node)
    return config


def kind(node: Node) -> str:
    match node:
        case Fields():
            return "a map"
        case Items():
            return "a list"
        case Scalar(is_null=True):
            return "nothing"
        case _:
            return "a single value"


def unknown_key(key: str, known: Mapping[str, object] | tuple[str, ...], where: str, origin: Origin) -> Exception:
    hint = did_you_mean(key, known, "keys")
    return origin.error("UNKNOWN_OPTION", f"{where} has no key '{key}'", hint)


def text_of(node: Node, what: str, usage: str) -> Scalar:
    """A single value that is not null; `usage` is an example for the error."""
    if not isinstance(node, Scalar) or node.is_null:
        message = f"{what} must be a single value, not {kind(node)}"
        raise node.origin.error("INVALID_OPTION", message, f"write {usage}")
    return node


def _one_source(config: Config, key: str, node: Node) -> Config:
    section = Fields({key: node}, {key: node.origin}, node.origin)
    return replace(config, sources=(*config.sources, *sources(section)))


def _sources(config: Config, key: str, node: Node) -> Config:
    return replace(config, sources=(*config.sources, *sources(node)))


def _adapters(config: Config, key: str, node: Node) -> Config:
    return replace(config, adapters=(*config.adapters, *adapters(node)))


def _views(config: Config, key: str, node: Node) -> Config:
    """Read views: a map by name, or a list of views with a name."""
    if isinstance(node, Fields):
        views = [_view(name, each, node.keys[name]) for name, each in node.fields.items()]
    elif isinstance(node, Items):
        views = [_listed_view(each) for each in node.items]
    else:
        hint = "write views: {name: {query: SELECT ...}}, or a list of {name: ..., query: ...}"
        raise node.origin.error("INVALID_OPTION", f"views must be a map or a list, not {kind(node)}", hint)
    return replace(config, views=tuple(views))


def _listed_view(node: Node) -> View:
    if not isinstance(node, Fields):
        hint = "write - name: order_stats, and query: below it"
        raise node.origin.error("INVALID_OPTION", f"a view in the list must be a map, not {kind(node)}", hint)
    if "name" not in node.fields:
        raise node.origin.error("MISSING_OPTION", "a view in the list has no name", "add name: order_stats")
    name = text_of(node.fields["name"], "the name of a view", "name: order_stats")
    return _view(name.text, node, name.origin)


def _view(name: str, node: Node, origin: Origin) -> View:
    checked_name(name, "a view", origin)
    if isinstance(node, Scalar) and not node.is_null:
        return View(name, node.text, node.own)
    fields = node.fields if isinstance(node, Fields) else {}
    for key in fields:
        if key not in VIEW_KEYS:
            raise unknown_key(key, VIEW_KEYS, f"view {name}", node.keys[key] if isinstance(node, Fields) else origin)
    if "query" not in fields:
        raise origin.error("MISSING_OPTION", f"view {name} has no query", "add query: SELECT ... FROM pgcdc_events ...")
    query = text_of(fields["query"], f"the query of view {name}", "query: SELECT ... FROM pgcdc_events ...")
    emit = text_of(fields["emit"], "emit", "emit: batch") if "emit" in fields else None
    groups = text_of(fields["max_groups"], "max_groups", "max_groups: 10000") if "max_groups" in fields else None
    return View(
        name,
        query.text,
        query.own,
        emit=None if emit is None else checked_emit(emit.text, emit.origin),
        max_groups=None if groups is None else checked_max_groups(groups.text, groups.origin),
    )


def _channels(config: Config, key: str, node: Node) -> Config:
    return replace(config, channels=Setting("channels", join_values(node, "channels"), node.origin))


def _data(config: Config, key: str, node: Node) -> Config:
    return replace(config, data=Path(text_of(node, key, "data: /var/lib/tidegate/shop").text))


def _temporary(config: Config, key: str, node: Node) -> Config:
    value = text_of(node, key, "temporary: true")
    if value.text not in ("true", "false"):
        raise value.origin.error("INVALID_OPTION", f"temporary cannot be '{value.text}'", "expected true or false")
    return replace(config, temporary=value.text == "true")


def _metrics_port(config: Config, key: str, node: Node) -> Config:
    value = text_of(node, key, "metrics_port: 9090")
    return replace(config, metrics_port=checked_port(value.text, key, value.origin), metrics_at=value.origin)


def _metrics_host(config: Config, key: str, node: Node) -> Config:
    return replace(config, metrics_host=text_of(node, key, "metrics_host: 127.0.0.1").text)


def _master(config: Config, key: str, node: Node) -> Config:
    return replace(config, master=text_of(node, key, "master: spark://host:7077").text)


SECTIONS: dict[str, Callable[[Config, str, Node], Config]] = {
    "postgres": _one_source,
    "notify": _one_source,
    "outbox": _one_source,
    "sources": _sources,
    "views": _views,
    "adapters": _adapters,
    "sinks": _adapters,
    "channels": _channels,
    "data": _data,
    "temporary": _temporary,
    "metrics_port": _metrics_port,
    "metrics_host": _metrics_host,
    "master": _master,
}
