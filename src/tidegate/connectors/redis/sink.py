"""`INTO REDIS`: an entry of a stream for each change, or a key for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.redis.client import Connection
from tidegate.connectors.redis.commands import Command, entries, settings
from tidegate.connectors.redis.options import WriteOptions, write_options
from tidegate.core.options import Bag
from tidegate.errors import make

PART = 5_000
"""How many commands Redis runs at a time: nobody else is served meanwhile."""


@dataclass
class RedisSink(Sink):
    """Redis itself records the last step, together with what it wrote."""

    options: WriteOptions
    part: int = PART
    _connection: Connection | None = None
    _last: int | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> RedisSink:
        if spec.format is not None:
            raise make("UNKNOWN_FORMAT", message="REDIS has no formats", hint="leave FORMAT out", span=bag.span)
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
        for part, (commands, whole) in enumerate(_parts(self._commands(changes), self.part)):
            self._connection.apply(step, part, whole, commands)
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


def _parts(commands: Iterable[Command], size: int) -> Iterator[tuple[list[Command], bool]]:
    """Commands in parts, and whether a part is the last one."""
    rest = iter(commands)
    part = list(islice(rest, size))
    while part:
        following = list(islice(rest, size))
        yield part, not following
        part = following
