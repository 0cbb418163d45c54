"""What `FROM DATAGEN (...)` can be told."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.datagen.fields import Field, generator
from tidegate.connectors.datagen.generators import Generator
from tidegate.core.options import Bag
from tidegate.core.schema import Schema, names
from tidegate.core.types import arrow_type
from tidegate.errors import did_you_mean, make

_DEFAULT_RATE = 10
_DEFAULT_STEP = 100_000


@dataclass(frozen=True)
class Plan:
    """What is generated: how many rows (None: without end), how fast (None: as fast as possible), one generator per
    column."""

    columns: Schema
    generators: tuple[Generator, ...]
    rows: int | None
    rows_per_second: int | None
    max_rows_per_step: int


def plan(spec: SourceSpec, bag: Bag) -> Plan:
    """Takes a source's options out of the bag."""
    if spec.format is not None:
        raise make("UNKNOWN_FORMAT", message="DATAGEN has no formats", hint="leave FORMAT out", span=bag.span)
    rows = bag.integer("rows", aliases=("number_of_rows",))
    rate = bag.integer("rows_per_second", minimum=1, aliases=("datagen.rows.per.second",))
    if rows is None and rate is None:
        rate = _DEFAULT_RATE
    seed = bag.integer("seed", 42, aliases=("datagen.seed",)) or 0
    step = bag.integer("max_rows_per_step", _DEFAULT_STEP, minimum=1)
    made = _generators(spec.columns, bag, seed, rate)
    return Plan(spec.columns, made, rows, rate, step or _DEFAULT_STEP)


def _generators(columns: Schema, bag: Bag, seed: int, rate: int | None) -> tuple[Generator, ...]:
    pace = dt.timedelta(microseconds=1_000_000 // rate) if rate else dt.timedelta(seconds=1)
    bags = bag.family("fields")
    made = [generator(Field(c.name, arrow_type(c.type), c.nullable, seed, pace), bags) for c in columns]
    for member, left in bags.items():
        hint = did_you_mean(member, names(columns), "columns")
        raise make("UNKNOWN_OPTION", message=f"DATAGEN has no column {member}", hint=hint, span=left.span)
    return tuple(made)
