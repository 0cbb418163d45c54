"""Watermarks behind an operator that delays rows."""

from __future__ import annotations

from dataclasses import replace

from tidegate.traits.watermark import Expression, Extreme, Watermark, WindowEdge, walk


def held_back(watermark: Watermark, of: Watermark, by: Watermark) -> Watermark | None:
    """The watermark of a column of delayed rows. They are known not to be below `by` in another column, whose own
    watermark is `of`: what is computed from `of` is computed from `by` instead. None if nothing follows.

        held_back(DATE(x) over x=ts, ts, start of tumble 1h at ts)  ->  DATE(x) over x=start of tumble 1h at ts
    """
    return None if _may_mix_columns(of) else _replaced(watermark, of, by)


def _replaced(watermark: Watermark, of: Watermark, by: Watermark) -> Watermark | None:
    if watermark == of:
        return by
    moved = [_replaced(part, of, by) for part in watermark.parts]
    known = tuple(each for each in moved if each is not None)
    match watermark:
        case Extreme(which="max") if known:
            return replace(watermark, watermarks=known)
        case Extreme(which="min") if len(known) == len(moved):
            return replace(watermark, watermarks=known)
        case Expression() if len(known) == len(moved):
            columns = (column for column, _ in watermark.over)
            return replace(watermark, over=tuple(zip(columns, known, strict=True)))
        case WindowEdge() if known:
            return replace(watermark, watermark=known[0])
    return None


def _may_mix_columns(watermark: Watermark) -> bool:
    """True if rows of several origins share the watermark (a union, a join): that of another column may be equal,
    although its values are not computed from the same ones."""
    return any(isinstance(each, Extreme) and each.which == "min" for each in walk([watermark]))
