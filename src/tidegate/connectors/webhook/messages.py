"""Messages of sinks that send one JSON object per event of the bus or change of a view."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.rows import appended
from tidegate.connectors.stdout.sink import json_lines
from tidegate.formats.events import event_objects

Message = tuple[str, str]
"""The channel of an event or the op of a change, and the object."""


def messages(spec: SinkSpec, changes: pa.Table) -> Iterator[Message]:
    """Return the messages of a step, deterministically and in order."""
    if spec.events:
        events = appended(changes, spec)
        return zip(events.column("channel").to_pylist(), event_objects(events), strict=True)
    return zip(changes.column(0).to_pylist(), json_lines(changes), strict=True)


def arrays(objects: Iterator[str], most: int) -> Iterator[str]:
    """Yield JSON arrays of at most `most` objects."""
    while part := list(islice(objects, most)):
        yield f"[{','.join(part)}]"
