"""A record is a change with its op, its weight and its step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.formats.base import Layout
from tidegate.formats.changes import split
from tidegate.formats.encoding import ChangeWriter, KeyWriter
from tidegate.traits.kind import Kind


@dataclass(frozen=True)
class OpsEncoder:
    """Changes as they are: `{"op":"+I","weight":1,"step":3,"row":{...}}`."""

    layout: Layout
    writer: ChangeWriter
    key: KeyWriter

    @property
    def takes(self) -> Kind:
        return "changelog"

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        parts = split(changes, self.layout)
        values = self.writer.tagged(parts.rows, parts.ops, parts.weights, parts.steps)
        return iter(list(zip(self.key.keys(parts.rows), values, strict=True)))
