"""What is wrong with a text that Spark's parser could not read, as Spark SQL.

The parser leaves the text in a field of its own and reads what it can; it does not say what failed. So the text is
parsed again, every column as text, and compared: a column that has text but no value is the culprit. Only malformed
records pay for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Column, Schema
from tidegate.formats import fields
from tidegate.formats.fields import Times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "__corrupt"
TEXTS = "__texts"
UNREADABLE = f"{TEXTS} IS NULL OR {TEXTS}.{CORRUPT} IS NOT NULL"


@dataclass(frozen=True)
class Parser:
    """A function of Spark SQL from text to a struct (`from_json`, `from_csv`) and its settings."""

    function: str
    settings: Mapping[str, str]

    def parse(self, text: str, columns: str) -> str:
        """An expression: the struct, whose last field holds the text if it could not be read."""
        settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **self.settings}
        pairs = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in settings.items())
        schema = literal(f"{columns}, {identifier(CORRUPT)} STRING")
        return f"{self.function}({text}, {schema}, map({pairs}))"


@dataclass(frozen=True)
class Suspect:
    """A column that may be the culprit: its name for people, expressions of its value and of its text."""

    name: str
    column: Column
    value: str
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """How the fault of a text is found: whether it has one (`bad`), what reads its columns as text, what to say if a
    condition on that holds (`shapes`: the whole is wrong), else which columns to suspect."""

    bad: str
    texts: str
    shapes: Sequence[tuple[str, str]]
    suspects: Sequence[Suspect]
    whole: str

    def add(self, frame: DataFrame, name: str) -> DataFrame:
        """The frame with a column that says what is wrong, NULL if nothing is. One expression, in which the text is
        parsed again wherever it is needed: every projection of its own would copy all rows, also the good ones."""
        cases = " ".join(f"WHEN {holds} THEN {literal(says)}" for holds, says in self.shapes)
        culprits = ", ".join([*map(_culprit, self.suspects), literal(self.whole)])
        fault = f"CASE WHEN NOT ({self.bad}) THEN NULL {cases} ELSE coalesce({culprits}) END"
        return frame.selectExpr("*", f"{fault.replace(TEXTS, self.texts)} AS {name}")


def missing_text(columns: Schema) -> str | None:
    """An expression: the first NULL in a column that is NOT NULL, or None if every column may be NULL."""
    cases = [
        f"WHEN {identifier(c.name)} IS NULL THEN {literal(f'{c.name} is NULL, but the column is NOT NULL')}"
        for c in columns
        if not c.nullable
    ]
    return f"CASE {' '.join(cases)} END" if cases else None


def row_of(columns: Schema) -> str:
    """What a row should have been, for people."""
    return f"not a row of ({', '.join(f'{c.name} {c.type.upper()}' for c in columns)})"


def text_fields(columns: Schema) -> str:
    """Every column as text."""
    return ", ".join(f"{identifier(c.name)} STRING" for c in columns)


def faults_of(source: str, made: str, columns: Schema, times: Times) -> list[str]:
    """Expressions: whether a column that is converted has text in the struct `source` but no value in `made`."""
    found = (fields.fault(_member(source, c), _member(made, c), c, times) for c in columns)
    return [fault for fault in found if fault is not None]


def suspects_of(source: str, made: str, texts: str, columns: Schema, times: Times, label: str = "") -> list[Suspect]:
    """Every column of a struct, beside the same struct with all of them as text. What was read first is looked at again
    for nested values only, so that Spark need not carry it along for others."""
    suspects = []
    for column in columns:
        value = _member(made, column)
        fault = fields.fault(_member(source, column), value, column, times) if fields.is_nested(column) else None
        checked = value if fault is None else f"IF({fault}, NULL, {value})"
        suspects.append(Suspect(label + column.name, column, checked, _member(texts, column)))
    return suspects


def _member(struct: str, column: Column) -> str:
    return f"{struct}.{identifier(column.name)}"


def _culprit(suspect: Suspect) -> str:
    shown = f"chr(39), left({suspect.text}, 80), chr(39)"
    says = f"concat({literal(suspect.name + ': ')}, {shown}, {literal(' is not a ' + suspect.column.type.upper())})"
    return f"CASE WHEN ({suspect.value}) IS NULL AND {suspect.text} IS NOT NULL THEN {says} END"
