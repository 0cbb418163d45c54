"""The traits of one relation, taken together."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.traits import kind
from tidegate.traits.keys import Key
from tidegate.traits.kind import Kind
from tidegate.traits.waterline import Line, Lost, Waterlines


@dataclass(frozen=True)
class Traits:
    """`key`: columns that tell rows apart (None: rows may repeat). `append_only`: no change ever retracts.
    `waterlines`: the columns that have one, `lost` those that lost it. `delayed`: rows may leave when the waterline
    moves, so they are only known not to be below the waterline of the step before. `state`: what the operator itself
    keeps, in words. `mark`: a column that ties a row that is taken back to the one that corrects it.
    `clocks`: columns that are PROCTIME()."""

    key: Key
    append_only: bool
    waterlines: Waterlines = ()
    state: str = "none"
    lost: Lost = ()
    delayed: bool = False
    mark: str | None = None
    clocks: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """The changelog kind of the relation when every change leaves at once."""
        return kind.of_changes(self.append_only)

    def line(self, column: str) -> Line | None:
        """The waterline of a column."""
        return dict(self.waterlines).get(column)
