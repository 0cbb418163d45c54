"""Batch queries of the oracle. Many small queries run as one Spark job: the rows of each are structs in one column of a
union."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.types import Type, arrow_type
from tidegate.core.types import from_arrow as type_of
from tidegate.testing.oracle.amounts import Number, Unknown, number, value
from tidegate.testing.oracle.bags import from_arrow, to_arrow

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For queries of few rows: planning counts. A broadcast is a Spark job of its own."""
QUERIES_PER_JOB = 30


@dataclass(frozen=True)
class Job:
    """A query and the relations that it reads, by the names it uses for them."""

    sql: str
    reads: Mapping[str, pa.Table]


class Batch:
    """Runs queries over Arrow tables. A table that several queries read is converted for Spark once."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark.newSession()
        for name, setting in SETTINGS.items():
            self._spark.conf.set(name, setting)
        self._frames: dict[int, tuple[pa.Table, Any]] = {}
        self._views: dict[str, pa.Table] = {}

    def run(self, jobs: Sequence[Job]) -> list[pa.Table]:
        """The answers, in order."""
        answers: dict[int, pa.Table] = {}
        for group in _compatible(jobs):
            for start in range(0, len(group), QUERIES_PER_JOB):
                part = group[start : start + QUERIES_PER_JOB]
                answers.update(zip(part, self._run_union([jobs[index] for index in part]), strict=True))
        return [answers[index] for index in range(len(jobs))]

    def _run_union(self, jobs: Sequence[Job]) -> list[pa.Table]:
        for name, table in {name: table for job in jobs for name, table in job.reads.items()}.items():
            self._register(name, table)
        if len(jobs) == 1:
            return [self._spark.sql(jobs[0].sql).toArrow()]
        answer: pa.Table = self._spark.sql(_union(jobs)).toArrow()
        return [_part(answer, index) for index in range(len(jobs))]

    def _register(self, name: str, table: pa.Table) -> None:
        if self._views.get(name) is table:
            return
        self._views[name] = table
        self._frame(table).createOrReplaceTempView(name)

    def _frame(self, table: pa.Table) -> Any:
        if id(table) not in self._frames:
            used = {id(each) for each in self._views.values()}
            self._frames = {key: entry for key, entry in self._frames.items() if key in used}
            self._frames[id(table)] = (table, self._spark.createDataFrame(table).coalesce(1))
        return self._frames[id(table)][1]


def _compatible(jobs: Sequence[Job]) -> Iterator[list[int]]:
    """Groups of jobs in which every name stands for one table."""
    left = list(range(len(jobs)))
    while left:
        tables: dict[str, pa.Table] = {}
        group: list[int] = []
        rest: list[int] = []
        for index in left:
            reads = jobs[index].reads
            fits = all(tables.get(name, table) is table for name, table in reads.items())
            (group if fits else rest).append(index)
            tables.update(reads if fits else {})
        yield group
        left = rest


def _union(jobs: Sequence[Job]) -> str:
    """`SELECT 0 AS n, array(struct(*)) AS q0, array() AS q1 FROM (...) UNION ALL SELECT 1, array(), array(struct(*))`

    Arrays, because a struct with a column that is not nullable cannot be NULL itself."""
    parts = []
    for index, job in enumerate(jobs):
        values = ["array(struct(*))" if other == index else "array()" for other in range(len(jobs))]
        columns = ", ".join(f"{each} AS q{other}" for other, each in enumerate(values))
        parts.append(f"SELECT {index} AS n, {columns} FROM ({job.sql}\n)")
    return "\nUNION ALL\n".join(parts)


def _part(answer: pa.Table, index: int) -> pa.Table:
    rows = answer.filter(pc.equal(answer["n"], index))[f"q{index}"].combine_chunks().flatten()
    return pa.Table.from_arrays(rows.flatten(), names=[field.name for field in rows.type])


class WatermarkValues:
    """Evaluates monotone expressions over columns whose values are their watermarks. Results are cached."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._cache: dict[tuple[object, ...], Number | None] = {}

    def __call__(self, sql: str, columns: Mapping[str, tuple[Number, Type]]) -> Number | None:
        key = (sql, tuple(columns.items()))
        if key not in self._cache:
            self._cache[key] = self._evaluate(sql, columns)
        return self._cache[key]

    def _evaluate(self, sql: str, columns: Mapping[str, tuple[Number, Type]]) -> Number | None:
        schema = pa.schema([pa.field(name, arrow_type(str(kind))) for name, (_, kind) in columns.items()])
        try:
            row = [value(watermark, kind) for watermark, kind in columns.values()]
        except OverflowError:
            raise Unknown("a watermark is out of the range of its type") from None
        reads = {"__watermarks": to_arrow([row], schema)}
        [table] = self.batch.run([Job(f"SELECT {sql} AS watermark FROM __watermarks", reads)])
        return number(from_arrow(table)[0][0], type_of(table.schema.field(0).type))
