"""Every type in every operator: CREATE refuses it with a place and a hint, or the view is maintained exactly.

Each step is compared with Spark's batch answer. Some operators of some types run in `make test`, chosen by
--hypothesis-seed; all of them in `make test-all`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.model.types_of_views.kinds import DECLARED, KINDS, Kind
from tests.model.types_of_views.operators import EMITTED, OWN, SAME
from tidegate.core.types import Type, parse_type
from tidegate.errors import Error
from tidegate.testing.oracle.batch import SETTINGS
from tidegate.testing.spec.compare import Comparable, comparable, diff
from tidegate.testing.spec.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
RELATIONS = {
    "keyed": "CREATE TABLE keyed (id BIGINT PRIMARY KEY, g BIGINT, v {type})",
    "bag": "CREATE TABLE bag (v {type})",
    "looked": "CREATE TABLE looked (id BIGINT PRIMARY KEY, g BIGINT, v {type})",
    "stream": "CREATE SOURCE stream (id BIGINT, g BIGINT, v {type}, ts TIMESTAMP, WATERMARK FOR ts)",
    "later": "CREATE SOURCE later (id BIGINT, g BIGINT, v {type}, ts TIMESTAMP LATENESS INTERVAL '0' SECOND)",
    "tardy": "CREATE SOURCE tardy (id BIGINT, g BIGINT, v {type}, ts TIMESTAMP, WATERMARK FOR ts)",
    "missed": "CREATE TABLE missed (id BIGINT, g BIGINT, v {type}, ts TIMESTAMP)",
}
NAMES = re.compile(rf"\b({'|'.join(RELATIONS)})\b")
COLUMNS = {
    "keyed": "id, g, v",
    "bag": "v",
    "looked": "id, g, v",
    "stream": "id, g, v, ts",
    "later": "id, g, v, ts",
    "tardy": "id, g, v, ts",
}
EMIT = " EMIT ON WATERMARK"
LATE_TO = "the table of LATE DATA TO"
LATE_VIEW = (
    "SELECT window_start, COUNT(*) AS n FROM TUMBLE(tardy, ts, INTERVAL '1' MINUTE) "
    "GROUP BY window_start, window_end EMIT ON WINDOW CLOSE LATE DATA TO missed"
)
OPERATORS = [*SAME, *EMITTED, *OWN, LATE_TO]
SLACK = 1e-9
"""What doubles around 0 may differ by."""
DAY = "TIMESTAMP '2024-05-01 12:"
STEPS: Sequence[Mapping[str, Sequence[str]]] = (
    {
        "keyed": ("1, 1, {0}", "2, 1, {1}", "3, 2, {2}", "4, 2, {0}", "5, 2, NULL"),
        "bag": ("{0}", "{0}", "{1}", "NULL"),
        "looked": ("1, 2, {0}", "2, 3, {1}", "3, 9, NULL", "7, 1, {0}"),
        "stream": (f"1, 1, {{0}}, {DAY}00:40'", f"2, 1, {{1}}, {DAY}00:41'"),
        "later": (f"1, 1, {{0}}, {DAY}00:40'", f"2, 1, {{1}}, {DAY}01:41'"),
        "tardy": (f"1, 1, {{0}}, {DAY}00:40'", f"2, 1, {{1}}, {DAY}05:41'"),
    },
    {
        "keyed": ("2, 1, {2}", "3, 2, {2}", "4, 2, {0}", "6, 3, {1}"),
        "bag": ("{0}", "{0}", "{1}", "{2}"),
        "looked": ("1, 2, {0}", "2, 3, {1}", "3, 9, NULL", "7, 1, {0}"),
        "stream": (
            *(f"1, 1, {{0}}, {DAY}00:40'", f"2, 1, {{1}}, {DAY}00:41'", f"3, 1, NULL, {DAY}00:50'"),
            *(f"4, 2, {{1}}, {DAY}03:41'", f"5, 2, {{2}}, {DAY}03:42'"),
        ),
        "later": (f"1, 1, {{0}}, {DAY}00:40'", f"2, 1, {{1}}, {DAY}01:41'", f"4, 2, {{1}}, {DAY}03:45'"),
        "tardy": (f"1, 1, {{0}}, {DAY}00:40'", f"2, 1, {{1}}, {DAY}05:41'", f"3, 1, {{2}}, {DAY}00:50'"),
    },
)
"""The rows of each relation after each step."""
CHANGES: Sequence[Sequence[str]] = (
    [f"INSERT INTO {name} VALUES ({'), ('.join(rows)})" for name, rows in STEPS[0].items()],
    [
        "DELETE FROM keyed WHERE id = 1",
        "DELETE FROM keyed WHERE id = 5",
        "INSERT INTO keyed VALUES (2, 1, {2}), (6, 3, {1})",
        "DELETE FROM bag WHERE v IS NULL",
        "INSERT INTO bag VALUES ({2})",
        f"INSERT INTO stream VALUES ({'), ('.join(STEPS[1]['stream'][2:])})",
        f"INSERT INTO later VALUES (4, 2, {{1}}, {DAY}03:45'), (3, 1, {{1}}, {DAY}01:00')",
        f"INSERT INTO tardy VALUES (3, 1, {{2}}, {DAY}00:50')",
    ],
)
"""What leads there. The last row of `later` is late."""


def test_some_types_in_some_operators(spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    random = Random(int(pytestconfig.getoption("hypothesis_seed")))
    check(spark, tmp_path, {name: random.sample(OPERATORS, 10) for name in random.sample(list(KINDS), 10)})


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_type_in_all_operators(spark: SparkSession, tmp_path: Path, name: str) -> None:
    check(spark, tmp_path, {name: OPERATORS})


@dataclass(frozen=True)
class Accepted:
    """A view that was created: its operator, and its query for Spark. `at_end`: its rows may leave only when the inputs
    end."""

    kind: str
    operator: str
    batch: str
    at_end: bool


@dataclass
class Trial:
    """Types in operators on one pipeline."""

    spark: SparkSession
    engine: Engine
    views: dict[str, Accepted] = field(default_factory=dict)
    suffix: dict[str, int] = field(default_factory=dict)

    def create(self, name: str, operators: Iterable[str]) -> None:
        kind, number = KINDS[name], len(self.suffix)
        if any(self.refused(self.own(sql.format(type=kind.declared), number)) for sql in RELATIONS.values()):
            assert name in DECLARED
            return
        self.suffix[name] = number
        for operator in operators:
            mine, batch = queries(operator, kind)
            view = f"x{number}_{OPERATORS.index(operator)}"
            if mine and not self.refused(self.own(f"CREATE MATERIALIZED VIEW {view} AS {mine}", number)):
                at_end = operator in EMITTED or " by time" in operator or operator == LATE_TO
                self.views[view] = Accepted(name, operator, self.own(batch, number), at_end)

    def own(self, sql: str, number: int) -> str:
        """A statement about the relations of a type."""
        return NAMES.sub(rf"\g<1>{number}", sql)

    def refused(self, statement: str) -> bool:
        try:
            self.engine.db.sql(statement)
        except Error as error:
            assert error.code and error.span is not None and error.hint, f"{statement}: {error!r}"
            return True
        return False

    def step(self, step: int) -> None:
        for name, number in self.suffix.items():
            for statement in CHANGES[step]:
                self.engine.db.sql(self.own(statement, number).format(*KINDS[name].values))
        self.engine.step()

    def wrong(self, step: int, ended: bool = False) -> list[str]:
        """The views that differ from Spark's answers."""
        batch = self.spark.newSession()
        for setting, value in SETTINGS.items():
            batch.conf.set(setting, value)
        for name, number in self.suffix.items():
            kind = KINDS[name]
            for relation, rows in STEPS[step].items():
                values = "), (".join(row.format(*kind.values) for row in rows)
                table = f"SELECT * FROM VALUES ({values}) AS r ({COLUMNS[relation]})"
                types = {"id": "BIGINT", "g": "BIGINT", "v": kind.declared, "ts": "TIMESTAMP"}
                typed = ", ".join(f"CAST({name} AS {types[name]}) AS {name}" for name in COLUMNS[relation].split(", "))
                batch.sql(f"SELECT {typed} FROM ({table})").createOrReplaceTempView(f"{relation}{number}")
        return [
            f"{each.kind}: {each.operator}: {problem}"
            for view, each in self.views.items()
            if (ended or not each.at_end) and (problem := self.difference(batch, view, each))
        ]

    def difference(self, batch: SparkSession, view: str, each: Accepted) -> str:
        read = f"missed{self.suffix[each.kind]}" if each.operator == LATE_TO else view
        kinds, rows = self.engine.ask(f"SELECT * FROM {read}")
        found = [comparable(row, kinds) for row in rows]
        frame = batch.sql(each.batch)
        # Arrow, in which results come, has one type for all intervals of days to seconds.
        texts = [DAY_TIME.sub("interval day to second", column.dataType.simpleString()) for column in frame.schema]
        if (
            KINDS[each.kind].of_spark is None
            and not any("void" in text for text in texts)
            and [str(parse_type(text)) for text in texts] != list(map(str, kinds))
        ):
            return f"it has the types {[str(kind) for kind in kinds]} instead of {texts}"
        # Arrow has no values of Spark's void, the type of NULL: views have texts there.
        typed = [f"CAST(`{name}` AS {kind})" for name, kind in zip(frame.columns, kinds, strict=True)]
        answer = frame.selectExpr(*typed).toArrow()
        expected = rows_of([column.to_pylist() for column in answer.columns], kinds)
        return f"{found} is not {expected}" if diff(expected, found, SLACK) else ""


