"""Spark SQL that finds out why Spark's parser could not read a text.

The parser puts the text into a separate field and reads what it can, without a reason. So the text is parsed again,
with every column as text: a column that has text but no value is the culprit. Only malformed records cost that.
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
        """Expression: the struct, whose last field contains the text if it could not be read."""
        settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **self.settings}
        pairs = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in settings.items())
        schema = literal(f"{columns}, {identifier(CORRUPT)} STRING")
        return f"{self.function}({text}, {schema}, map({pairs}))"


@dataclass(frozen=True)
class Suspect:
    """A column that can be the culprit: its name in messages, and expressions of its value and text."""

    name: str
    column: Column
    value: str
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """Finds the fault of a text: `bad` is true if it has one, `texts` parses its columns as text, `shapes` are
    conditions and messages for texts that are wrong as a whole, `suspects` the columns to test otherwise."""

    bad: str
    texts: str
    shapes: Sequence[tuple[str, str]]
    suspects: Sequence[Suspect]
    whole: str

    def add(self, frame: DataFrame, name: str) -> DataFrame:
        """Add a column with the fault, NULL if there is none."""
        return frame.selectExpr("*", f"{self.fault} AS {name}")

    @property
    def fault(self) -> str:
        """Expression: the fault, else NULL. The text is parsed again wherever it is needed: a projection for it would
        copy all rows, also the good ones."""
        cases = " ".join(f"WHEN {holds} THEN {literal(message)}" for holds, message in self.shapes)
        culprits = ", ".join([*map(_culprit, self.suspects), literal(self.whole)])
        fault = f"CASE WHEN NOT ({self.bad}) THEN NULL {cases} ELSE coalesce({culprits}) END"
        return fault.replace(TEXTS, self.texts)


def missing_text(columns: Schema) -> str | None:
    """Expression: the error for the first NULL in a NOT NULL column; None if every column is nullable."""
    cases = [
        f"WHEN {identifier(c.name)} IS NULL THEN {literal(f'{c.name} is NULL, but the column is NOT NULL')}"
        for c in columns
        if not c.nullable
    ]
    return f"CASE {' '.join(cases)} END" if cases else None


def row_of(columns: Schema) -> str:
    """The message for a row that is wrong as a whole."""
    return f"not a row of ({', '.join(f'{c.name} {c.type.upper()}' for c in columns)})"


def text_fields(columns: Schema) -> str:
    """Return every column with the type STRING."""
    return ", ".join(f"{identifier(c.name)} STRING" for c in columns)


def faults_of(source: str, made: str, columns: Schema, times: Times) -> list[str]:
    """Expressions: a converted column has text in the struct `source` but no value in `made`."""
    tests = (fields.fault(_member(source, c), _member(made, c), c, times) for c in columns)
    return [fault for fault in tests if fault is not None]


def suspects_of(source: str, made: str, texts: str, columns: Schema, times: Times, label: str = "") -> list[Suspect]:
    """Return every column of a struct as a suspect. `texts` is the same struct with all columns as text. The parsed
    value is tested again for nested values only, so that Spark need not keep it for others."""
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
    text = f"chr(39), left({suspect.text}, 80), chr(39)"
    message = f"concat({literal(suspect.name + ': ')}, {text}, {literal(' is not a ' + suspect.column.type.upper())})"
    return f"CASE WHEN ({suspect.value}) IS NULL AND {suspect.text} IS NOT NULL THEN {message} END"
