"""Wide frames: one struct column per producer, and the expressions of all branches over it in lockstep."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from tidegate.circuit.model import Branch
from tidegate.core.columns import ORDER, SEQ, SHARD, WEIGHT
from tidegate.core.schema import Schema
from tidegate.spark.catching import catching
from tidegate.spark.consumers import GUARD, Consumer, rounds_of
from tidegate.spark.expressions import inside, literal, quoted
from tidegate.spark.failing_rows import columns_read
from tidegate.spark.types import struct_type
from tidegate.spark.unfit_values import bounded, unfit

ADDRESS = [
    StructField("__op", StringType()),
    StructField("__bucket", IntegerType()),
    StructField("__tag", StringType()),
    StructField("__payload", BinaryType()),
]
ADDRESS_NAMES = [field.name for field in ADDRESS]
BAD = """CASE WHEN `__error` IS NOT NULL
    THEN named_struct('message', make_valid_utf8(`__error`), 'row', make_valid_utf8(`__raw`)) END AS `__bad`"""
FAILED, FAILED_ROW = "__failed", "__failed_row"

PARSING = re.compile(r"try_parse_json\((?:`(?:[^`]|``)+`\.)*`(?:[^`]|``)+`\)")


def wide_schema(producers: Mapping[str, Schema], ordered: bool) -> StructType:
    """The schema of a wide frame: addresses of passing blocks, then a struct per producer."""
    extra = [StructField(WEIGHT, LongType())] + ([StructField(SEQ, LongType())] if ordered else [])
    structs = [
        StructField(name, StructType(struct_type(columns).fields + extra)) for name, columns in producers.items()
    ]
    return StructType(ADDRESS + structs)


def is_name(sql: str) -> bool:
    """True for a back-quoted name and nothing else."""
    return sql.startswith("`") and sql.endswith("`") and "`" not in sql[1:-1].replace("``", "")


def evaluate(
    frame: DataFrame,
    pairs: list[tuple[Consumer, str | None]],
    extra: list[str],
    extra_names: list[str],
    ordered: bool,
    catch: frozenset[int] = frozenset(),
) -> DataFrame:
    """All branches in lockstep: each select does one round of filters and one projection of every branch. `catch` are
    the numbers of branches whose expressions may raise: a row for which one does is in the column `__failed`."""
    sharded = SHARD in frame.columns
    plans = [_rounds(consumer, f"t{index}", prefix, ordered, sharded) for index, (consumer, prefix) in enumerate(pairs)]
    current, plans = _parse_once(frame, plans)
    failed = FailedRows(pairs, frame.columns, catch)
    beside = [*extra, *failed.carry]
    for number in range(max((len(plan) for plan in plans), default=1)):
        current = _round(current, beside, [plan[number : number + 1] for plan in plans], catch)
        beside = [*extra_names, *failed.carried]
        if catch:
            current = current.selectExpr(*beside, *failed.after_round(number, [len(plan) for plan in plans]))
            beside += failed.flags
    if not catch:
        return current.selectExpr(*extra_names, *_with_hashes(pairs, catch))
    with_row = current.select("*", catching(current.sparkSession, failed.row).alias(FAILED_ROW))
    return with_row.selectExpr(*extra_names, *_with_hashes(pairs, catch), failed.column)


def _round(frame: DataFrame, beside: list[str], plans: list[list[str]], catch: frozenset[int]) -> DataFrame:
    """One round of all branches, each as a struct; a branch without such a round stays. One that may raise is the field
    `v` of another struct, which is NULL where it did."""
    structs = [(f"t{index}", plan[0] if plan else quoted(f"t{index}")) for index, plan in enumerate(plans)]
    if not catch:
        return frame.selectExpr(*beside, *(f"{sql} AS {quoted(name)}" for name, sql in structs))
    columns = [functions.expr(each) for each in beside]
    for index, (name, sql) in enumerate(structs):
        caught = index in catch and bool(plans[index])
        wrapped = catching(frame.sparkSession, f"named_struct('v', {sql})") if caught else functions.expr(sql)
        columns.append(wrapped.alias(name))
    return frame.select(*columns)


def _with_hashes(pairs: list[tuple[Consumer, str | None]], catch: frozenset[int]) -> list[str]:
    """The structs of all branches, NULL for rows that failed, and their hashes."""
    structs = [
        f"IF({quoted(FailedRows.flag(index))}, NULL, {name}) AS {name}" if index in catch else name
        for index in range(len(pairs))
        for name in [quoted(f"t{index}")]
    ]
    hashes = [
        f"{hash_sql(f't{index}', columns)} AS {quoted(f't{index}#{name}')}"
        for index, (consumer, _) in enumerate(pairs)
        for name, columns in consumer.hashes
    ]
    return [*structs, *hashes]


class FailedRows:
    """The SQL by which rows whose expressions raised reach the column `__failed`: the numbers of the branches, and the
    row as its producer had it, as JSON. Deleted rows are not recorded again."""

    def __init__(self, pairs: list[tuple[Consumer, str | None]], columns: list[str], catch: frozenset[int]) -> None:
        self._consumers = [consumer for consumer, _ in pairs]
        self._catch = sorted(catch)
        prefixes = list(dict.fromkeys(pairs[index][1] for index in self._catch))
        flat = [name for name in columns if name in columns_read(self._consumers)] if None in prefixes else []
        names = {name: f"__row{number}" for number, name in enumerate([*flat, *([WEIGHT] if None in prefixes else [])])}
        structs = [prefix for prefix in prefixes if prefix is not None]
        self.carry = [f"{quoted(name)} AS {quoted(to)}" for name, to in names.items()]
        self.carry += [quoted(prefix) for prefix in structs]
        self.carried = [*(quoted(to) for to in names.values()), *(quoted(prefix) for prefix in structs)]
        self.flags = [quoted(self.flag(index)) for index in self._catch]
        self._any = " OR ".join(self.flags)
        texts = [_json_of(quoted(prefix), f"{quoted(prefix)}.{quoted(WEIGHT)}") for prefix in structs]
        if names:
            row = ", ".join(f"{literal(name)}, {quoted(to)}" for name, to in names.items())
            texts.append(_json_of(f"named_struct({row})", quoted(names[WEIGHT])))
        self.row = f"CASE WHEN {self._any} THEN make_valid_utf8(coalesce({', '.join(texts)}, '')) END" if texts else ""

    @staticmethod
    def flag(index: int) -> str:
        """The column that tells whether a branch failed."""
        return f"__failed{index}"

    @property
    def column(self) -> str:
        """The column of failed rows."""
        numbers = ", ".join(f"IF({quoted(self.flag(index))}, '{index}', NULL)" for index in self._catch)
        struct = f"named_struct('branches', concat_ws(',', {numbers}), 'row', {quoted(FAILED_ROW)})"
        return f"CASE WHEN {self._any} THEN {struct} END AS {quoted(FAILED)}"

    def after_round(self, number: int, rounds: list[int]) -> list[str]:
        """All branches after a round, and the flags of those that may raise."""
        catch = set(self._catch)
        structs = [
            f"t{index}.v AS t{index}" if index in catch and number < count else f"t{index}"
            for index, count in enumerate(rounds)
        ]
        return structs + [self._flag(index, number, rounds[index]) for index in self._catch]

    def _flag(self, index: int, number: int, rounds: int) -> str:
        """Whether a branch has failed by this round. In its last round it has also failed if it computed a value that
        cannot be held."""
        if number >= rounds:
            return self.flag(index)
        tests = [self.flag(index)] if number else []
        tests += [f"t{index} IS NULL", *(unfit(self._consumers[index], f"t{index}.v") if number == rounds - 1 else [])]
        return f"({' OR '.join(tests)}) AS {self.flag(index)}"


def _json_of(struct: str, weight: str) -> str:
    return f"CASE WHEN {weight} > 0 THEN to_json({struct}, map('ignoreNullFields', 'false')) END"


def _parse_once(frame: DataFrame, plans: list[list[str]]) -> tuple[DataFrame, list[list[str]]]:
    """Parse a document that several branches read only once: parsing costs most."""
    documents = [text for plan in plans for text in PARSING.findall(plan[0])]
    several = [text for text in dict.fromkeys(documents) if documents.count(text) > 1]
    if not several:
        return frame, plans
    names = {text: quoted(f"__document{number}") for number, text in enumerate(several)}
    frame = frame.selectExpr("*", *(f"{text} AS {name}" for text, name in names.items()))
    return frame, [[PARSING.sub(lambda match: names.get(match[0], match[0]), plan[0]), *plan[1:]] for plan in plans]


def hash_sql(struct: str | None, columns: tuple[str, ...]) -> str:
    if not columns:
        return "0L"
    return f"xxhash64({', '.join(inside(quoted(column), struct) for column in columns)})"


def _rounds(consumer: Consumer, struct: str, prefix: str | None, ordered: bool, sharded: bool) -> list[str]:
    """The SQL of each round of one branch: the first over the producer, the others over the previous struct. Ingress
    checks also receive the source partition of each row."""
    rounds = []
    carried = 0
    order = quoted(SEQ) if ordered else quoted(ORDER) if _keeps_order(consumer.branch) else "0L"
    types = {column.name: column.type for column in consumer.branch.columns}
    for filters, items, tests in rounds_of(consumer.branch):
        guard = "`__error` IS NULL" if prefix is None else f"{quoted(prefix)}.{quoted(WEIGHT)} IS NOT NULL"
        conditions = [guard, *(f"({inside(sql, prefix)})" for sql in filters)]
        computed = [(name, inside(sql, prefix)) for name, sql in items]
        fields = [f"{literal(name)}, {bounded(sql, types[name]) if name in types else sql}" for name, sql in computed]
        fields.append(f"{literal(WEIGHT)}, {inside(quoted(WEIGHT), prefix)}")
        if consumer.ordered:
            fields.append(f"{literal(SEQ)}, {inside(order, prefix)}")
        if sharded and consumer.ingress is not None:
            fields.append(f"{literal(SHARD)}, {inside(quoted(SHARD), prefix)}")
        guards = [quoted(f"{GUARD}{number}") for number in range(carried)] + [quoted(test.column) for test in tests]
        fields += [f"'{GUARD}{number}', {inside(sql, prefix)}" for number, sql in enumerate(guards)]
        carried = len(guards)
        rounds.append(f"CASE WHEN {' AND '.join(conditions)} THEN named_struct({', '.join(fields)}) END")
        prefix, order = struct, quoted(SEQ) if consumer.ordered else "0L"
    return rounds


def _keeps_order(branch: Branch) -> bool:
    """True if the producer of a branch has a column with the order of arrival, and no projection comes before it."""
    return any(column.name == ORDER for column in branch.columns)
