"""Keys: the columns by which the rows of a relation differ.

`()` is the key of a relation of one row; None means that no key is known, rows may repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Key = tuple[str, ...] | None


def through_projection(key: Key, kept: Mapping[str, str]) -> Key:
    """The key after a projection that keeps the columns `kept` (old name -> new name); lost with any of its columns."""
    if key is None or not set(key) <= set(kept):
        return None
    return tuple(kept[column] for column in key)


def of_rows(columns: Sequence[str]) -> Key:
    """The key of a relation without repeated rows."""
    return tuple(columns)


def of_top_n(key: Key, partition: tuple[str, ...], limit: int, function: str, rank: str | None) -> Key:
    """A top-N keeps its input's key; else the place in the partition tells rows apart, if places are not shared."""
    if key is not None:
        return key
    if function != "row_number":
        return None
    if limit == 1:
        return partition
    return None if rank is None else (*partition, rank)
