"""Named points at which a process can be killed, for tests of recovery.

`TIDEGATE_FAILPOINTS="step_log.written=kill@3"` kills the process, its JVM and everything else in its process group the
third time it reaches that point; several points are separated by commas. Without the variable a point costs one look at
an empty dictionary. Tests in the same process use `observed` instead, which calls a function at every point."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "TIDEGATE_FAILPOINTS"
POINTS = {
    "insert_log.entry_written": "an entry of the insert log is on disk, HEAD does not count it yet",
    "offsets.written": "Spark has planned a batch and written its offsets, nothing of it has run",
    "state.written": "a batch has run and its objects of state are on disk, the step log does not have it yet",
    "step_log.written": "the step is in the step log, Spark has not committed the batch",
    "sink.applied": "a sink has written a step",
    "generation.written": "a new generation is on disk, the one before is still in force",
    "generation.begun": "a new generation is in force, its query has not started",
    "snapshot.written": "a snapshot of a relation's content is on disk, the index does not have it yet",
    "ledger.written": "the ledger has recorded that a statement of a script was applied",
    "unreadable.written": "a file that cannot be read is recorded, or no longer, the step has not run yet without it",
    "catalog.written": "the catalog has been replaced",
}
"""What is on disk when a process dies at each point."""
_SETTING = re.compile(r"(?P<point>[a-z_.]+)=kill(@(?P<count>[1-9]\d*))?")
_actions: dict[str, Callable[[str], None]] = {}


def failpoint(name: str) -> None:
    """Mark a point at which a process may die."""
    if _actions:
        _actions.get(name, _ignore)(name)


@contextmanager
def observed(action: Callable[[str], None]) -> Iterator[None]:
    """Call `action` with the name of each point that this process reaches."""
    before = dict(_actions)
    _actions.update(dict.fromkeys(POINTS, action))
    try:
        yield
    finally:
        _actions.clear()
        _actions.update(before)


def parse(text: str) -> dict[str, Callable[[str], None]]:
    """The actions that a value of TIDEGATE_FAILPOINTS asks for."""
    actions: dict[str, Callable[[str], None]] = {}
    for setting in filter(None, map(str.strip, text.split(","))):
        match = _SETTING.fullmatch(setting)
        if match is None or match["point"] not in POINTS:
            raise ValueError(f"{VARIABLE}: {setting!r} is not POINT=kill or POINT=kill@N; points: {', '.join(POINTS)}")
        actions[match["point"]] = _Kill(int(match["count"] or 1))
    return actions


class _Kill:
    """Kills the process group when it is called for the `count`-th time."""

    def __init__(self, count: int) -> None:
        self._remaining = count

    def __call__(self, _: str) -> None:
        self._remaining -= 1
        if self._remaining == 0:
            os.killpg(os.getpgrp(), signal.SIGKILL)


def _ignore(_: str) -> None:
    pass


_actions.update(parse(os.environ.get(VARIABLE, "")))
