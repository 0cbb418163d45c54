"""What `FROM OUTBOX (...)` can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tidegate.connectors.postgres.options import Server, server_options, table_name
from tidegate.core.options import Bag

COLUMNS = {
    "id": ("id",),
    "channel": ("channel", "aggregatetype", "aggregate_type"),
    "operation": ("operation", "event_type", "type"),
    "payload": ("payload",),
    "created_at": ("created_at",),
}
"""What the columns of an outbox are called unless an option such as `id_column` says it; the first that is there."""

NEEDED = ("id", "channel", "payload")
_POLL = timedelta(milliseconds=500)


@dataclass(frozen=True)
class OutboxOptions:
    """`keep`: rows that were taken are marked in the column `processed` instead of being deleted."""

    server: Server
    table: tuple[str, ...]
    columns: dict[str, Sequence[str]]
    keep: bool
    processed: str
    poll_interval: timedelta
    batch: int


def outbox_options(bag: Bag) -> OutboxOptions:
    """Takes a source's options out of the bag."""
    server = server_options(bag)
    table = bag.take("table", table_name, "a name such as 'outbox' or 'sales.outbox'")
    columns = {name: _spellings(bag.text(f"{name}_column"), usual) for name, usual in COLUMNS.items()}
    return OutboxOptions(
        server,
        table or ("outbox",),
        columns,
        bag.boolean("keep"),
        bag.text("processed_column", "processed_at") or "processed_at",
        bag.duration("poll_interval", _POLL) or _POLL,
        bag.integer("batch_size", 1000, minimum=1) or 1000,
    )


def _spellings(given: str | None, usual: Sequence[str]) -> Sequence[str]:
    return usual if given is None else (given,)
