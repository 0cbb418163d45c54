"""A level as Spark knows it: one `transformWithState` for all stateful operators of one depth, of all views, grouped by
(op, bucket).

Spark also loads this class in a process of its own at every start of a query, only to ask for the state's schema; so
it is light, and what does the work is loaded when there is work.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STATE = "segments"


class Level(StatefulProcessor):
    """Hands each bucket's rows to a `LevelRunner`, given as a pickle."""

    def __init__(self, runner: bytes) -> None:
        self._pickled = runner
        self._runner: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState(STATE, "name string", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        if self._runner is None:
            self._runner = pickle.loads(self._pickled)
        output: Iterator[Row] = self._runner.handle(self._state, key, rows)
        return output

    def close(self) -> None:
        """Do nothing: between steps only the worker's cache holds anything."""
