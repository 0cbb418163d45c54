"""InputProgress of sources that have partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark.watermarks import InputProgress

QUIET = 10


def test_the_slowest_partition_that_is_awake_counts() -> None:
    known = InputProgress().with_shards("r.t", ["a", "b", "c"], {"a": 100, "b": 50}, time_us=0)
    assert known.known("r.t", 9, QUIET) is None, "c has had no row yet"
    assert known.known("r.t", 10, QUIET) == 100, "all are silent: the fastest counts"
    known = known.with_shards("r.t", ["a", "b", "c"], {"b": 60}, time_us=9)
    assert known.known("r.t", 9, QUIET) is None
    assert known.known("r.t", 10, QUIET) == 60, "a and c are silent, and hold up nobody"
    known = known.with_shards("r.t", ["a", "b", "c", "d"], {"a": 70}, time_us=18)
    assert known.known("r.t", 18, QUIET) is None, "a partition that is new has its time to come"
    assert InputProgress.from_json(known.to_json()).known("r.t", 28, QUIET) == 100


def test_without_partitions_the_largest_value_counts() -> None:
    assert InputProgress(seen={"r.t": 7}).known("r.t", 99, 0) == 7
    assert InputProgress().known("r.t", 99, 0) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100), st.integers(0, 3)), max_size=12))
def test_it_is_never_ahead_of_a_partition_that_is_awake(steps: list[tuple[str, int, int]]) -> None:
    known, time, last, largest = InputProgress(), 0, {}, {}
    for shard, value, passed in steps:
        time += passed
        known = known.with_shards("r.t", "abc", {shard: value}, time)
        last[shard], largest[shard] = time, max(value, largest.get(shard, value))
        found = known.known("r.t", time, QUIET)
        awake = [largest.get(each) for each in "abc" if time - last.get(each, 0) < QUIET]
        assert found is None or all(each is not None and found <= each for each in awake)
