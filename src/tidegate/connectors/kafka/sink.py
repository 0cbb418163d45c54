"""`INTO KAFKA`: the records of each step in one transaction, in a topic."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.kafka.options import WriteOptions, write_options
from tidegate.connectors.kafka.transactions import Connection, check_settings
from tidegate.core.durable import LastStep
from tidegate.core.options import Bag
from tidegate.errors import make
from tidegate.formats.contract import Encoder, Layout
from tidegate.formats.names import encoder


@dataclass
class KafkaSink(Sink):
    """Writes to Kafka, which records the last step in the transaction that wrote it. Brokers delete the records of
    sinks that wrote nothing for a week, so there is another one in a file; the later of the two counts."""

    options: WriteOptions
    encoder: Encoder
    _connection: Connection | None = None
    _owner: str = ""
    _last: LastStep | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> KafkaSink:
        key_at = bag.span_of("key")
        options = write_options(spec, bag)
        record_encoder = encoder(
            Layout(spec.name, spec.columns, options.key or spec.key), spec.format, bag, options.topic
        )
        bag.finish()
        check_settings(options)
        if record_encoder.takes == "upsert" and options.key and set(options.key) != set(spec.key):
            view_key = f"which is {', '.join(spec.key)}" if spec.key else "which it does not show"
            raise make(
                "INVALID_OPTION",
                message=f"rows are replaced by the key of the view, {view_key}",
                hint="leave out key" if spec.key else "SELECT the key in the view",
                span=key_at,
            )
        return cls(spec, options, record_encoder)

    @property
    def abilities(self) -> SinkAbilities:
        accepts = self.encoder.takes
        return SinkAbilities(accepts, accepts == "upsert", changelog_option="format = 'debezium', 'upsert' or 'ops'")

    def open(self, context: SinkContext) -> None:
        self._owner, self._last = context.owner, LastStep(context.folder, context.owner)
        self._connect()

    def write(self, step: int, changes: pa.Table) -> None:
        connection = self._connection or self._connect()
        last = self.last_step()
        if last is not None and step <= last:
            return
        try:
            connection.write(step, self.encoder.records(changes))
        except BaseException:
            self.close()
            raise
        self._remember(connection.last)

    def last_step(self) -> int | None:
        return None if self._last is None else self._last.step

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        self._connection = Connection(self.options, transactional_name(self._owner, self.spec.name))
        self._remember(self._connection.last)
        return self._connection

    def _remember(self, step: int | None) -> None:
        assert self._last is not None
        if step is not None and (self._last.step is None or step > self._last.step):
            self._last.keep(step)


def transactional_name(owner: str, sink: str) -> str:
    """Return the transactional id, the same for every process that runs this creation of the sink, and no other."""
    return f"tidegate-{hashlib.sha256(f'{owner} {sink}'.encode()).hexdigest()[:24]}"
