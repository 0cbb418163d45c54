"""Finds calls of every scalar function that Spark accepts over the columns of hostile rows, by trial: what Spark says
about a rejected call tells how many arguments it takes and of which types. `python -m tests.model.hostile_rows.calls`
writes them into `calls.txt`, in some minutes; with a new version of Spark, run it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import tidegate
from tests.model.hostile_rows.rows import COLUMNS
from tidegate.bind.unsupported import CHANGING, FAILING, GENERATORS
from tidegate.core.schema import Column
from tidegate.database import runtime_of
from tidegate.spark.conditions import quiet

FILE = Path(__file__).with_name("calls.txt")
_OF_TYPE = {
    "ARRAY": "ag",
    "MAP": "m",
    "STRUCT": "o",
    "BINARY": "b",
    "STRING": "sr",
    "INT": "n",
    "BIGINT": "k",
    "DOUBLE": "d",
    "DECIMAL": "c",
    "NUMERIC": "nkdc",
    "TIMESTAMP": "tu",
    "DATE": "e",
    "BOOLEAN": "f",
    "INTEGRAL": "nk",
}
_PLACES = {"first": 0, "second": 1, "third": 2, "fourth": 3}
_REPAIRS = 5


def calls() -> list[str]:
    """The stored calls."""
    return FILE.read_text().splitlines()


class _Trial:
    """Asks Spark's analyser for the type of calls."""

    def __init__(self, analyzer: Any) -> None:
        self._session = analyzer._session
        schema = tuple(Column(name, type.lower(), True) for name, type in COLUMNS.items())
        self._frame = analyzer._frame(schema)

    def problem(self, sql: str) -> str | None:
        """Why a call is rejected; None if it is not."""
        with quiet():
            try:
                json.loads(self._session.select(self._frame, [sql]).schema().json())
            except Exception as failure:
                return str(failure)
        return None


def find(names: tuple[str, ...], trial: _Trial) -> Iterator[str]:
    """Calls that Spark accepts, of every function."""
    random = Random(7)
    for name in names:
        if name.lower() not in CHANGING | FAILING | GENERATORS:
            yield from dict.fromkeys(_calls_of(name, trial, random))


def _calls_of(name: str, trial: _Trial, random: Random) -> Iterator[str]:
    arities = _arities(trial.problem(f"{name}(`s`)") or "")
    for arity in arities:
        for texts_first in (True, False)[: 2 if arity else 1]:
            arguments = [random.choice("sr" if texts_first else list(COLUMNS)) for _ in range(arity)]
            for _ in range(_REPAIRS):
                sql = f"{name}({', '.join(f'`{each}`' for each in arguments)})"
                problem = trial.problem(sql)
                if problem is None:
                    yield sql
                    break
                _repair(arguments, problem, random)


def _arities(problem: str) -> list[int]:
    """How many arguments a function takes, as far as the rejection of a call with one tells."""
    said = re.search(r"requires? (.*?) parameters? but the actual number is", problem)
    counts = [int(each) for each in re.findall(r"\d+", said[1])] if said else []
    if said is None or not counts:
        return [0, 1, 2, 3, 4]
    last = 4 if ">" in said[1] else max(counts)
    return list(range(min(counts), last + 1))[:5]


def _repair(arguments: list[str], problem: str, random: Random) -> None:
    """Replace an argument by a column of the type that Spark asks for; by any column if it names none."""
    said = re.search(r"The (\w+) parameter requires the \(?(.*?)\)? type, however", problem)
    if not arguments:
        return
    if said is None or _PLACES.get(said[1], 0) >= len(arguments):
        arguments[random.randrange(len(arguments))] = random.choice(list(COLUMNS))
        return
    wanted = [each.split()[0] for each in re.findall(r'"([A-Z ]+)', said[2]) if each.split()]
    arguments[_PLACES.get(said[1], 0)] = random.choice(_OF_TYPE.get(random.choice(wanted or ["STRING"]), "srnk"))


def main() -> None:
    with tidegate.connect() as db:
        analyzer = runtime_of(db).spark.analyzer
        found = list(find(analyzer._functions, _Trial(analyzer)))
    FILE.write_text("\n".join(found) + "\n")
    print(f"{len(found)} calls")


if __name__ == "__main__":
    main()
