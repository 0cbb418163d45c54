"""A spec file as plain data: its title and, in order, what it does and what it expects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import Error


class SpecSyntaxError(Error):
    """A spec file that cannot be read: which line, and what was expected there."""

    def __init__(self, path: Path, line: int, message: str, hint: str | None = None) -> None:
        super().__init__("SPEC_SYNTAX", f"{path}:{line}: {message}", hint=hint)


@dataclass(frozen=True)
class Row:
    """One row as written: its cells, and what stands before and after them.

    `sign` is `-` for a delete, the op of an expected change (`+I`, `-`, ...), or empty; `tombstone` is a ` !` at the
    end. A quoted cell keeps its quotes."""

    line: int
    cells: tuple[str, ...]
    sign: str = ""
    tombstone: bool = False


@dataclass(frozen=True)
class Item:
    """Anything a spec file says, with the line it stands on."""

    line: int


@dataclass(frozen=True)
class Sql(Item):
    """`sql`: statements to run."""

    text: str


@dataclass(frozen=True)
class Kind(Item):
    """`kind VIEW k`: the view's changelog kind."""

    view: str
    kind: str


@dataclass(frozen=True)
class Rows:
    """`> RELATION`: rows that enter, in order."""

    line: int
    relation: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Advance:
    """`advance RELATION.column VALUE`."""

    line: int
    relation: str
    column: str
    value: str


@dataclass(frozen=True)
class Run(Item):
    """Something that runs the pipeline until idle: the frame that `<` checks speak about."""

    title: str


@dataclass(frozen=True)
class Step(Run):
    """`step TEXT`: one atomic input over all relations."""

    inputs: tuple[Rows | Advance, ...] = ()


@dataclass(frozen=True)
class Clock(Run):
    """`clock +10s`: the processing clock moves."""

    micros: int = 0


@dataclass(frozen=True)
class End(Run):
    """`end`: all inputs end."""


@dataclass(frozen=True)
class Emits(Item):
    """`< VIEW`: exactly these changes left the view in this step."""

    view: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Content(Item):
    """`= RELATION`: exactly these rows are in it now."""

    relation: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Ask(Item):
    """`? SELECT ...`: exactly these rows are its answer now."""

    query: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Late(Item):
    """`late RELATION n`: how many of its rows were refused as late so far."""

    relation: str
    count: int


@dataclass(frozen=True)
class Watermark(Item):
    """`watermark RELATION.column VALUE`."""

    relation: str
    column: str
    value: str


@dataclass(frozen=True)
class Restart(Item):
    """`restart`: stop, and resume from the checkpoint in a fresh engine."""


@dataclass(frozen=True)
class Refused(Item):
    """`error CODE`: the statement is refused with that code and a text that contains all of `texts`."""

    code: str
    statement: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Warned(Item):
    """`warning CODE`: the statement is accepted, with that warning."""

    code: str
    statement: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Spec:
    """A whole file."""

    path: Path
    title: str
    items: tuple[Item, ...]

    @property
    def runs(self) -> int:
        """How many times the pipeline runs until idle."""
        return sum(isinstance(item, Run) for item in self.items)
