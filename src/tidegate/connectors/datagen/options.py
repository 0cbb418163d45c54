"""Options of `FROM DATAGEN (...)`, and the generators that they describe."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field as Option

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.datagen import generators as g
from tidegate.connectors.datagen import literals
from tidegate.connectors.datagen.generators import Generator, key_of
from tidegate.core.option_models import Aliases, OptionModel, whole_number
from tidegate.core.options import Bag, invalid
from tidegate.core.schema import Schema, names
from tidegate.core.types import arrow_type, spark_name
from tidegate.errors import did_you_mean, make

_MOST_ZIPF_VALUES = 10_000_000


@dataclass(frozen=True)
class Field:
    """A column, or a part of one, that needs a generator. `pace` is the time between two rows."""

    path: str
    type: pa.DataType
    nullable: bool
    seed: int
    pace: dt.timedelta

    @property
    def key(self) -> int:
        return key_of(self.seed, self.path)


def generator(field: Field, bags: dict[str, Bag]) -> g.Generator:
    """Build the generator of a column. Takes the options of the column and its parts out of `bags`."""
    bag = bags.pop(field.path.casefold(), Bag(f"fields.{field.path}", []))
    at = bag.span_of("null_rate")
    rate = bag.take("null_rate", literals.fraction, "a number from 0 to 1", 0.0)
    if rate and not field.nullable:
        message = f"column {field.path} is NOT NULL, so it cannot have a null_rate"
        raise make("INVALID_OPTION", message=message, hint="leave out null_rate or NOT NULL", span=at)
    values = _values(field, bag, bags)
    bag.finish()
    return g.WithNulls(field.type, values, key_of(field.key, "nulls"), rate) if rate else values


def _values(field: Field, bag: Bag, bags: dict[str, Bag]) -> g.Generator:
    if isinstance(field.type, pa.StructType):
        parts = [
            generator(replace(field, path=f"{field.path}.{part.name}", type=part.type, nullable=part.nullable), bags)
            for part in field.type.fields
        ]
        return g.Fields(field.type, tuple(parts))
    if isinstance(field.type, pa.ListType):
        length = bag.integer("elements", 3)
        element = _values(replace(field, path=f"{field.path}[]", type=field.type.value_type), bag, bags)
        return g.Elements(field.type, element, length or 0)
    return _MAKERS[_kind(field, bag)](field, bag)


def _kind(field: Field, bag: Bag) -> str:
    kinds = kinds_of(field.type)
    if not kinds:
        message = f"DATAGEN cannot make column {field.path} of type {spark_name(field.type)}"
        raise make("NOT_SUPPORTED", message=message, hint="leave the column out, or feed it by INSERT", span=bag.span)
    at = bag.span_of("kind")
    kind = bag.text("kind", kinds[0]) or ""
    word = _of_other_systems(kind.strip().casefold(), kinds)
    if word not in kinds:
        expected = f"one of {', '.join(kinds)} for a {spark_name(field.type)}"
        raise invalid(f"fields.{field.path}.kind", kind, expected, at)
    return word


def _of_other_systems(word: str, kinds: tuple[str, ...]) -> str:
    """Translate `random`, other systems' word for uniform numbers and random text."""
    if word != "random":
        return word
    return "text" if "text" in kinds else "uniform"


def kinds_of(type_: pa.DataType) -> tuple[str, ...]:
    """Return the kinds of generators for a type, the default first."""
    types = pa.types
    if types.is_integer(type_):
        return ("uniform", "sequence", "zipf", "choice")
    if types.is_string(type_):
        return ("text", "sequence", "uniform", "zipf", "choice")
    if types.is_timestamp(type_) or types.is_date(type_):
        return ("timestamp", "uniform", "choice")
    if types.is_floating(type_) or types.is_decimal(type_) or types.is_boolean(type_):
        return ("uniform", "choice")
    return ("text",) if types.is_binary(type_) else ()


def _sequence(field: Field, bag: Bag) -> g.Generator:
    start = _take_integer(bag, "start", field.type, 1)
    step = bag.integer("step", 1, minimum=1) or 1
    end = _upper(bag, "end", literals.whole(field.type), _expected(field.type), start, None)
    return g.Sequence(field.type, start, step, end, _prefix(bag, field.type))


def _uniform(field: Field, bag: Bag) -> g.Generator:
    if pa.types.is_boolean(field.type):
        return g.Choice(field.key, pa.array([False, True]), (1.0, 1.0))
    if pa.types.is_floating(field.type):
        least = bag.take("min", float, "a number", 0.0) or 0.0
        most = _upper(bag, "max", float, "a number", least, max(1000.0, least))
        return g.UniformReal(field.type, field.key, least, least if most is None else most)
    first, last = literals.default_range(field.type)
    low = _take_integer(bag, "min", field.type, first)
    high = _upper(bag, "max", literals.whole(field.type), _expected(field.type), low, max(low, last))
    return g.Uniform(field.type, field.key, low, low if high is None else high, _prefix(bag, field.type))


