"""What a step costs that changes 1 000 groups, by how many groups there are: the curve should be nearly flat.

Run: python benchmarks/kernel_state.py [groups ...]
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import statistics
import sys
import time

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import AggregateCall, AggregateSpec
from tidegate.kernels import aggregates, make
from tidegate.kernels.api import Clock
from tidegate.kernels.state import CACHE, MemorySegments, Store

CHANGED = 1_000
STEPS = 60
CALL_MS, MEGABYTE_MS = 0.1, 12.0
"""What a call to Spark's state store costs, and what a megabyte through it does."""

PLAIN = (
    AggregateCall("count", (), (), "n", "bigint"),
    AggregateCall("sum", ("v",), ("bigint",), "total", "bigint"),
    AggregateCall("avg", ("v",), ("bigint",), "mean", "double"),
)
REAL = (AggregateCall("count", (), (), "n", "bigint"), AggregateCall("sum", ("x",), ("double",), "total", "double"))
EXTREME = (
    AggregateCall("min", ("v",), ("bigint",), "low", "bigint"),
    AggregateCall("max", ("v",), ("bigint",), "high", "bigint"),
)
CASES = {"count, sum, avg": PLAIN, "sum of doubles": REAL, "min, max": EXTREME}


def rows(keys: np.ndarray, spec: AggregateSpec, random: np.random.Generator) -> pl.DataFrame:
    """One row per key. Multiplication by an odd number spreads keys over all hashes, as a hash would."""
    values = random.integers(0, 1000, len(keys))
    mixed = (keys.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    frame = pl.DataFrame({"k": keys, "v": values, "x": values / 7, HASH: mixed.view(np.int64)})
    hashes = [(mixed + values.astype(np.uint64) * np.uint64(0xD1342543DE82EF95)).view(np.int64)] * len(
        aggregates.hashes(spec)
    )
    names = [name for name, _ in aggregates.hashes(spec)]
    return frame.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT), *(map(pl.Series, names, hashes)))


def measure(calls: tuple[AggregateCall, ...], groups: int) -> tuple[list[float], list[float], float]:
    """Milliseconds of each step, what its traffic would cost in Spark's store, and the first step without a cache."""
    spec = AggregateSpec(("k",), calls, append_only=False, scalar=False)
    kernel, segments, random = make(spec), MemorySegments(), np.random.default_rng(7)
    CACHE.clear()
    for start in range(0, groups, 100_000):
        step(kernel, segments, rows(np.arange(start, min(start + 100_000, groups)), spec, random))
    times, traffic = [], []
    for _ in range(STEPS):
        changed = rows(random.choice(groups, CHANGED, replace=False), spec, random)
        calls_before, bytes_before = segments.calls, segments.traffic
        times.append(step(kernel, segments, changed))
        traffic.append(
            (segments.calls - calls_before) * CALL_MS + (segments.traffic - bytes_before) / 1e6 * MEGABYTE_MS
        )
    CACHE.clear()
    return times, traffic, step(kernel, segments, rows(random.choice(groups, CHANGED, replace=False), spec, random))


def step(kernel: object, segments: MemorySegments, changed: pl.DataFrame) -> float:
    began = time.process_time()
    state = Store(segments)
    kernel.step([kernel.combine(0, changed)], Clock(1, 0), state, False)  # type: ignore[attr-defined]
    state.commit()
    return (time.process_time() - began) * 1000


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [10_000, 100_000, 1_000_000, 4_000_000]
    print(f"a step that changes {CHANGED} groups, milliseconds (median, worst of {STEPS}; + cost of the state store)")
    for name, calls in CASES.items():
        for groups in sizes:
            times, traffic, cold = measure(calls, groups)
            figures = f"{statistics.median(times):7.1f} {max(times):7.1f}"
            store = f"+{statistics.median(traffic):6.1f} {max(traffic):6.1f}"
            print(f"{name:16} {groups:>9} groups {figures} {store}   without cache {cold:7.1f}", flush=True)


if __name__ == "__main__":
    main()
