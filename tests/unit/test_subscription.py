"""Subscriptions over a step log, with `for` and with `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.core.columns import OP, WEIGHT
from tidegate.runtime.results import Change
from tidegate.runtime.subscription import Subscription, inserted
from tidegate.storage.folder import Folder
from tidegate.storage.step_header import StepHeader
from tidegate.storage.step_log import StepLog, StepRecord


@pytest.fixture
def log(tmp_path: Path) -> StepLog:
    folder = Folder(tmp_path / "data")
    folder.open()
    return StepLog(folder.storage)


def write(log: StepLog, step: int, *ops: str) -> None:
    rows = pa.table({OP: list(ops), WEIGHT: [1] * len(ops), "a": [step] * len(ops)})
    log.write(StepRecord(StepHeader.empty(step), {"v": rows}))


def change(op: str, step: int) -> Change:
    return Change(op, 1, step, {"a": step})


def subscribe(
    log: StepLog,
    timeout: float | None = 0,
    upsert: bool = False,
    first: pa.Table | None = None,
    alive: Callable[[], None] = lambda: None,
) -> Subscription:
    return Subscription(log, "v", 0, upsert, timeout, first, alive)


async def collect(subscription: Subscription) -> list[Change]:
    return [each async for each in subscription]


@pytest.mark.parametrize("upsert", [False, True])
def test_for_and_async_for_give_the_same_changes(log: StepLog, upsert: bool) -> None:
    write(log, 1, "+I", "+I")
    write(log, 2, "-U", "+U")
    expected = [change("+I", 1)] * 2 + ([] if upsert else [change("-U", 2)]) + [change("+U", 2)]
    assert list(subscribe(log, upsert=upsert)) == expected
    assert asyncio.run(collect(subscribe(log, upsert=upsert))) == expected


def test_the_content_comes_first(log: StepLog) -> None:
    write(log, 1, "+I")
    first = inserted(pa.table({"a": [7]}), 0)
    expected = [Change("+I", 1, 0, {"a": 7}), change("+I", 1)]
    assert list(subscribe(log, first=first)) == expected
    assert asyncio.run(collect(subscribe(log, first=first))) == expected


def test_async_for_waits_for_steps_and_leaves_the_event_loop_free(log: StepLog) -> None:
    async def follow() -> list[Change]:
        subscription, changes = subscribe(log, timeout=None), []
        asyncio.get_running_loop().call_later(0.01, write, log, 1, "+I")
        async for each in subscription:
            changes.append(each)
            if each.step == 3:
                subscription.close()
            else:
                write(log, each.step + 1, "+I")
        return changes

    assert asyncio.run(asyncio.wait_for(follow(), 10)) == [change("+I", step) for step in (1, 2, 3)]


def test_a_waiting_async_for_can_be_cancelled(log: StepLog) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(collect(subscribe(log, timeout=None)))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(cancel(), 10))


def test_the_error_that_ended_the_pipeline_is_raised(log: StepLog) -> None:
    def fail() -> None:
        raise RuntimeError("the pipeline stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        list(subscribe(log, timeout=None, alive=fail))
    with pytest.raises(RuntimeError, match="stopped"):
        asyncio.run(collect(subscribe(log, timeout=None, alive=fail)))
