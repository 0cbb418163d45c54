"""Subscriptions: the changes of a relation, in the process that runs the pipeline or in another one."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.columns import OP, WEIGHT
from tidegate.runtime.boundary import Boundary
from tidegate.runtime.results import Change
from tidegate.storage.step_log import StepLog

POLL_SECONDS = 0.05


class Subscription:
    """Iterates over changes, step by step, with `for` or `async for`. Ends when nothing came for `timeout` seconds, or
    when it is closed."""

    def __init__(
        self,
        log: StepLog,
        relation: str,
        after: int,
        upsert: bool,
        timeout: float | None,
        first: pa.Table | None,
        alive: Callable[[], None],
        boundary: Boundary | None = None,
    ) -> None:
        self._log, self._relation, self._after = log, relation, after
        self._upsert, self._timeout, self._first, self._alive = upsert, timeout, first, alive
        self._closed, self._boundary = False, boundary

    def batches(self) -> Iterator[pa.Table]:
        """The changes of one step at a time, as Arrow: columns op, weight, step, then the view's."""
        if self._first is not None:
            yield self._first
        while not self._closed:
            last = self._wait()
            if last is None:
                return
            for step, table in self._log.changes(self._relation, self._after, last):
                yield visible(table, step, self._upsert)
            self._after = last

    def close(self) -> None:
        """End the iteration."""
        self._closed = True

    def __iter__(self) -> Iterator[Change]:
        for table in self.batches():
            yield from changes_of(table)

    async def __aiter__(self) -> AsyncIterator[Change]:
        """The same changes for `async for`. The event loop only waits; the log is read by a thread, which is never busy
        for longer than one step takes to read."""
        if self._first is not None:
            for change in changes_of(self._first):
                yield change
        while (last := await self._wait_async()) is not None:
            tables = self._log.changes(self._relation, self._after, last)
            while (item := await asyncio.to_thread(next, tables, None)) is not None:
                step, table = item
                for change in changes_of(visible(table, step, self._upsert)):
                    yield change
            self._after = last

    def _wait(self) -> int | None:
        """The newest step once there is one to read; None when the timeout has passed or the subscription is closed."""
        deadline = self._deadline()
        while not self._closed:
            if (last := self._newest()) is not None:
                return last
            if time.monotonic() >= deadline:
                return None
            with self._log.arrived:
                self._log.arrived.wait(POLL_SECONDS)
        return None

    async def _wait_async(self) -> int | None:
        """As `_wait`, in an event loop."""
        deadline = self._deadline()
        while not self._closed:
            if (last := await asyncio.to_thread(self._newest)) is not None:
                return last
            if time.monotonic() >= deadline:
                return None
            await asyncio.sleep(POLL_SECONDS)
        return None

    def _deadline(self) -> float:
        return math.inf if self._timeout is None else time.monotonic() + self._timeout

    def _newest(self) -> int | None:
        """The newest step if it was not read yet. Raises what ended the pipeline."""
        if self._boundary is None:
            return self._newest_step()
        self._boundary.require_open()
        with self._boundary.translated():
            return self._newest_step()

    def _newest_step(self) -> int | None:
        self._log.refresh()
        if self._log.last() > self._after:
            return self._log.last()
        self._alive()
        return None


def changes_of(table: pa.Table) -> Iterator[Change]:
    """The rows of a visible table as changes. By position, since a view may have columns called op, weight or step."""
    names = table.column_names[3:]
    for op, weight, step, *row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        yield Change(op, weight, step, dict(zip(names, row, strict=True)))


def inserted(rows: pa.Table, step: int) -> pa.Table:
    """The content of a relation as a change: every row is inserted in `step`."""
    count = rows.num_rows
    return visible(rows.append_column(OP, [["+I"] * count]).append_column(WEIGHT, [[1] * count]), step, False)


def visible(table: pa.Table, step: int, upsert: bool) -> pa.Table:
    """A logged table as readers see it: op, weight, step, columns; upsert readers get no `-U`."""
    if upsert:
        table = table.filter(pc.not_equal(table.column(OP), "-U"))
    names = [name for name in table.column_names if name not in (OP, WEIGHT)]
    head = {
        "op": table.column(OP),
        "weight": table.column(WEIGHT),
        "step": pa.repeat(pa.scalar(step, pa.int64()), table.num_rows),
    }
    columns = [*head.values(), *(table.column(name) for name in names)]
    return pa.Table.from_arrays(columns, names=[*head, *names])
