"""Wide frames: one struct column per producer, and the expressions of all branches over it in lockstep."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from tidegate.circuit.model import Branch
from tidegate.core.columns import ORDER, SEQ, SHARD, WEIGHT
from tidegate.core.schema import Schema
from tidegate.spark.consumers import GUARD, Consumer, rounds_of
from tidegate.spark.expressions import inside, literal, quoted
from tidegate.spark.types import struct_type

ADDRESS = [
    StructField("__op", StringType()),
    StructField("__bucket", IntegerType()),
    StructField("__tag", StringType()),
    StructField("__payload", BinaryType()),
]
ADDRESS_NAMES = [field.name for field in ADDRESS]
BAD = "CASE WHEN `__error` IS NOT NULL THEN named_struct('message', `__error`, 'row', `__raw`) END AS `__bad`"

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
    frame: DataFrame, pairs: list[tuple[Consumer, str | None]], extra: list[str], extra_names: list[str], ordered: bool
) -> DataFrame:
    """All branches in lockstep: each select does one round of filters and one projection of every branch."""
    sharded = SHARD in frame.columns
    plans = [_rounds(consumer, f"t{index}", prefix, ordered, sharded) for index, (consumer, prefix) in enumerate(pairs)]
    current, plans = _parse_once(frame, plans)
    for number in range(max((len(plan) for plan in plans), default=1)):
        structs = [
            f"{plan[number] if number < len(plan) else quoted(f't{index}')} AS {quoted(f't{index}')}"
            for index, plan in enumerate(plans)
        ]
        current = current.selectExpr(*(extra if number == 0 else extra_names), *structs)
    hashes = [
        f"{hash_sql(f't{index}', columns)} AS {quoted(f't{index}#{name}')}"
        for index, (consumer, _) in enumerate(pairs)
        for name, columns in consumer.hashes
    ]
    return current.selectExpr(*extra_names, *[quoted(f"t{index}") for index in range(len(pairs))], *hashes)


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
    for filters, items, tests in rounds_of(consumer.branch):
        guard = "`__error` IS NULL" if prefix is None else f"{quoted(prefix)}.{quoted(WEIGHT)} IS NOT NULL"
        conditions = [guard, *(f"({inside(sql, prefix)})" for sql in filters)]
        fields = [f"{literal(name)}, {inside(sql, prefix)}" for name, sql in items]
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
