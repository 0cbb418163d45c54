"""Sources and adapters in the YAML file: a map by name or by type, or a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.cli.listening.config import (
    ADAPTERS,
    SOURCES,
    Endpoint,
    Origin,
    Role,
    Setting,
    checked_name,
    default_name,
)
from tidegate.cli.listening.document import Fields, Items, Node, Scalar
from tidegate.connectors.kafka.options import BROKERS
from tidegate.core.options import folded_key
from tidegate.core.references import escape
from tidegate.errors import did_you_mean, nearest

MAIN = {
    ("source", "postgres"): "url",
    ("source", "notify"): "channels",
    ("source", "outbox"): "table",
    ("source", "webhook"): "port",
    ("adapter", "file"): "path",
    ("adapter", "webhook"): "url",
    ("adapter", "sse"): "port",
}
"""The option that a single value stands for: `file: events.jsonl`."""

_BROKERS = dict.fromkeys(("brokers", *map(folded_key, BROKERS)), "bootstrap_servers")
SPELLINGS = {
    ("source", "postgres"): {"table": "tables"},
    ("source", "kafka"): _BROKERS,
    ("adapter", "kafka"): _BROKERS,
}
"""Options that are also flags have one name, so that the flag overrides the file."""


def sources(node: Node) -> Iterator[Endpoint]:
    return _endpoints(node, "source", SOURCES)


def adapters(node: Node) -> Iterator[Endpoint]:
    return _endpoints(node, "adapter", ADAPTERS)


def _endpoints(node: Node, role: Role, kinds: Sequence[str]) -> Iterator[Endpoint]:
    if isinstance(node, Fields):
        for key, each in node.fields.items():
            if not (isinstance(each, Scalar) and each.text == "false"):
                yield _by_key(key, each, node.keys[key], role, kinds)
    elif isinstance(node, Items):
        for each in node.items:
            yield _of_list(each, role, kinds)
    else:
        hint = f"write {role}s: {{{kinds[0]}: ...}}, or a list of {{type: {kinds[0]}, ...}}"
        raise node.origin.error("INVALID_OPTION", f"{role}s must be a map or a list, not a single value", hint)


def _by_key(key: str, node: Node, origin: Origin, role: Role, kinds: Sequence[str]) -> Endpoint:
    type_node = _type_node(node)
    if type_node is not None:
        kind = _kind(type_node.text, type_node.origin, role, kinds)
        return _endpoint(key, kind, node, origin, role, ("type",))
    if key not in kinds:
        hint = did_you_mean(key, kinds) if nearest(key, kinds) else f"say what it is: type: {' | '.join(kinds)}"
        raise origin.error("UNKNOWN_CONNECTOR", f"there is no {role} {key}", hint)
    return _endpoint(default_name(role, key), key, node, origin, role)


def _of_list(node: Node, role: Role, kinds: Sequence[str]) -> Endpoint:
    if isinstance(node, Scalar) and not node.is_null:
        kind = _kind(node.text, node.origin, role, kinds)
        no_options = Scalar("true", node.origin, node.own)
        return _endpoint(default_name(role, kind), kind, no_options, node.origin, role)
    type_node = _type_node(node)
    if type_node is None:
        raise node.origin.error("MISSING_OPTION", f"this {role} has no type", f"add type: {' | '.join(kinds)}")
    kind = _kind(type_node.text, type_node.origin, role, kinds)
    name_node = node.fields.get("name") if isinstance(node, Fields) else None
    name = name_node.text if isinstance(name_node, Scalar) else default_name(role, kind)
    return _endpoint(name, kind, node, type_node.origin, role, ("type", "name"))


def _type_node(node: Node) -> Scalar | None:
    value = node.fields.get("type") if isinstance(node, Fields) else None
    return value if isinstance(value, Scalar) and not value.is_null else None


def _kind(text: str, origin: Origin, role: Role, kinds: Sequence[str]) -> str:
    if text.casefold() not in kinds:
        raise origin.error("UNKNOWN_CONNECTOR", f"there is no {role} {text}", did_you_mean(text, kinds, f"{role}s"))
    return text.casefold()


def _endpoint(name: str, kind: str, node: Node, origin: Origin, role: Role, skip: Sequence[str] = ()) -> Endpoint:
    checked_name(name, f"{'an' if role == 'adapter' else 'a'} {role}", origin)
    settings = _settings(node, skip) if isinstance(node, Fields) else _main_setting(kind, node, role)
    spellings = SPELLINGS.get((role, kind), {})
    return Endpoint(
        name, kind, tuple(replace(each, key=spellings.get(each.key, each.key)) for each in settings), origin
    )


def _main_setting(kind: str, node: Node, role: Role) -> Iterator[Setting]:
    if isinstance(node, Scalar) and (node.is_null or node.text == "true"):
        return
    key = MAIN.get((role, kind))
    if key is None:
        raise node.origin.error(
            "INVALID_OPTION", f"{kind} must be a map of options", f"write {kind}: {{option: value}}"
        )
    yield _setting(key, node, key, node.origin)


def _settings(node: Fields, skip: Sequence[str]) -> Iterator[Setting]:
    """The options of a map. Nested options are flattened: `headers: {X-Team: a}` is `headers.X-Team`."""
    for key, each in node.fields.items():
        if key in skip:
            continue
        if isinstance(each, Fields):
            for inner, value in each.fields.items():
                yield _setting(f"{folded_key(key)}.{inner}", value, f"{key}.{inner}", each.position(inner))
        else:
            yield _setting(folded_key(key), each, key, node.position(key))


def _setting(key: str, node: Node, what: str, origin: Origin) -> Setting:
    value = join_values(node, what)
    scalars = [each for each in (node.items if isinstance(node, Items) else [node]) if isinstance(each, Scalar)]
    if all(each.written is None for each in scalars):
        return Setting(key, value, origin)
    texts = (escape(each.text) if each.written is None else each.written for each in scalars)
    return Setting(key, value, origin, ", ".join(texts))


def join_values(node: Node, what: str) -> str:
    """A value as text; the values of a list are joined with commas."""
    match node:
        case Scalar(is_null=False):
            return node.text
        case Items() if node.items and all(isinstance(item, Scalar) for item in node.items):
            return ", ".join(item.text for item in node.items if isinstance(item, Scalar))
        case _:
            hint = f"write {what}: value, or {what}: [value, value]"
            raise node.origin.error("INVALID_OPTION", f"{what} must be a value or a list of values", hint)
