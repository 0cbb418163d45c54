"""`INTO REDIS`: an entry of a stream for each change, or a key for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.redis.client import Command, Connection
from tidegate.connectors.redis.options import WriteOptions, write_options
from tidegate.connectors.rows import appended, outcome, rows_in
from tidegate.core.options import Bag
from tidegate.core.render import json_cells, json_objects, text_cells
from tidegate.formats.events import SCHEMA


def entries(changes: pa.Table, spec: SinkSpec) -> Iterator[Command]:
    """Yield fields and values of each entry: those of an event, or op, weight, step and row of a change."""
    if spec.events:
        return _events(appended(changes, spec))
    return _changes(changes, spec)


def _events(rows: pa.Table) -> Iterator[Command]:
    names = [field.name for field in SCHEMA]
    for values in zip(*(_values(rows.column(name)) for name in names), strict=True):
        yield tuple(
            word for name, value in zip(names, values, strict=True) if value is not None for word in (name, value)
        )


def _values(column: pa.ChunkedArray[Any]) -> list[str | None]:
    """Render text unchanged, times in RFC 3339."""
    if pa.types.is_string(column.type):
        return list(column.to_pylist())
    return [None if cell == "null" else cell.strip('"') for cell in json_cells(column)]


def _changes(changes: pa.Table, spec: SinkSpec) -> Iterator[Command]:
    ops, weights, steps = (column.to_pylist() for column in changes.columns[:3])
    rows = json_objects(rows_in(changes, spec.columns))
    for op, weight, step, row in zip(ops, weights, steps, rows, strict=True):
        yield "op", op, "weight", str(weight), "step", str(step), "row", row


def settings(changes: pa.Table, spec: SinkSpec, prefix: str) -> Iterator[Command]:
    """Yield deleted keys alone, then the other keys with their rows."""
    remaining, deleted = outcome(changes, spec.columns, spec.key)
    yield from ((key,) for key in keys(deleted, spec.key, prefix))
    yield from zip(keys(remaining, spec.key, prefix), json_objects(remaining), strict=True)


def keys(rows: pa.Table, key: Sequence[str], prefix: str) -> Iterator[str]:
    r"""`totals:pen`; `totals:eu:pen` for a key of two columns. NULL is `\N`, a backslash is doubled, and so that no two
    keys are the same, a colon in a part of several is `\:`."""
    parts = [_parts(rows.column(name), len(key) > 1) for name in key]
    return (prefix + ":".join(texts) for texts in zip(*parts, strict=True))


def _parts(column: pa.ChunkedArray[Any], several: bool) -> list[str]:
    texts = [text.replace("\\", "\\\\") for text in text_cells(column)]
    texts = [text.replace(":", "\\:") for text in texts] if several else texts
    return [text if is_valid else "\\N" for text, is_valid in zip(texts, column.is_valid().to_pylist(), strict=True)]


PART = 5_000
"""Number of commands in one script, during which Redis serves no other client."""


@dataclass
class RedisSink(Sink):
    """Writes to Redis, which records the last step together with the data."""

    options: WriteOptions
    part: int = PART
    _connection: Connection | None = None
    _last: int | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> RedisSink:
        return cls(spec, write_options(spec, bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("upsert", needs_key=True) if self.options.mode == "keys" else SinkAbilities("changelog")

    def open(self, context: SinkContext) -> None:
        self.close()
        self._connection = Connection(self.options, context.owner)
        self._connection.check()
        self._last = self._connection.last()

    def write(self, step: int, changes: pa.Table) -> None:
        assert self._connection is not None
        if not changes.num_rows or (self._last is not None and step <= self._last):
            return
        for part, (commands, is_last) in enumerate(_chunks(self._commands(changes), self.part)):
            self._connection.apply(step, part, is_last, commands)
        self._last = step

    def last_step(self) -> int | None:
        return self._last

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _commands(self, changes: pa.Table) -> Iterator[Command]:
        if self.options.mode == "stream":
            return entries(changes, self.spec)
        return settings(changes, self.spec, self.options.prefix)


def _chunks(commands: Iterable[Command], size: int) -> Iterator[tuple[list[Command], bool]]:
    """Yield commands in parts; the flag is true for the last part."""
    rest = iter(commands)
    part = list(islice(rest, size))
    while part:
        following = list(islice(rest, size))
        yield part, not following
        part = following
