"""The traits of one relation, taken together."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.traits import kind
from tidegate.traits.keys import Key
from tidegate.traits.kind import Kind
from tidegate.traits.watermark import LostWatermarks, Watermark, Watermarks


@dataclass(frozen=True)
class Traits:
    """`key`: columns that tell rows apart (None: rows may repeat). `append_only`: no change ever retracts.
    `watermarks`: the columns that have one, `lost` those that lost it. `delayed`: rows may leave when the watermark
    moves, so they are only known not to be below the watermark of the step before. `state`: what the operator itself
    keeps, in words. `mark`: a column that ties a row that is taken back to the one that corrects it.
    `clocks`: columns that are PROCTIME()."""

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
        """The changelog kind of the relation when every change leaves at once."""
        return kind.of_changes(self.append_only)

    def watermark(self, column: str) -> Watermark | None:
        """The watermark of a column."""
        return dict(self.watermarks).get(column)
