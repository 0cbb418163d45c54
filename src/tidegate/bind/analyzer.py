"""Who knows the types: Spark's analyser, behind three questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidegate.core.schema import Schema


class Analyzer(Protocol):
    """Answers as Spark would, and raises `tidegate.Error` without a span where Spark refuses."""

    def columns(self, schema: Schema, exprs: Sequence[str]) -> Schema:
        """Names and types of Spark SQL expressions (aliased or not) over a relation with these columns."""
        ...

    def query(self, sql: str, relations: Mapping[str, Schema]) -> Schema:
        """The columns of a whole SELECT over relations with these columns."""
        ...

    def literal(self, expr: str) -> object:
        """The value of an expression without columns."""
        ...