def _zipf(field: Field, bag: Bag) -> g.Generator:
    low = _take_integer(bag, "min", field.type, 1)
    default = max(low, literals.default_range(field.type)[1])
    at = bag.span_of("max")
    high = _upper(bag, "max", literals.whole(field.type), _expected(field.type), low, default) or low
    if high - low >= _MOST_ZIPF_VALUES:
        raise invalid("max", str(high), f"at most {_MOST_ZIPF_VALUES} values from min to max", at)
    exponent = bag.take("exponent", literals.positive, "a number above 0", 1.1) or 1.1
    return g.Zipf(field.type, field.key, low, high, exponent, _prefix(bag, field.type))


def _choice(field: Field, bag: Bag) -> g.Generator:
    expected = f"values of type {spark_name(field.type)} with commas between"
    choices = bag.take("choices", literals.listed(field.type), expected)
    if choices is None:
        raise make("MISSING_OPTION", where=bag.where, name="choices", hint="add choices = 'a,b,c'", span=bag.span)
    equal = (1.0,) * len(choices)
    weights = bag.take("weights", literals.weights(len(choices)), f"{len(choices)} numbers, not all 0", equal)
    return g.Choice(field.key, choices, weights or equal)


def _text(field: Field, bag: Bag) -> g.Generator:
    return g.Text(field.type, field.key, bag.integer("length", 10, minimum=1) or 10)


def _timestamp(field: Field, bag: Bag) -> g.Generator:
    expected = "a time such as '2024-05-01 12:00:00'"
    start = bag.take("start", literals.microseconds, expected, literals.microseconds("2024-01-01"))
    step = bag.duration("step", field.pace) or dt.timedelta()
    disorder = bag.duration("disorder") or dt.timedelta()
    us = literals.duration_us
    return g.Timestamps(field.type, field.key, start or 0, us(step), us(disorder))


_MAKERS: Mapping[str, Callable[[Field, Bag], g.Generator]] = {
    "sequence": _sequence,
    "uniform": _uniform,
    "zipf": _zipf,
    "choice": _choice,
    "text": _text,
    "timestamp": _timestamp,
}


def _take_integer(bag: Bag, name: str, type_: pa.DataType, default: int) -> int:
    value = bag.take(name, literals.whole(type_), _expected(type_))
    return default if value is None else value


def _upper(bag: Bag, name: str, parse: Callable[[str], Any], expected: str, low: Any, default: Any) -> Any:
    """Take the upper end of a range, which must not be below its lower end."""

    def not_below(text: str) -> Any:
        value = parse(text)
        if value < low:
            raise ValueError(text)
        return value

    return bag.take(name, not_below, f"{expected}, not below the lower end", default)


def _prefix(bag: Bag, type_: pa.DataType) -> str:
    return (bag.text("prefix") or "") if pa.types.is_string(type_) else ""


def _expected(type_: pa.DataType) -> str:
    return "a whole number" if pa.types.is_string(type_) else f"a value of type {spark_name(type_)}"


_DEFAULT_RATE = 10


class DatagenOptions(OptionModel):
    """How many rows are generated, and how fast; `fields.*` are options of columns."""

    rows: Annotated[int | None, whole_number(0), Aliases("number_of_rows")] = Option(
        None, description="Number of rows in all; endless by default."
    )
    rows_per_second: Annotated[int | None, whole_number(1), Aliases("datagen.rows.per.second")] = Option(
        None, description="Rate by the wall clock; as fast as possible by default, 10 if rows is not set either."
    )
    seed: Annotated[int, whole_number(0), Aliases("datagen.seed")] = Option(42, description="Seed of random values.")
    max_rows_per_step: Annotated[int, whole_number(1)] = Option(
        100_000, description="Largest number of rows in a step."
    )


@dataclass(frozen=True)
class Plan:
    """What is generated: the number of rows (None: endless), the rate (None: as fast as possible), and a generator per
    column."""

    columns: Schema
    generators: tuple[Generator, ...]
    rows: int | None
    rows_per_second: int | None
    max_rows_per_step: int


def plan(spec: SourceSpec, bag: Bag) -> Plan:
    """Take a source's options out of the bag."""
    options = DatagenOptions.take(bag)
    rate = options.rows_per_second
    if options.rows is None and rate is None:
        rate = _DEFAULT_RATE
    generators = _generators(spec.columns, bag, options.seed, rate)
    return Plan(spec.columns, generators, options.rows, rate, options.max_rows_per_step)


def _generators(columns: Schema, bag: Bag, seed: int, rate: int | None) -> tuple[Generator, ...]:
    pace = dt.timedelta(microseconds=1_000_000 // rate) if rate else dt.timedelta(seconds=1)
    bags = bag.family("fields")
    generators = [generator(Field(c.name, arrow_type(c.type), c.nullable, seed, pace), bags) for c in columns]
    for member, options in bags.items():
        hint = did_you_mean(member, names(columns), "columns")
        raise make("UNKNOWN_OPTION", message=f"DATAGEN has no column {member}", hint=hint, span=options.span)
    return tuple(generators)
