"""Rows of texts as a relation's columns, and which of them cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres import values
from tidegate.core.types import arrow_type
from tidegate.errors import Error, enumerated, make, nearest

SHOWN = 80


def typed(spec: SourceSpec, texts: Sequence[values.Texts]) -> tuple[list[pa.Array], dict[int, str]]:
    """The arrays of the columns, and what is wrong with rows that cannot be of the relation, by their places."""
    arrays, wrong = [], dict[int, str]()
    for column, said in zip(spec.columns, texts, strict=True):
        converted, faults = values.array(said, arrow_type(column.type), exact=column.name in spec.key)
        arrays.append(converted)
        for place, text in faults.items():
            wrong.setdefault(place, f"{column.name}: '{text[:SHOWN]}' is not a {column.type.upper()}")
        if not column.nullable and column.name not in spec.key and None in said:
            for place in (at for at, text in enumerate(said) if text is None):
                wrong.setdefault(place, f"{column.name} is NULL, but the column is NOT NULL")
    return arrays, wrong


def place_of(name: str, there: Sequence[str], origin: str, relation: str, further: str = "") -> int:
    """Where a column is among those of an origin. A name in just the same letters goes before one that differs in
    case. `further` is what else to do when there is none."""
    same = [at for at, other in enumerate(there) if other == name]
    alike = same or [at for at, other in enumerate(there) if other.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    raise _unplaced(name, there, origin, relation, bool(alike), further)


def _unplaced(name: str, there: Sequence[str], origin: str, relation: str, several: bool, further: str) -> Error:
    near = nearest(name, there)
    fix = f"did you mean {enumerated(near)}?" if near else f"leave {name} out of the columns of {relation}"
    fix = f"{fix}{' ' if near else ': '}{further}" if further else fix
    return make(
        "PIPELINE_FAILED",
        message=f"{origin} of {relation} has {'several columns' if several else 'no column'} {name}",
        detail=f"its columns are {', '.join(there)}",
        hint=f"rename all but one of them in the query: SELECT ... AS {name}" if several else fix,
    )