def rows_of(columns: Sequence[Sequence[object]], kinds: Sequence[Type]) -> list[Comparable]:
    return [comparable(row, kinds) for row in zip(*columns, strict=True)]


def queries(operator: str, kind: Kind) -> tuple[str, str]:
    """The query of an operator as a view, and for Spark."""
    if operator == LATE_TO:
        return (LATE_VIEW if kind.expression == "v" else ""), "SELECT * FROM tardy WHERE id = 3"
    if operator in EMITTED:
        texts = (EMITTED[operator].replace("{emit}", EMIT), EMITTED[operator].replace("{emit}", ""))
    else:
        texts = (SAME[operator], SAME[operator]) if operator in SAME else OWN[operator]
    compares = "JOIN" in operator or operator.startswith(("EXCEPT", "INTERSECT"))
    of_spark = kind.of_spark if compares and kind.of_spark is not None else kind.expression
    return texts[0].replace("{x}", kind.expression), texts[1].replace("{x}", of_spark)


def check(spark: SparkSession, folder: Path, chosen: Mapping[str, Iterable[str]]) -> None:
    engine = Engine(folder / "data", spark)
    trial = Trial(spark, engine)
    for name, operators in chosen.items():
        trial.create(name, operators)
    for step in range(len(STEPS)):
        trial.step(step)
        assert trial.wrong(step) == []
    engine.end()
    assert trial.wrong(len(STEPS) - 1, ended=True) == []
    errors = list(engine.db.query("SELECT code, view, expression, message FROM system.errors").rows())
    assert errors == []
    engine.close()
