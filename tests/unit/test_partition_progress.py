"""InputProgress of partitioned sources."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark.watermarks import InputProgress

QUIET = 10


def test_the_slowest_partition_that_is_not_idle_counts() -> None:
    progress = InputProgress().with_shards("r.t", ["a", "b", "c"], {"a": 100, "b": 50}, time_us=0)
    assert progress.known("r.t", 9, QUIET) is None, "c has had no row yet"
    assert progress.known("r.t", 10, QUIET) == 100, "all are idle: the fastest counts"
    progress = progress.with_shards("r.t", ["a", "b", "c"], {"b": 60}, time_us=9)
    assert progress.known("r.t", 9, QUIET) is None
    assert progress.known("r.t", 10, QUIET) == 60, "a and c are idle, and delay nothing"
    progress = progress.with_shards("r.t", ["a", "b", "c", "d"], {"a": 70}, time_us=18)
    assert progress.known("r.t", 18, QUIET) is None, "a new partition is not idle yet"
    assert InputProgress.from_json(progress.to_json()).known("r.t", 28, QUIET) == 100


def test_without_partitions_the_largest_value_counts() -> None:
    assert InputProgress(seen={"r.t": 7}).known("r.t", 99, 0) == 7
    assert InputProgress().known("r.t", 99, 0) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100), st.integers(0, 3)), max_size=12))
def test_progress_is_never_ahead_of_a_partition_that_is_not_idle(steps: list[tuple[str, int, int]]) -> None:
    progress, time, last, largest = InputProgress(), 0, {}, {}
    for shard, value, elapsed in steps:
        time += elapsed
        progress = progress.with_shards("r.t", "abc", {shard: value}, time)
        last[shard], largest[shard] = time, max(value, largest.get(shard, value))
        time_of_input = progress.known("r.t", time, QUIET)
        active = [largest.get(each) for each in "abc" if time - last.get(each, 0) < QUIET]
        assert time_of_input is None or all(each is not None and time_of_input <= each for each in active)
