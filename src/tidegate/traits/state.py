"""The state of an operator in words, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "none"


def until(stored: str, columns: Sequence[str]) -> str:
    """`columns` are those by one of whose watermarks it is evicted."""
    return f"{stored}, until the watermark has passed {columns[0]}" if columns else stored


def of_table(key: Sequence[str]) -> str:
    return f"one row per {_named(key)}" if key else "every row"


def of_aggregate(keys: Sequence[str], values: bool) -> str:
    """`values`: some aggregate stores the values of its group, not just a running result."""
    rows = f"one row per {_named(keys)}" if keys else "one row"
    return f"{rows}, and its values" if values else rows


def of_distinct() -> str:
    return "one row per distinct row"


def of_set_operation() -> str:
    return "one row per distinct row of both sides"


def of_top_n(partition: Sequence[str], rows: int, append_only: bool) -> str:
    """Every row if others can be retracted: any of them may move up."""
    stored = f"{rows} rows" if append_only else "every row"
    return f"{stored} per {_named(partition)}" if partition else stored


def of_windows(kind: str, keys: Sequence[str], values: bool, closes: bool) -> str:
    """`closes`: the state of a window is evicted when it closes."""
    groups = ", ".join((*keys, "session" if kind == "session" else "window"))
    rows = f"one row per ({groups})" if keys else f"one row per {groups}"
    return f"{rows}{', and its values' if values else ''}{', until it closes' if closes else ''}"


def of_sessions(partition: Sequence[str]) -> str:
    return f"every row per {_named(partition)}" if partition else "every row"


def of_gate() -> str:
    return "what has not left yet"


def of_temporal_filter() -> str:
    return "rows until their time is over"


def of_join(left: str | None, right: str | None) -> str:
    """The columns by whose watermark the rows of each side are evicted; None: they are not."""
    if left is None and right is None:
        return "every row of both sides"
    if left is not None and right is not None:
        return f"rows of both sides until the watermarks have passed {left}, {right}"
    named, kept = (left, "right") if left is not None else (right, "left")
    return f"rows until the watermark of the other side has passed {named}, every row of the {kept} side"


def of_interval_join(times: tuple[str, str], reach: tuple[str, str]) -> str:
    """`reach`: how far the other side's watermark must have passed a row's time for the row to be evicted."""
    (left, right), (after, before) = times, reach
    return f"rows until the other side has passed {left} + {after}, {right} + {before}"


def of_lookup() -> str:
    return "the looked-up rows"


def _named(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
