"""What `INTO KAFKA (...)` can be told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.kafka.options import BROKERS, PASSED
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.errors import Span, did_you_mean, make

TRANSACTION_TIMEOUT = timedelta(minutes=5)
_OWN = ("transactional.id", "enable.idempotence", "transaction.timeout.ms", "group.id", "isolation.level")


@dataclass(frozen=True)
class WriteOptions:
    """Where records go. `key` is empty if the user named none; `client` is for the Kafka client itself."""

    brokers: str
    topic: str
    key: tuple[str, ...] = ()
    transaction_timeout: timedelta = TRANSACTION_TIMEOUT
    client: Mapping[str, str] = field(default_factory=dict)


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Takes a sink's options out of the bag, all but those of its format."""
    key_at = bag.span_of("key")
    return WriteOptions(
        brokers=bag.required("brokers", "localhost:9092", BROKERS),
        topic=bag.required("topic", "totals"),
        key=_columns(bag.text("key", aliases=("key.fields", "primary_key")), spec, key_at),
        transaction_timeout=bag.duration("transaction_timeout", TRANSACTION_TIMEOUT) or TRANSACTION_TIMEOUT,
        client=_client(bag),
    )


def _columns(given: str | None, spec: SinkSpec, at: Span | None) -> tuple[str, ...]:
    """`key = 'region, item'`, as the columns are spelt in the view."""
    spelt = {name.casefold(): name for name in names(spec.columns)}
    found = [name.strip() for name in re.split(r"[,;]", given or "") if name.strip()]
    for name in found:
        if name.casefold() not in spelt:
            message = f"key: there is no column {name}"
            raise make(
                "INVALID_OPTION", message=message, hint=did_you_mean(name, list(spelt.values()), "columns"), span=at
            )
    return tuple(spelt[name.casefold()] for name in found)


def _client(bag: Bag) -> dict[str, str]:
    """`kafka.compression.type` or Flink's `properties.compression.type`, without the prefix."""
    at = {name: bag.span_of(f"{prefix}{name}") for prefix in PASSED for name in _OWN}
    found = {name: value for prefix in PASSED for name, value in bag.passed(prefix).items()}
    for name in _OWN:
        if name in found:
            hint = "write transaction_timeout" if name == "transaction.timeout.ms" else "leave it out"
            message = f"{name} cannot be set: the sink sets it itself, so that each step is written once"
            raise make("INVALID_OPTION", message=message, hint=hint, span=at[name])
    return found
