"""Tables whose source is read as a whole: at the start, by REFRESH TABLE, or periodically."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from tidegate import errors
from tidegate.catalog.relation import Relation
from tidegate.connectors.contract import FileStream, PolledSource
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.schema import names
from tidegate.core.tables import counted
from tidegate.core.types import nullable_schema
from tidegate.core.zset import frame_of
from tidegate.runtime.contents import Contents
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.sources import polled_source, source_of
from tidegate.spark.connection import SparkConnection
from tidegate.storage.insert_log import EntryHeader, InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_header import RejectedRow
from tidegate.storage.step_log import StepLog

_log = logging.getLogger(__name__)

SHOWN_ERRORS = 1000
RETRY_SECONDS = 5.0


class PolledTables:
    """Reads polled tables and appends the difference to the insert log, so that a step makes them equal to their
    source."""

    def __init__(
        self,
        catalog: CurrentCatalog,
        ledger: Ledger,
        inserts: InsertLog,
        log: StepLog,
        contents: Contents,
        spark: SparkConnection,
    ) -> None:
        self._catalog, self._ledger, self._inserts, self._log = catalog, ledger, inserts, log
        self._contents, self._spark = contents, spark
        self._poller: _Poller | None = None

    def load_due(self) -> None:
        """Read the tables that were never read, or whose period has passed."""
        now = time.time_ns() // 1000
        refreshes = self._ledger.refreshes()
        for relation, source in self._polled():
            if relation.name not in refreshes or _is_due(source, refreshes[relation.name].time_us, now):
                self._read(relation, source)

    def refresh(self, name: str, span: errors.Span | None = None) -> str:
        """REFRESH TABLE or SOURCE: read a whole table again, or the files that could not be read. Returns what was
        done."""
        relation = self._catalog.value.get(name, span)
        if relation.connector is not None and isinstance(source_of(relation), FileStream):
            files = self._spark.pipeline.retry_files(relation.name)
            return f"{counted(files, 'file')} of {relation.name} that could not be read: the next step tries again"
        source = polled_source(relation) if relation.kind == "table" else None
        if source is None:
            follows = relation.kind == "table" and relation.connector is not None
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation.name} follows its origin by itself"
                if follows
                else f"{relation.name} is not read anew",
                hint="create it with refresh = 'manual' to read it when told to"
                if follows
                else "INSERT, UPDATE or DELETE rows",
                span=span,
            )
        self._read(relation, source)
        return f"table {relation.name} was read anew; the next step has it"

    def start_polling(self) -> None:
        """Read tables again whenever they are due, from a thread, if there is one with a period."""
        if self._poller is None and self.seconds_until_due() is not None:
            self._poller = _Poller(self)

    def stop_polling(self) -> None:
        if self._poller is not None:
            self._poller.stop()
            self._poller = None

    def seconds_until_due(self) -> float | None:
        """The seconds until a table has to be read again; None if no table is read periodically."""
        now = time.time_ns() // 1000
        refreshes = self._ledger.refreshes()
        delays = [
            0.0
            if (last := refreshes.get(relation.name)) is None
            else microseconds_left(last.time_us, period, now) / 1e6
            for relation, source in self._polled()
            if (period := source.poll_interval_us) is not None
        ]
        return min(delays, default=None)

    def _polled(self) -> list[tuple[Relation, PolledSource]]:
        sources = ((relation, polled_source(relation)) for relation in self._catalog.value.of_kind("table"))
        return [(relation, source) for relation, source in sources if source is not None]

    def _read(self, relation: Relation, source: PolledSource) -> None:
        """Append what has changed, in one entry: rows that are gone are deleted, rows that differ are written. Rows
        that cannot be decoded are errors of that step, unless the last reading had the same ones."""
        read = frame_of(source.content(self._spark.session))
        key, schema = list(relation.primary_key), nullable_schema(relation.columns)
        decoded = read.filter(pl.col(ERROR).is_null()).sort(SEQ)
        last = decoded.unique(key, keep="last", maintain_order=True).filter(pl.col(WEIGHT) > 0)
        last = last.select(names(relation.columns))
        pending = [rows for rows, _ in self._contents.pending(relation)]
        present = self._possible_rows(relation, schema, pending)
        deleted = present.join(last, on=key, how="anti")
        changed = last if pending else _changed(last, present)
        tables = [(rows.to_arrow().cast(schema), weight) for rows, weight in ((deleted, -1), (changed, 1))]
        rejected, digest = _rejected(relation, read.filter(pl.col(ERROR).is_not_null()))
        before = self._ledger.refreshes().get(relation.name)
        new = rejected if before is None or before.refused != digest else []
        parts = [(relation.name, table, weight) for table, weight in tables if table.num_rows]
        entry = self._inserts.append(parts, EntryHeader(errors=tuple(RejectedRow(*each) for each in new)))
        self._ledger.refreshed(relation.name, entry, time.time_ns() // 1000, digest)

    def _possible_rows(self, relation: Relation, schema: pa.Schema, pending: Sequence[pa.Table]) -> pl.DataFrame:
        """Rows that may be in the table: those of the last step, and those that were pending before it (a step may
        end in between, and then they are in both)."""
        tables = [self._log.content(relation.name, schema, None), *pending]
        rows = frame_of(pa.concat_tables([table.cast(schema) for table in tables]))
        return rows.unique(list(relation.primary_key))


class _Poller:
    """The thread that reads tables again when they are due."""

    def __init__(self, tables: PolledTables) -> None:
        self._tables = tables
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="tidegate-poller")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while (wait := self._tables.seconds_until_due()) is not None and not self._stopped.wait(max(wait, 0.05)):
            try:
                self._tables.load_due()
            except (OSError, errors.Error) as problem:
                _log.warning("a table could not be read again: %s", problem)
                self._stopped.wait(RETRY_SECONDS)


def _is_due(source: PolledSource, last_us: int, now_us: int) -> bool:
    period = source.poll_interval_us
    return period is not None and not microseconds_left(last_us, period, now_us)


def microseconds_left(last_us: int, period_us: int, now_us: int) -> int:
    """Until the end of a period. One that seems to have begun later than now is over: the clock was set back."""
    return max(0, last_us + period_us - now_us) if last_us <= now_us else 0


def _rejected(relation: Relation, bad: pl.DataFrame) -> tuple[list[list[str]], str]:
    """Rows that could not be decoded, as errors, and a digest of them."""
    errors = [
        [relation.name, "MALFORMED_ROW", message, raw or ""]
        for message, raw in bad.select(ERROR, RAW).head(SHOWN_ERRORS).iter_rows()
    ]
    return errors, hashlib.sha256(json.dumps(errors).encode()).hexdigest()[:16]


def _changed(rows: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """The rows that the table does not have as they are. Nested values are not compared: such rows are all written."""
    if any(type.is_nested() for type in rows.dtypes):
        return rows
    return rows.join(present.cast(rows.schema), on=rows.columns, how="anti", nulls_equal=True)
