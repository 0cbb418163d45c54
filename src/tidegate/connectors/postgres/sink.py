"""`INTO POSTGRES`: the changes of each step in one transaction, in a table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.postgres.client import Away
from tidegate.connectors.postgres.sink_options import WriteOptions, write_options
from tidegate.connectors.postgres.sink_session import Session
from tidegate.core.options import Bag
from tidegate.errors import make


@dataclass
class PostgresSink(Sink):
    """PostgreSQL itself records the last step, in the transaction that wrote it."""

    options: WriteOptions
    _owner: str = ""
    _session: Session | None = None
    _last: int | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> PostgresSink:
        if spec.format is not None:
            raise make("UNKNOWN_FORMAT", message="POSTGRES has no formats", hint="leave FORMAT out", span=bag.span)
        return cls(spec, write_options(spec, bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities(self.options.mode, needs_key=self.options.mode == "upsert")

    def open(self, context: SinkContext) -> None:
        self.close()
        self._owner = context.owner
        self._begun()

    def write(self, step: int, changes: pa.Table) -> None:
        """Servers end sessions that rest for long: what fails in one that is not new is tried once more at once."""
        rested = self._session is not None
        try:
            self._apply(step, changes)
        except Away:
            if not rested:
                raise
            self._apply(step, changes)

    def last_step(self) -> int | None:
        return self._last

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _apply(self, step: int, changes: pa.Table) -> None:
        session = self._session or self._begun()
        if not changes.num_rows or (self._last is not None and step <= self._last):
            return
        try:
            session.write(step, changes)
        except BaseException:
            self.close()
            raise
        self._last = session.last

    def _begun(self) -> Session:
        self._session = Session(self.spec, self.options, self._owner)
        self._last = self._session.last
        return self._session
