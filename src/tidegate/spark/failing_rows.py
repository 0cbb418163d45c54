"""Rows for which an expression fails, and what is recorded of them.

A branch that can fail is evaluated inside of `catching`, which gives NULL instead of raising. A row that became NULL
leaves the step as JSON, under the number of its consumer. The driver then evaluates the branch for this row alone,
which tells the expression and the reason."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import functions

from tidegate.circuit.model import Circuit, ops_behind
from tidegate.core.columns import ERROR, RAW
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Schema
from tidegate.errors import Error, make
from tidegate.spark.can_fail import column_of
from tidegate.spark.catching import ROW_SECONDS, catching
from tidegate.spark.compat import collect_in_jvm
from tidegate.spark.conditions import quiet, reason_of
from tidegate.spark.consumers import Consumer, rounds_of
from tidegate.spark.expressions import inside
from tidegate.spark.misfits import REASON, visible_row
from tidegate.spark.unfit_values import REASONS, bounded, misfit_value, unfit_value
from tidegate.storage.step_header import RejectedRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODE = "EXPRESSION_FAILED"
EXPLAINED = 20
"""The number of failed rows per step for which the expression and the reason are looked for."""
EXPLAIN_SECONDS = 10.0
"""After this time no further row of a step is explained."""


def reject_misfits(frame: DataFrame, consumers: Iterable[Consumer]) -> DataFrame:
    """A connector's flat frame in which rows are malformed that have a misfit in a column from which something is
    computed: Spark's functions would repair or change it silently."""
    used = _computed_from(consumers)
    tests = [test for name, type in frame.dtypes if name in used and (test := misfit_value(identifier(name), type))]
    if not tests:
        return frame
    unfit, own = " OR ".join(tests), ", ".join(identifier(name) for name in frame.columns if not name.startswith("__"))
    row = f"to_json(struct({own}), map('ignoreNullFields', 'false'))"
    return frame.withColumns(
        {
            ERROR: functions.expr(f"coalesce({ERROR}, CASE WHEN {unfit} THEN {literal(REASON)} END)"),
            RAW: functions.expr(f"coalesce({RAW}, CASE WHEN {unfit} THEN make_valid_utf8({row}) END)"),
        }
    )


def _computed_from(consumers: Iterable[Consumer]) -> set[str]:
    """The columns of their producer that are read by more than a plain selection."""
    names: set[str] = set()
    for consumer in consumers:
        filters, items, _ = rounds_of(consumer.branch)[0]
        computed = [*filters, *(sql for _, sql in items if not column_of(sql))]
        names |= {name for sql in computed for name in _names(sql)}
    return names


