"""The header of a step: everything the step log records of it beside the changed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.core.columns import WEIGHT
from tidegate.core.records import Codec
from tidegate.core.render import json_row

if TYPE_CHECKING:
    import polars as pl

CODEC = Codec()


class RejectedRow(NamedTuple):
    """A row that could not be processed, as `system.errors` shows it: `view` and `expression` if it arrived, but an
    expression of a view failed for it."""

    relation: str
    code: str
    message: str
    row: str | None
    view: str | None = None
    expression: str | None = None


class Changed(NamedTuple):
    """The number of changes of a relation, and by how many rows it grew."""

    rows: int
    net: int


@dataclass(frozen=True)
class Changes:
    """Changes of a relation that the step's own file holds."""

    relation: str
    rows: int
    net: int


@dataclass(frozen=True)
class ChangeFile(Changes):
    """Changes of a relation in a file that a worker wrote, by its name in the folder of blobs."""

    name: str


@dataclass(frozen=True)
class LateRow:
    """A late row, once for each view that dropped it; `view` is None if the relation itself did."""

    relation: str
    view: str | None
    op: str
    column: str
    row: str
    watermark: str | None


@dataclass(frozen=True)
class LateFile:
    """Many late rows in a file of their own. `count`: the number of `LateRow`s they amount to."""

    name: str
    count: int
    relation: str
    views: tuple[str, ...]
    column: str
    watermark: str | None

    def rows(self, stored: pl.DataFrame) -> Iterator[LateRow]:
        return late_rows(stored, self.relation, self.views, self.column, self.watermark)


@dataclass(frozen=True)
class StepHeader:
    """What a step did. Every field is written and required, so a reader never guesses.

    `started` is in seconds since 1970, `time_us` the processing time. `groups` and `dropped` are totals by op after the
    step; `entry` is the first entry of the insert log that it did not read; `loaded` the step in which each connector's
    relation was first read to its end; `progress` the state of the watermark tracker (None: there is none yet);
    `changes` and `files` are the changes of each relation, in the step's file and in files of workers.
    """

    step: int
    started: float
    millis: float
    time_us: int
    entry: int
    rows_in: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    overflow: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    loaded: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, Any] | None = None
    errors: tuple[RejectedRow, ...] = ()
    late: tuple[LateRow, ...] = ()
    late_files: tuple[LateFile, ...] = ()
    changes: tuple[Changes, ...] = ()
    files: tuple[ChangeFile, ...] = ()

    @classmethod
    def empty(cls, step: int) -> StepHeader:
        """The header of a step in which nothing happened."""
        return cls(step=step, started=0.0, millis=0.0, time_us=0, entry=0)

    def late_relations(self) -> set[str]:
        """The relations whose rows were late."""
        return {row.relation for row in self.late} | {file.relation for file in self.late_files}

    def late_per_relation(self) -> Counter[str]:
        """The number of late rows of each view, or relation, that dropped them."""
        counts = Counter(row.view or row.relation for row in self.late)
        for file in self.late_files:
            owners = file.views or (file.relation,)
            counts.update(dict.fromkeys(owners, file.count // len(owners)))
        return counts

    def changes_per_relation(self) -> dict[str, Changed]:
        """The changes of each relation that changed, in the step's file and in files of workers."""
        totals: dict[str, Changed] = {}
        every: tuple[Changes, ...] = (*self.changes, *self.files)
        for each in every:
            rows, net = totals.get(each.relation, (0, 0))
            totals[each.relation] = Changed(rows + each.rows, net + each.net)
        return totals

    def changed(self, relation: str) -> Changed:
        """The changes of one relation."""
        own: list[Changes] = [each for each in (*self.changes, *self.files) if each.relation == relation]
        return Changed(sum(each.rows for each in own), sum(each.net for each in own))

    def files_of(self, relation: str) -> tuple[ChangeFile, ...]:
        return tuple(file for file in self.files if file.relation == relation)

    def blobs(self) -> tuple[str, ...]:
        """The names of all files that belong to the step."""
        return (*(file.name for file in self.files), *(file.name for file in self.late_files))

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = CODEC.encode(self)
        return document

    @staticmethod
    def from_json(document: object) -> StepHeader:
        """The header of a document; Malformed if a field is missing, unknown or of another type."""
        return CODEC.decode(StepHeader, document)


def late_rows(
    rows: pl.DataFrame, relation: str, views: tuple[str, ...], column: str, watermark: str | None
) -> Iterator[LateRow]:
    """One record per late row and view that dropped it."""
    for text, weight in zip(row_texts(rows.drop(WEIGHT)), rows[WEIGHT], strict=True):
        op = "+I" if weight > 0 else "-D"
        for view in (views or (None,)) * abs(weight):
            yield LateRow(relation, view, op, column, text, watermark)


def row_texts(rows: pl.DataFrame) -> Iterator[str]:
    """Rows as text, in the form of `LateRow.row`, by which late rows are recognised."""
    return (json_row(row) for row in rows.iter_rows(named=True))
