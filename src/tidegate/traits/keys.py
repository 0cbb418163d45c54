"""Keys: columns that identify the rows of a relation.

`()` is the key of a relation of one row; None means that no key is known, rows may repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Key = tuple[str, ...] | None


def through_projection(key: Key, renames: Mapping[str, str]) -> Key:
    """The key after a projection that passes the columns `renames` (old name -> new name); None if any of it is
    dropped."""
    if key is None or not set(key) <= set(renames):
        return None
    return tuple(renames[column] for column in key)


def of_rows(columns: Sequence[str]) -> Key:
    """The key of a relation without repeated rows."""
    return tuple(columns)


def of_top_n(key: Key, partition: tuple[str, ...], limit: int, function: str, rank: str | None) -> Key:
    """A top-N has the key of its input; without one, partition and rank identify a row if ranks are unique."""
    if key is not None:
        return key
    if function != "row_number":
        return None
    if limit == 1:
        return partition
    return None if rank is None else (*partition, rank)
