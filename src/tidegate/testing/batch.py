"""Many small queries as one job: each query's rows are structs in one column of a union."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
}
TOGETHER = 30


@dataclass(frozen=True)
class Job:
    """A query and the relations that it reads, by the names it has for them."""

    sql: str
    reads: Mapping[str, pa.Table]


class Batch:
    """Runs queries over rows that it is given. Relations are Arrow tables; the same table is handed to Spark once."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark.newSession()
        for name, value in SETTINGS.items():
            self._spark.conf.set(name, value)
        self._frames: dict[int, tuple[pa.Table, Any]] = {}
        self._named: dict[str, pa.Table] = {}

    def run(self, jobs: Sequence[Job]) -> list[pa.Table]:
        """The answers, in order."""
        answers: dict[int, pa.Table] = {}
        for places in _agreeing(jobs):
            for start in range(0, len(places), TOGETHER):
                part = places[start : start + TOGETHER]
                answers.update(zip(part, self._together([jobs[place] for place in part]), strict=True))
        return [answers[place] for place in range(len(jobs))]

    def _together(self, jobs: Sequence[Job]) -> list[pa.Table]:
        for name, table in {name: table for job in jobs for name, table in job.reads.items()}.items():
            self._name(name, table)
        if len(jobs) == 1:
            return [self._spark.sql(jobs[0].sql).toArrow()]
        answer: pa.Table = self._spark.sql(_union(jobs)).toArrow()
        return [_part(answer, place) for place in range(len(jobs))]

    def _name(self, name: str, table: pa.Table) -> None:
        if self._named.get(name) is table:
            return
        self._named[name] = table
        self._frame(table).createOrReplaceTempView(name)

    def _frame(self, table: pa.Table) -> Any:
        if id(table) not in self._frames:
            named = {id(one) for one in self._named.values()}
            self._frames = {key: kept for key, kept in self._frames.items() if key in named}
            self._frames[id(table)] = (table, self._spark.createDataFrame(table).coalesce(1))
        return self._frames[id(table)][1]


def _agreeing(jobs: Sequence[Job]) -> Iterator[list[int]]:
    """The jobs in groups within which a name means one table."""
    left = list(range(len(jobs)))
    while left:
        meant: dict[str, pa.Table] = {}
        chosen: list[int] = []
        rest: list[int] = []
        for place in left:
            reads = jobs[place].reads
            fits = all(meant.get(name, table) is table for name, table in reads.items())
            (chosen if fits else rest).append(place)
            meant.update(reads if fits else {})
        yield chosen
        left = rest


def _union(jobs: Sequence[Job]) -> str:
    """`SELECT 0 AS n, array(struct(*)) AS q0, array() AS q1 FROM (...) UNION ALL SELECT 1, array(), array(struct(*))`

    A struct cannot be NULL where it has columns that cannot; an array can be empty."""
    parts = []
    for place, job in enumerate(jobs):
        filled = ["array(struct(*))" if other == place else "array()" for other in range(len(jobs))]
        columns = ", ".join(f"{value} AS q{other}" for other, value in enumerate(filled))
        parts.append(f"SELECT {place} AS n, {columns} FROM ({job.sql}\n)")
    return "\nUNION ALL\n".join(parts)


def _part(answer: pa.Table, place: int) -> pa.Table:
    rows = answer.filter(pc.equal(answer["n"], place))[f"q{place}"].combine_chunks().flatten()
    return pa.Table.from_arrays(rows.flatten(), names=[field.name for field in rows.type])
