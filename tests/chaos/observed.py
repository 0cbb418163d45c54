"""What views and sinks contain, read as their users do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import tidegate
from tests.chaos.definitions import VIEWS
from tests.chaos.expected import Order, Rows
from tests.servers import Broker
from tests.servers.postgres import Postgres


def view(reader: tidegate.Database, name: str, columns: tuple[str, ...]) -> Rows:
    quoted = ", ".join(f"`{column}`" for column in columns)
    return Counter(reader.query(f"SELECT {quoted} FROM {name}").rows())


def late_rows(reader: tidegate.Database) -> Counter[tuple[str, int]]:
    found = reader.query("SELECT view, get_json_object(row, '$.id') FROM system.late_rows").rows()
    return Counter((view, int(id)) for view, id in found)


def orders(postgres: Postgres, database: str) -> list[Order]:
    with postgres.connect(database) as connection:
        return connection.execute("SELECT id, symbol, region, amount FROM orders").fetchall()


def sinks(broker: Broker, postgres: Postgres, database: str, files: Path) -> Iterator[tuple[str, Rows]]:
    """The content that the changes in each sink add up to, by the name of its view."""
    records = [json.loads(record.value or b"") for record in broker.read_committed("windows")]
    yield "windows", Counter(_row("windows", record) for record in records)
    changes = [json.loads(record.value or b"") for record in broker.read_committed("pairs")]
    yield "pairs", _sum("pairs", ((change["row"], change) for change in changes))
    for name in ("visits", "sectors"):
        yield name, _sum(name, ((change["row"], change) for change in _lines(files / f"{name}.jsonl")))
    yield "hops", _sum("hops", ((change, change) for change in _folder(files / "hops")))
    yield "enriched", Counter(_row("enriched", row) for row in _folder(files / "enriched"))
    with postgres.connect(database) as connection:
        exists = connection.execute("SELECT to_regclass('regions')").fetchone() != (None,)
        rows = connection.execute("SELECT region, n, total::bigint FROM regions").fetchall() if exists else []
    yield "regions", Counter(rows)


def _sum(name: str, changes: Iterator[tuple[Mapping[str, object], Mapping[str, object]]]) -> Rows:
    rows: Rows = Counter()
    for row, change in changes:
        weight = abs(int(str(change["weight"])))
        rows[_row(name, row)] += weight if str(change["op"]) in ("+I", "+U") else -weight
    return Counter({row: weight for row, weight in rows.items() if weight})


def _row(name: str, fields: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(fields.get(column) for column in VIEWS[name])


def _lines(path: Path) -> Iterator[dict[str, object]]:
    """The whole lines of a file; what a killed process left behind the last one is no line yet."""
    text = path.read_text() if path.exists() else ""
    return (json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines())


def _folder(folder: Path) -> Iterator[dict[str, object]]:
    for path in sorted(folder.glob("[!._]*")):
        yield from _lines(path)
