"""Helpers of the Kafka tests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.servers import Broker
from tidegate import Database


def topic(broker: Broker, word: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """Creates a topic whose name begins with a word, and returns the name."""
    return broker.create_topic(f"{word}-{uuid.uuid4().hex[:8]}", partitions, dict(config or {}))


def produce_json(
    broker: Broker, topic: str, *rows: Mapping[str, Any] | None, key: str | None = None, partition: int = 0
) -> None:
    """Sends rows as JSON; the key of a record is one of the row's fields, or none."""
    records = [
        (str(row[key]).encode() if row is not None and key is not None else None, json.dumps(row).encode())
        for row in rows
    ]
    broker.produce(topic, records, partition=partition)


def rows(db: Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(db.query(query).rows(), key=repr)


def errors_of(db: Database, relation: str) -> list[tuple[str, str]]:
    """Message and row of each error of a relation."""
    errors: Sequence[tuple[Any, ...]] = db.query(
        f"SELECT message, row FROM system.errors WHERE relation = '{relation}'"
    ).rows()
    return [(str(message), str(row)) for message, row in errors]
