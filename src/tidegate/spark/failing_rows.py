"""Rows for which an expression raises an error: which expressions can, how Spark evaluates them without failing the
step, and what is recorded.

Such a branch is evaluated inside `catching`, which gives NULL instead of raising. A row that became NULL leaves
the step as JSON, under the number of its consumer. The driver then evaluates the branch for this row alone, which tells
the expression and the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import functions
from sqlglot import exp, parse_one

from tidegate.circuit.model import Circuit, ops_behind
from tidegate.core.columns import ERROR, RAW
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Schema
from tidegate.core.types import Type, parse_type
from tidegate.errors import Error, make
from tidegate.spark.catching import catching
from tidegate.spark.compat import collect_in_jvm
from tidegate.spark.conditions import quiet, reason_of
from tidegate.spark.consumers import Consumer, rounds_of
from tidegate.spark.expressions import inside
from tidegate.spark.misfits import REASON, visible_row
from tidegate.sql import Tidegate
from tidegate.storage.step_header import RejectedRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODE = "EXPRESSION_FAILED"
EXPLAINED = 20
"""The number of failed rows per step for which the expression and the reason are looked for."""

MAX_BYTES = 1 << 24
"""Larger values are not stored: the rows of a batch have to fit into memory together."""

_AMPLIFYING = re.compile(
    r"\b(repeat|array_repeat|sequence|[lr]pad|space|replace|regexp_replace|translate|overlay|concat(_ws)?|array_join"
    r"|flatten|transform|aggregate|reduce|zip_with|arrays_zip|format_string|printf|map_concat|array_insert)\(",
    re.IGNORECASE,
)
"""Functions that make large values of small ones."""

_UNFIT = {
    "string": "the text is not UTF-8, or larger than 16 MiB",
    "binary": "it is larger than 16 MiB",
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "the time is outside of the years 1 to 9999"),
}

FIRST_TIME, LAST_TIME = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_PLAIN = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Paren,
    exp.Alias,
    exp.Dot,
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.DataType,
    exp.DataTypeParam,
    exp.Bracket,
    exp.Distinct,
    exp.Tuple,
    exp.Var,
)
_RAISING_PREDICATES = (exp.RegexpLike, exp.Like, exp.ILike, exp.SimilarTo)
_HARMLESS_NAMES = """
    abs array array_contains ascii bit_length boolean ceil ceiling char_length character_length coalesce concat
    date_trunc day dayofmonth dayofweek dayofyear exists floor get_json_object greatest hour if ifnull initcap instr
    isnotnull isnull lcase least left length lower ltrim minute month named_struct nanvl nullif nvl nvl2 octet_length
    position quarter right round rtrim second size struct substr substring trim try_parse_json try_variant_get ucase
    upper weekday weekofyear xxhash64 year
