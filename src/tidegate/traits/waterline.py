"""Waterlines: the columns below whose value no accepted row will come again.

A column has one when its input declares it (`WATERMARK FOR ts`) and every operator on the way keeps it. Each entry
names the column and where its waterline comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Waterlines = tuple[tuple[str, str], ...]


def through_projection(lines: Waterlines, kept: Mapping[str, str]) -> Waterlines:
    """Plain columns keep theirs under the new name."""
    return tuple((kept[column], origin) for column, origin in lines if column in kept)


def only(lines: Waterlines, columns: Sequence[str]) -> Waterlines:
    """Those of some columns, such as the keys of an aggregate."""
    return tuple((column, origin) for column, origin in lines if column in columns)


def of_union(columns: Sequence[str], sides: Sequence[Mapping[int, str]]) -> Waterlines:
    """A column of a union has a waterline when every side has one in that place; it is the smallest of them."""
    shared = set.intersection(*(set(side) for side in sides))
    return tuple((columns[place], _smallest([side[place] for side in sides])) for place in sorted(shared))


def _smallest(origins: Sequence[str]) -> str:
    different = list(dict.fromkeys(origins))
    return different[0] if len(different) == 1 else f"min({', '.join(different)})"