class FailingRows:
    """What is recorded of rows for which an expression failed, one record per view."""

    def __init__(
        self, spark: SparkSession, circuit: Circuit, consumers: Sequence[Consumer], skip_poison: bool = False
    ) -> None:
        self._spark, self._consumers = spark, consumers
        self._schemas: dict[str, Schema] = {item.producer: item.columns for item in circuit.inputs}
        self._schemas |= {op.id: op.columns for op in circuit.ops}
        self._needed = {output.relation: ops_behind(circuit, output) for output in circuit.outputs}
        self._stored = {
            branch.producer: output.relation
            for output in reversed(circuit.outputs)
            for branch in output.branches
            if not any(column_of(sql) == "" for _, items, _ in rounds_of(branch) for _, sql in items)
        }
        """The relation whose rows a producer has, if one is stored as it is."""
        stopping = {output.relation for output in circuit.outputs if output.on_error == "stop"}
        self._stopping = frozenset() if skip_poison else frozenset(stopping)

    def records(self, failed: Iterable[tuple[int, str, str | None]]) -> list[RejectedRow]:
        """The records of failed rows, given as (number of the consumer, row as JSON, reason if it is known)."""
        records: list[RejectedRow] = []
        until = time.monotonic() + EXPLAIN_SECONDS
        for number, (index, text, reason) in enumerate(sorted(failed, key=lambda each: (each[0], each[1]))):
            explain = number < EXPLAINED and time.monotonic() < until
            records += self._records(self._consumers[index], text, reason, explain)
        return records

    def stop(self, records: Iterable[RejectedRow]) -> Error | None:
        """The error that ends the pipeline, if a row failed for a view with `on_error = 'stop'`."""
        failed = next((record for record in records if record.view in self._stopping), None)
        if failed is None:
            return None
        hint = (
            f"`tidegate run --skip-poison` records such rows in system.errors and goes on; "
            f"or DROP VIEW {failed.view}, or create it with on_error = 'quarantine'"
        )
        return make(CODE, view=failed.view, problem=failed.message, row=failed.row, hint=hint)

    def _records(self, consumer: Consumer, text: str, known: str | None, explain: bool) -> Iterator[RejectedRow]:
        found = self._explanation(consumer, text) if explain else None
        sql, reason = found or (None, known)
        expression = None if sql is None else sql.replace("`", "")
        views = self._views(consumer)
        producer = consumer.branch.producer
        relation = producer.relation or self._stored.get(producer) or (views[0] if views else "")
        message = f"{expression or 'an expression'}: {reason or 'an error, which gives this row no result'}"
        owners: list[str | None] = [*views] or [None]
        for view in owners:
            yield RejectedRow(relation, CODE, message, visible_row(text), view, expression)

    def _views(self, consumer: Consumer) -> list[str]:
        """The views that a consumer's rows are for; none if they are just read."""
        if consumer.output is not None:
            return [consumer.output.relation]
        return [view for view, ops in self._needed.items() if consumer.op is not None and consumer.op.id in ops]

    def _explanation(self, consumer: Consumer, text: str) -> tuple[str, str] | None:
        """The first expression that fails for a row, and why."""
        columns = self._schemas.get(consumer.branch.producer, ())
        schema = ", ".join(f"{identifier(column.name)} {column.type}" for column in columns)
        # Spark evaluates what stands over VALUES while it plans, without a task, which an error could not leave.
        rows = f"(SELECT r.* FROM VALUES (from_json({literal(text)}, {literal(schema)})) AS `__values`(r))"
        types = {column.name: column.type for column in consumer.branch.columns}
        for filters, items, _ in rounds_of(consumer.branch):
            items = tuple(items)
            for name, sql in [*((None, sql) for sql in filters), *items]:
                reason = None if column_of(sql) else self._reason(inside(sql, None), rows, types.get(name or "", ""))
                if reason is not None:
                    return sql, reason
            computed = ", ".join(f"{inside(sql, None)} AS {identifier(name)}" for name, sql in items)
            rows = f"(SELECT {computed} FROM {rows})"
        return None

    def _reason(self, sql: str, rows: str, type: str) -> str | None:
        """Why an expression fails for a row; None if it does not."""
        with quiet():
            try:
                frame = self._spark.sql(f"SELECT * FROM {rows}")
                sql = bounded(sql, type) if type else sql
                caught = frame.select(catching(self._spark, f"named_struct('value', {sql})").alias("caught"))
                test = (type and unfit_value("caught.value", type)) or "FALSE"
                began = time.monotonic()
                (failed, unfit), *_ = caught.selectExpr("caught IS NULL", test).collect()
                if failed and time.monotonic() - began > ROW_SECONDS:
                    return f"it had no result after {ROW_SECONDS} seconds"
                if failed:
                    collect_in_jvm(frame.selectExpr(sql))
            except (PySparkException, Py4JJavaError) as problem:
                return reason_of(problem)
        return REASONS.get(type, REASON) if unfit else None


def columns_read(consumers: Iterable[Consumer]) -> set[str]:
    """The columns of their producer that branches read."""
    names: set[str] = set()
    for consumer in consumers:
        filters, items, tests = rounds_of(consumer.branch)[0]
        names |= {test.column for test in tests}
        for sql in [*filters, *(sql for _, sql in items)]:
            names |= _names(sql)
    return names


def _names(sql: str) -> set[str]:
    """The back-quoted names in an expression."""
    return {each.replace("``", "`") for each in re.findall(r"`((?:[^`]|``)+)`", sql)}
