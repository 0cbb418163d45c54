"""Tiny chunks, so that a few rows are enough to merge runs, to fold them repeatedly, to compute hopping windows in
rounds, and to group by slots of an array."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.kernels import window_aggregate
from tidegate.kernels.aggregates import dense
from tidegate.kernels.state import CACHE, compaction


@pytest.fixture(scope="module")
def tiny_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "LEAST_CHUNK", 4)
        patch.setattr(compaction, "LARGEST_CHUNK", 6)
        patch.setattr(compaction, "LEAST_ABOVE", 2)
        patch.setattr(compaction, "SMALL_RUN", 2)
        patch.setattr(compaction, "LARGEST_RUN", 16)
        patch.setattr(window_aggregate, "MANY", 12)
        patch.setattr(dense, "FEW", 2)
        yield
    CACHE.clear()
