"""The cache that is bounded by the size of what it holds."""

from __future__ import annotations

from tidegate.core.sized_cache import SizedCache


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_the_values_used_last_are_kept() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    for key in "abc":
        cache.put(key, b"1234")
        cache.get("a")
    assert [cache.get(key) for key in "abc"] == [b"1234", None, b"1234"]
    cache.put("d", b"12345678901")
    assert (len(cache), cache.size) == (0, 0)


def test_a_value_that_is_not_used_any_more_is_dropped() -> None:
    """Long before the limit is reached: a key that no longer exists is never asked for again."""
    clock = Clock()
    cache: SizedCache[str, bytes] = SizedCache(1_000_000, len, idle=60, now=clock)
    cache.put("used", b"1")
    for step in range(1000):
        clock.seconds += 1
        cache.put(f"of step {step}", b"1")
        assert cache.get("used") == b"1"
    assert len(cache) == 62
    assert cache.size == 62
