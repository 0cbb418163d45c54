"""A spec file as plain data: its title and its items in order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import Error


class SpecSyntaxError(Error):
    """A syntax error in a spec file, with its line."""

    def __init__(self, path: Path, line: int, message: str, hint: str | None = None) -> None:
        super().__init__("SPEC_SYNTAX", f"{path}:{line}: {message}", hint=hint)


@dataclass(frozen=True)
class Row:
    """One row as written.

    `sign` is `-` for a delete, the op of an expected change (`+I`, `-`, ...), or empty; `tombstone` is a ` !` at the
    end. A quoted cell keeps its quotes."""

    line: int
    cells: tuple[str, ...]
    sign: str = ""
    tombstone: bool = False


@dataclass(frozen=True)
class Item:
    """An item of a spec file, with its line."""

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
    """An item that runs the pipeline until idle; `<` checks refer to the last one."""

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
    """`< VIEW`: the view emitted exactly these changes in this step."""

    view: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Content(Item):
    """`= RELATION`: the relation contains exactly these rows."""

    relation: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Ask(Item):
    """`? SELECT ...`: the query returns exactly these rows."""

    query: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Late(Item):
    """`late RELATION n`: the number of its late rows so far."""

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
    """`restart`: close the database and resume from the checkpoint."""


@dataclass(frozen=True)
class Rejected(Item):
    """`error CODE`: the statement fails with that code and a text that contains all of `texts`."""

    code: str
    statement: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Warned(Item):
    """`warning CODE`: the statement succeeds with that warning."""

    code: str
    statement: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Spec:
    """A whole file. `prefix` is what was put before the names of its relations, so that it can share a database."""

    path: Path
    title: str
    items: tuple[Item, ...]
    prefix: str = ""

    @property
    def runs(self) -> int:
        """How many times the pipeline runs until idle."""
        return sum(isinstance(item, Run) for item in self.items)
