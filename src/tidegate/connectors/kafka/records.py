"""Records of Kafka as events of the bus."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.formats.events import Event

OPERATIONS = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}
_FIELDS = ("op", "before", "after")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_JSON = json.JSONDecoder(parse_constant=_no_constant)
_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Reader:
    """How records become events. `channel` is for all of them if it is given; `debezium`: they are all envelopes, so
    that tombstones say nothing new and anything else cannot be read."""

    relation: str
    channel: str | None
    debezium: bool

    def event(
        self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, now: int
    ) -> Event | None:
        """The event of a record, None if it has none. A ValueError says why it cannot be read."""
        if value is None and self.debezium:
            return None
        operation, payload, table = self._said(topic, key, value)
        channel = self.channel or (f"kafka:{topic}" if table is None else f"pgcdc:{table}")
        return Event(f"{topic}-{partition}-{offset}", channel, operation, payload, self.relation, now)

    def _said(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[str, str, str | None]:
        """The operation, the payload, and the table if the record is an envelope."""
        if value is None:
            return "DELETE", _TEXT.encode({"op": "DELETE", "key": _plain(key)}), None
        text, found = _decoded(value)
        envelope = found if _is_envelope(found) else _unwrapped(found)
        if envelope is not None:
            table = _table(envelope) or topic
            operation = OPERATIONS[envelope["op"]]
            return operation, _TEXT.encode(_change(operation, table, envelope)), table
        if self.debezium:
            raise ValueError("it is not a Debezium envelope in JSON")
        return "INSERT", text if found is not _NOT_JSON else _TEXT.encode(_wrapped(value)), None


_NOT_JSON = object()


def _decoded(value: bytes) -> tuple[str, Any]:
    """The text of a record and what it says as JSON."""
    try:
        text = value.decode()
        found, end = _JSON.raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return "", _NOT_JSON
    return (text.strip(), found) if not text[end:].strip() else ("", _NOT_JSON)


def _is_envelope(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("op"), str)
        and found["op"] in OPERATIONS
        and all(found.get(name) is None or isinstance(found[name], dict) for name in _FIELDS[1:])
        and ("before" in found or "after" in found or found["op"] == "t")
    )


def _unwrapped(found: Any) -> Any:
    """An envelope inside of `{"schema": ..., "payload": ...}`."""
    inner = found.get("payload") if isinstance(found, dict) and "schema" in found else None
    return inner if _is_envelope(inner) else None


def _table(envelope: dict[str, Any]) -> str | None:
    """The table of a change, with its schema unless that is `public`."""
    source = envelope.get("source")
    if not isinstance(source, dict):
        return None
    name, schema = source.get("table") or source.get("collection"), source.get("schema")
    return None if not isinstance(name, str) else name if schema in (None, "", "public") else f"{schema}.{name}"


def _change(operation: str, table: str, envelope: dict[str, Any]) -> dict[str, Any]:
    """The same as a change that comes from PostgreSQL itself."""
    said = {"op": operation, "table": table, "row": envelope.get("after"), "old": envelope.get("before")}
    return said | {"snapshot": True} if envelope["op"] == "r" else said


def _wrapped(value: bytes) -> dict[str, str]:
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _plain(key: bytes | None) -> Any:
    """A key as JSON: what it says if it is JSON, else its text."""
    if key is None:
        return None
    _, found = _decoded(key)
    return next(iter(_wrapped(key).values())) if found is _NOT_JSON else found