"""
_HARMLESS = frozenset(_HARMLESS_NAMES.split())
"""Functions that give NULL, or another value, whatever their arguments are."""


def may_raise(sql: str, types: Mapping[str, str]) -> bool:
    """True unless the expression gives a value for every row. `types`: the types of known columns."""
    tree = parse_one(f"SELECT {sql}", read=Tidegate).expressions[0]
    return any(_may_raise(node, types) for node in tree.walk())


def _may_raise(node: exp.Expr, types: Mapping[str, str]) -> bool:
    if isinstance(node, _ARITHMETIC):
        operands = [node.this] if isinstance(node, exp.Neg) else [node.this, node.expression]
        return not all(_is_number(each, types) for each in operands)
    if isinstance(node, exp.Cast):
        return node.to.this not in _SAFE_CASTS
    if isinstance(node, exp.Anonymous):
        return node.name.lower() not in _HARMLESS
    return not isinstance(node, _PLAIN) or isinstance(node, _RAISING_PREDICATES)


_SAFE_CASTS = frozenset(
    {
        *(exp.DataType.Type[each] for each in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")),
        exp.DataType.Type.DECIMAL,
    }
)
"""Casts to times give times beyond the year 9999, casts to STRING bytes that are not UTF-8."""


def _is_number(node: exp.Expr, types: Mapping[str, str]) -> bool:
    match node:
        case exp.Paren():
            return _is_number(node.this, types)
        case exp.Literal():
            return not node.is_string
        case exp.Column():
            return types.get(node.name, "").split("(")[0] in _NUMBERS
        case exp.Neg() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return True
        case exp.Cast():
            return node.to.this in _SAFE_CASTS
    return False


def can_fail(consumer: Consumer, types: Mapping[str, str]) -> bool:
    """True if some expression of a branch may raise. `types`: the types of the columns that the branch reads."""
    known = dict(types)
    for filters, items, _ in rounds_of(consumer.branch):
        items = tuple(items)
        if any(may_raise(sql, known) for sql in [*filters, *(sql for _, sql in items)]):
            return True
        known = {name: known[source] for name, sql in items if (source := _column(sql)) in known}
    return False


def _column(sql: str) -> str:
    """The name, if the expression is just that."""
    return sql[1:-1].replace("``", "`") if sql.startswith("`") and sql.endswith("`") else ""


def unfit(consumer: Consumer, prefix: str) -> list[str]:
    """Conditions on the last projection of a branch: a computed value that no view can hold, since it is a text that is
    not UTF-8, or a time outside of the years 1 to 9999."""
    computed: set[str] = set()
    for number, (_, items, _) in enumerate(rounds_of(consumer.branch)):
        read = [(name, _column(sql)) for name, sql in items]
        computed = {name for name, source in read if not source or (number and source in computed)}
    tests = []
    for column in consumer.branch.columns:
        if column.name not in computed:
            continue
        test = unfit_value(f"{prefix}.{identifier(column.name)}", column.type)
        tests += [test] if test else []
    return tests


def unfit_value(sql: str, type: str) -> str | None:
    """The condition under which a value of a type cannot be held; None if every value can be."""
    parsed = parse_type(type)
    size = _bytes(sql, parsed, 0)
    tests = [f"coalesce({size} > {MAX_BYTES}, FALSE)"] if size is not None else []
    tests += [test] if (test := _unfit(sql, parsed, 0)) is not None else []
    return f"({' OR '.join(tests)})" if tests else None


def bounded(sql: str, type: str) -> str:
    """The expression, raising an error for a value that is too large. A value that an expression made of little input
    must not reach the rows that Spark copies, since what happens there is not caught."""
    size = _bytes("v", parse_type(type), 0) if _AMPLIFYING.search(sql) else None
    if size is None:
        return sql
    checked = f"v -> IF(coalesce({size} > {MAX_BYTES}, FALSE), raise_error('it is larger than 16 MiB'), v)"
    return f"element_at(transform(array({sql}), {checked}), 1)"


def _bytes(sql: str, type: Type, depth: int) -> str | None:
    """About how many bytes a value has; None if a value of the type is never large."""
    match type.name:
        case "string" | "binary":
            return f"octet_length({sql})"
        case "array":
            of_element = _bytes(f"e{depth}", type.inner[0], depth + 1)
            slots = f"8L * size({sql})"
            if of_element is None:
                return slots
            total = f"aggregate({sql}, {slots}, (b{depth}, e{depth}) -> b{depth} + coalesce({of_element}, 0L))"
            return f"IF({slots} > {MAX_BYTES}, {slots}, {total})"
        case "map":
            parts = zip(("map_keys", "map_values"), type.inner, strict=True)
            sizes = (_bytes(f"{part}({sql})", Type("array", (inner,)), depth) for part, inner in parts)
        case "struct":
            fields = zip(type.fields, type.inner, strict=True)
            sizes = (_bytes(f"{sql}.{identifier(name)}", inner, depth) for name, inner in fields)
        case _:
            return None
    known = [f"coalesce({size}, 0L)" for size in sizes if size is not None]
    return f"({' + '.join(known)})" if known else None


def _unfit(sql: str, type: Type, depth: int) -> str | None:
    tests: list[str | None]
    match type.name:
        case "string":
            tests = [f"NOT is_valid_utf8({sql})"]
        case "date" | "timestamp" | "timestamp_ntz":
            cut = slice(0, 10) if type.name == "date" else slice(None)
            first, last = (f"CAST('{each[cut]}' AS {type.name})" for each in (FIRST_TIME, LAST_TIME))
            tests = [f"{sql} NOT BETWEEN {first} AND {last}"]
        case "struct":
            fields = zip(type.fields, type.inner, strict=True)
            tests = [_unfit(f"{sql}.{identifier(name)}", inner, depth) for name, inner in fields]
        case "array":
            tests = [_any_unfit(sql, type.inner[0], depth)]
        case "map":
            keys, values = type.inner
            tests = [_any_unfit(f"map_keys({sql})", keys, depth), _any_unfit(f"map_values({sql})", values, depth)]
        case _:
            return None
    found = [f"coalesce({test}, FALSE)" for test in tests if test is not None]
    return f"({' OR '.join(found)})" if found else None


def _any_unfit(array: str, type: Type, depth: int) -> str | None:
    """The condition under which an element of an array cannot be held."""
    test = _unfit(f"e{depth}", type, depth + 1)
    return None if test is None else f"exists({array}, e{depth} -> {test})"


def reject_misfits(frame: DataFrame, consumers: Iterable[Consumer]) -> DataFrame:
    """A connector's flat frame in which rows are malformed that have a misfit in a column from which something is
    computed: Spark's functions would repair or change it silently."""
    used = _computed_from(consumers)
    tests = [test for name, type in frame.dtypes if name in used and (test := unfit_value(identifier(name), type))]
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
        computed = [*filters, *(sql for _, sql in items if not _column(sql))]
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
            if not any(_column(sql) == "" for _, items, _ in rounds_of(branch) for _, sql in items)
        }
        """The relation whose rows a producer has, if one is stored as it is."""
        stopping = {output.relation for output in circuit.outputs if output.on_error == "stop"}
        self._stopping = frozenset() if skip_poison else frozenset(stopping)

    def records(self, failed: Iterable[tuple[int, str, str | None]]) -> list[RejectedRow]:
        """The records of failed rows, given as (number of the consumer, row as JSON, reason if it is known)."""
        return [
            record
            for number, (index, text, reason) in enumerate(sorted(failed, key=lambda each: (each[0], each[1])))
            for record in self._records(self._consumers[index], text, reason, explain=number < EXPLAINED)
        ]

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
                reason = None if _column(sql) else self._reason(inside(sql, None), rows, types.get(name or "", ""))
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
                (failed, unfit), *_ = caught.selectExpr("caught IS NULL", test).collect()
                if failed:
                    collect_in_jvm(frame.selectExpr(sql))
            except (PySparkException, Py4JJavaError) as problem:
                return reason_of(problem)
        return _UNFIT.get(type, REASON) if unfit else None


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
