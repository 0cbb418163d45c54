"""The traits of one relation."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.traits import kind
from tidegate.traits.keys import Key
from tidegate.traits.kind import Kind
from tidegate.traits.watermark import LostWatermarks, Watermark, Watermarks


@dataclass(frozen=True)
class Traits:
    """`key`: columns that identify a row (None: rows may repeat). `append_only`: no change ever retracts. `watermarks`:
    the columns that have one, `lost` those that lost it. `delayed`: rows may be emitted when the watermark advances, so
    they are only known not to be below the watermark of the previous step. `state`: what the operator itself stores,
    in words. `mark`: a column that ties a retracted row to its correction. `clocks`: columns that are PROCTIME()."""

    key: Key
    append_only: bool
    watermarks: Watermarks = ()
    state: str = "none"
    lost: LostWatermarks = ()
    delayed: bool = False
    mark: str | None = None
    clocks: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """The changelog kind of the relation if every change is emitted at once."""
        return kind.of_changes(self.append_only)

    def watermark(self, column: str) -> Watermark | None:
        """The watermark of a column."""
        return dict(self.watermarks).get(column)
