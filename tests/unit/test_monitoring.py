"""The metrics of views over events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegate
from tests.servers import wait_until
from tidegate.database import runtime_of
from tidegate.runtime.monitoring import prometheus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPPED = "SELECT payload.k, COUNT(*) AS n, SUM(payload.x) AS total FROM pgcdc_events GROUP BY payload.k"
VIEWS = f"""
CREATE MATERIALIZED VIEW capped WITH (max_groups = '2') AS {CAPPED};
CREATE MATERIALIZED VIEW twin WITH (max_groups = '2') AS {CAPPED};
CREATE MATERIALIZED VIEW minutes AS SELECT payload.k, COUNT(*) AS n, COUNT(DISTINCT payload.x) AS some
FROM pgcdc_events WHERE payload.k <> 'a' GROUP BY payload.k TUMBLING WINDOW 1m;
CREATE MATERIALIZED VIEW visits WITH (max_groups = '3') AS SELECT payload.k, COUNT(*) AS n
FROM pgcdc_events GROUP BY payload.k SESSION WINDOW 30s;
"""


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tidegate.Database]:
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as database:
        database.sql(VIEWS)
        yield database


def insert_and_step(db: tidegate.Database, *payloads: dict[str, Any]) -> None:
    rows = [(None, "c", "INSERT", json.dumps(each), "s", None, None) for each in payloads]
    db.insert("pgcdc_events", rows)
    db.step()


def samples(db: tidegate.Database) -> dict[str, float]:
    """The samples of the metrics, after a check that every family has one HELP and one TYPE."""
    values: dict[str, float] = {}
    families: set[str] = set()
    for line in prometheus(runtime_of(db)).splitlines():
        match line.split(" "):
            case ["#", "HELP", name, *_]:
                assert name not in families
                families.add(name)
            case ["#", "TYPE", name, kind]:
                assert name in families and (kind == "counter") == name.endswith("_total")
            case [name, value]:
                assert name.partition("{")[0] in families and name not in values
                values[name] = float(value)
    return values


def of_views(db: tidegate.Database, metric: str) -> dict[str, float]:
    values = samples(db)
    names = ("capped", "twin", "minutes", "visits")
    return {view: values[f'tidegate_view_{metric}{{view="{view}"}}'] for view in names}


def test_metrics_of_views(db: tidegate.Database) -> None:
    """An event counts once per view, however many groups it belongs to."""
    rows = [{"k": k, "x": x} for k, x in [("a", 1), ("b", "2"), ("c", 3), ("c", 4), ("d", 5), ("b", "many")]]
    insert_and_step(db, *rows)
    assert of_views(db, "events_processed_total") == {"capped": 6, "twin": 6, "minutes": 5, "visits": 6}
    assert of_views(db, "groups_overflow_total") == {"capped": 3, "twin": 3, "minutes": 0, "visits": 1}
    assert of_views(db, "type_errors_total") == {"capped": 1, "twin": 1, "minutes": 0, "visits": 0}
    assert of_views(db, "groups") == {"capped": 2, "twin": 2, "minutes": 3, "visits": 3}
    assert of_views(db, "windows_emitted_total") == {"capped": 1, "twin": 1, "minutes": 0, "visits": 0}
    insert_and_step(db, {"k": "e", "x": None}, {"k": "e", "x": 1}, {"k": "a", "x": 1})
    assert of_views(db, "groups_overflow_total") == {"capped": 5, "twin": 5, "minutes": 0, "visits": 3}
    assert of_views(db, "groups") == {"capped": 2, "twin": 2, "minutes": 4, "visits": 3}
    db.advance_clock(timedelta(minutes=2))
    db.step()
    assert of_views(db, "groups") == {"capped": 2, "twin": 2, "minutes": 0, "visits": 0}
    assert of_views(db, "windows_emitted_total")["minutes"] == 1


def test_groups_are_counted_after_a_restart_and_a_change(tmp_path: Path, spark: SparkSession) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.sql(VIEWS)
        insert_and_step(db, {"k": "a"}, {"k": "b"})
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.sql(f"DROP VIEW twin; CREATE MATERIALIZED VIEW other AS {CAPPED}")
        with db.running():
            wait_until(lambda: samples(db)["tidegate_last_step"] > 1, "a step")
            values = samples(db)
    assert values['tidegate_view_groups{view="capped"}'] == 2
    assert values['tidegate_view_groups{view="other"}'] == 0
    assert 'tidegate_view_groups{view="twin"}' not in values
