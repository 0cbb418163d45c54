"""Chains of filters and projections, built step by step."""

from __future__ import annotations

from dataclasses import replace

from tidegate.circuit.model import Branch, Filter, LateFilter, Project
from tidegate.core.quoting import identifier
from tidegate.core.schema import Schema
from tidegate.core.schema import names as names_of
from tidegate.core.types import has_map
from tidegate.ir.windows import WatermarkTest

Branches = tuple[Branch, ...]


def add_step(branch: Branch, step: Filter | Project, columns: Schema) -> Branch:
    """The branch with one more step; a selection of plain columns becomes part of the projection before it."""
    if isinstance(step, Project) and step == selection(branch.columns):
        return branch
    whole = branch.origin is not None and branch.origin.steps == len(branch.steps)
    last = branch.steps[-1] if branch.steps and not whole else None
    if isinstance(last, Project) and isinstance(step, Project):
        computed = {identifier(name): sql for name, sql in last.items}
        if all(sql in computed for _, sql in step.items):
            chosen = Project(tuple((name, computed[sql]) for name, sql in step.items))
            return replace(branch, steps=(*branch.steps[:-1], chosen), columns=columns)
    return replace(branch, steps=(*branch.steps, step), columns=columns)


def selection(columns: Schema) -> Project:
    """The projection that keeps exactly these columns."""
    return Project(tuple((name, identifier(name)) for name in names_of(columns)))


def keep_columns(rows: Branches, names: list[str]) -> Branches:
    """The branches with only these columns."""
    kept = []
    for branch in rows:
        columns = tuple(column for column in branch.columns if column.name in names)
        kept.append(add_step(branch, selection(columns), columns))
    return tuple(kept)


def drop_late(rows: Branches, tests: tuple[WatermarkTest, ...]) -> Branches:
    """The branches without rows that pass any of the tests."""
    return tuple(replace(branch, steps=(*branch.steps, LateFilter(tests))) for branch in rows) if tests else rows


def hashable(columns: Schema) -> tuple[str, ...]:
    """The columns that Spark can hash: maps have no hash."""
    return tuple(column.name for column in columns if not has_map(column.type))
