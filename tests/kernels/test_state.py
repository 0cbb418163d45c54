"""The state of a bucket: tables of blobs that are merged, folded, cached and lost."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from tidegate.kernels.state import CACHE, ChunkCache, MemorySegments, Store
from tidegate.kernels.state.compaction import to_merge
from tidegate.kernels.state.table import RunTable

pytestmark = pytest.mark.usefixtures("tiny_chunks")

COLUMNS = {"k": pl.String(), "v": pl.Int64()}
WITHIN = "__h_k"


def rows(numbers: list[int], step: int, hashes: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "__h": [number % hashes * 7 - 11 for number in numbers],
            WITHIN: [number // 7 for number in numbers],
            "k": [f"k{number}" for number in numbers],
            "v": [step * 1000 + number for number in numbers],
        },
        schema={"__h": pl.Int64(), WITHIN: pl.Int64(), **COLUMNS},
    )


def values(frame: pl.DataFrame) -> dict[str, int]:
    assert frame["k"].is_unique().all()
    return dict(zip(frame["k"].to_list(), frame["v"].to_list(), strict=True))


def open_table(segments: MemorySegments, within: str | None) -> tuple[Store, RunTable]:
    store = Store(segments)
    return store, store.table("t", COLUMNS, ["k"], within)


numbers = st.lists(st.integers(0, 40), unique=True, max_size=12)
changes = st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=25)


@examples(60)
@given(changes, st.sampled_from([None, WITHIN]), st.sampled_from([1, 5, 1000]))
def test_a_table_has_the_written_rows(drawn: Any, within: str | None, hashes: int) -> None:
    segments, expected = MemorySegments(), dict[str, int]()
    for step, (inserted, deleted, cold) in enumerate(drawn):
        deleted = [number for number in deleted if number not in inserted]
        if cold:
            CACHE.clear()
        store, table = open_table(segments, within)
        keys = rows([*inserted, *deleted], 0, hashes)
        indexes, matches = table.match(keys)
        assert [keys["k"][int(index)] for index in indexes] == matches["k"].to_list()
        assert values(matches) == {key: expected[key] for key in keys["k"].to_list() if key in expected}
        table.write(rows(inserted, step, hashes), rows(deleted, 0, hashes).drop("v"))
        assert values(table.scan()) == expected, "reads see the state before the step"
        store.commit()
        expected |= {f"k{number}": step * 1000 + number for number in inserted}
        expected = {key: value for key, value in expected.items() if int(key[1:]) not in deleted}
        check(segments, within, hashes, expected)


@pytest.mark.parametrize("within", [None, WITHIN])
@pytest.mark.parametrize("seed", range(2))
def test_a_large_table_is_folded_repeatedly(seed: int, within: str | None) -> None:
    random, segments, expected = Random(seed), MemorySegments(), dict[str, int]()
    hashes = random.choice([3, 400])
    for step in range(70):
        changed = random.sample(range(400), 300 if step == 0 else random.randint(1, 12))
        inserted, deleted = changed[: len(changed) * 3 // 4], changed[len(changed) * 3 // 4 :]
        store, table = open_table(segments, within)
        table.write(rows(inserted, step, hashes), rows(deleted, 0, hashes).drop("v"))
        store.commit()
        expected |= {f"k{number}": step * 1000 + number for number in inserted}
        expected = {key: value for key, value in expected.items() if int(key[1:]) not in deleted}
        if step % 4 == 0:
            check(segments, within, hashes, expected)
    check(segments, within, hashes, expected)
    assert open_table(segments, within)[1].layout.cycle > 1


def check(segments: MemorySegments, within: str | None, hashes: int, expected: dict[str, int]) -> None:
    store, table = open_table(segments, within)
    assert values(table.scan()) == expected
    assert store.stats()[0] == len(expected)
    assert len(segments.blobs) <= 1 + len(list(table.layout.chunks())), "no blob is left behind"
    some = rows(list(range(0, 40, 3)), 0, hashes)
    assert values(table.lookup(some)) == {key: expected[key] for key in some["k"].to_list() if key in expected}
    sought = set(some["__h"].to_list())
    mine = {key: value for key, value in expected.items() if int(key[1:]) % hashes * 7 - 11 in sought}
    assert values(table.groups(some["__h"])) == mine


def test_nothing_is_stored_before_the_commit() -> None:
    segments = MemorySegments()
    _, table = open_table(segments, None)
    table.write(rows([1, 2], 0, 9))
    assert not segments.blobs


def test_a_lost_attempt_has_no_effect() -> None:
    segments = MemorySegments()
    for step, numbers in enumerate([[1, 2, 3], [2, 3], [3]]):
        for attempt, target in enumerate((segments.copy(), segments)):
            store, table = open_table(target, None)
            table.write(rows(numbers, step * 10 + attempt, 9))
            store.commit()
    assert values(open_table(segments, None)[1].scan()) == {"k1": 1001, "k2": 11002, "k3": 21003}


def test_a_step_that_writes_nothing_stores_nothing() -> None:
    segments = MemorySegments()
    store, table = open_table(segments, None)
    table.write(rows([1], 0, 9))
    store.commit()
    before = dict(segments.blobs)
    store, table = open_table(segments, None)
    table.match(rows([1], 0, 9))
    store.commit()
    assert segments.blobs == before


def test_the_last_write_of_a_step_counts() -> None:
    segments = MemorySegments()
    store, table = open_table(segments, None)
    table.write(rows([1], 1, 9))
    table.write(rows([1], 2, 9))
    store.commit()
    assert values(open_table(segments, None)[1].scan()) == {"k1": 2001}


def test_a_missing_blob_is_an_error() -> None:
    segments = MemorySegments()
    store, table = open_table(segments, None)
    table.write(rows([1], 0, 9))
    store.commit()
    CACHE.clear()
    for name in [name for name in segments.blobs if name != "meta"]:
        del segments.blobs[name]
    with pytest.raises(RuntimeError, match="lacks chunk-"):
        open_table(segments, None)[1].scan()


def test_the_cache_respects_its_limit() -> None:
    cache, segments = ChunkCache(20_000), MemorySegments()
    for step in range(30):
        store = Store(segments, cache)
        store.table("t", COLUMNS, ["k"]).write(rows(list(range(step, step + 20)), step, 1000))
        store.commit()
        assert cache.size <= 20_000
    assert len(Store(segments, cache).table("t", COLUMNS, ["k"]).scan()) == 49


def test_the_cache_counts_what_a_small_chunk_takes_beside_its_rows() -> None:
    """A limit that counted only the rows would be passed by a factor of twenty."""
    cache, segments = ChunkCache(100_000), MemorySegments()
    for number in range(100):
        store = Store(segments, cache)
        store.table(f"t{number}", COLUMNS, ["k"]).write(rows([number], number, 1000))
        store.commit()
    assert len(cache) < 20


def test_runs_of_equal_size_are_merged() -> None:
    assert to_merge([5000, 1, 1, 1], 16) == 1
    assert to_merge([5000, 1, 1, 1, 1], 16) == 4
    assert to_merge([4, 4, 4, 1, 1, 1, 1], 1000) == 7
    assert to_merge([8, 8, 8, 8], 16) == 1
    assert to_merge([], 16) == 1


spans = st.lists(st.tuples(numbers, numbers, st.none() | st.integers(-12, 30), st.booleans()), max_size=25)


@examples(80)
@given(spans, st.sampled_from([None, WITHIN]), st.sampled_from([1, 5, 1000]))
def test_rows_below_a_hash_can_be_evicted(drawn: Any, within: str | None, hashes: int) -> None:
    segments, expected = MemorySegments(), dict[int, int]()

    def below(limit: int) -> set[int]:
        return {number for number in expected if number % hashes * 7 - 11 < limit}

    for step, (inserted, after, limit, cold) in enumerate(drawn):
        if cold:
            CACHE.clear()
        store, table = open_table(segments, within)
        table.write(rows(inserted, step, hashes))
        some = {f"k{number}": expected[number] for number in below(limit or 0) - below(-4)}
        assert values(table.between(-4, limit or 0)) == some
        expected |= {number: step * 1000 + number for number in inserted}
        if limit is not None:
            evicted = below(limit)
            assert values(table.evict_below(limit)) == {f"k{number}": expected[number] for number in evicted}
            expected = {number: value for number, value in expected.items() if number not in evicted}
            again = [number for number in after if number in evicted]
            table.write(rows(again, step, hashes), grown=len(again))
            expected |= {number: step * 1000 + number for number in again}
        store.commit()
        check(segments, within, hashes, {f"k{number}": value for number, value in expected.items()})


def test_evicted_rows_are_not_read_again() -> None:
    segments = MemorySegments()
    for step in range(150):
        store, table = open_table(segments, None)
        table.write(rows([step], step, 10**6), grown=1)
        table.evict_below((step - 3) * 7 - 11)
        store.commit()
        assert store.stats()[0] <= 4
    assert len(segments.blobs) < 10
