"""What a view says about when its results leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.core.durations import parse_length
from tidegate.sql.durations import length
from tidegate.sql.statements import Query
from tidegate.testing.time.amounts import Unknown


@dataclass(frozen=True)
class Emit:
    """`strategy` is None where nothing is said; `every` and `lateness` are microseconds; `final` is the column of
    emit_final, by name or number; `early` is what a window without an EMIT does every so often."""

    strategy: str | None = None
    every: int = 0
    lateness: int = 0
    final: str | None = None
    early: int = 0


def said(query: Query, final: str | None = None, early: int = 0) -> Emit:
    """What a query says."""
    every = micros(query.emit.interval) if query.emit is not None and query.emit.interval is not None else 0
    lateness = micros(query.allowed_lateness) if query.allowed_lateness is not None else 0
    return Emit(query.emit.strategy if query.emit is not None else None, every, lateness, final, early)


def early_fire(settings: Mapping[str, str]) -> int:
    """Flink's `SET`: how often a window without an EMIT fires before its end, 0 for not at all."""
    if settings.get("table.exec.emit.early-fire.enabled", "").lower() != "true":
        return 0
    found = parse_length(settings.get("table.exec.emit.early-fire.delay", ""))
    return found.micros if found is not None else 0


def micros(tree: exp.Expr) -> int:
    """A length of time that does not depend on the calendar."""
    found = length(tree)
    if found is None or found.months:
        raise Unknown(f"{tree.sql()} is no length of time that the model knows")
    return found.micros
