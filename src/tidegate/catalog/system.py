"""The relations that every database has, under `system.`: they are queried like any other."""

from __future__ import annotations

from tidegate.catalog.relation import Relation
from tidegate.core.schema import Column

PREFIX = "system."


def _relation(name: str, /, **columns: str) -> Relation:
    schema = tuple(Column(column, kind) for column, kind in columns.items())
    return Relation(name=PREFIX + name, kind="view", columns=schema, sql="", materialized=True)


SYSTEM: tuple[Relation, ...] = (
    _relation(
        "late_rows",
        relation="string",
        view="string",
        op="string",
        column="string",
        row="string",
        waterline="string",
        step="bigint",
        time="timestamp",
    ),
    _relation(
        "errors",
        relation="string",
        code="string",
        message="string",
        row="string",
        step="bigint",
        time="timestamp",
        view="string",
        expression="string",
    ),
    _relation("watermarks", relation="string", column="string", value="string", step="bigint"),
    _relation("waterlines", relation="string", column="string", value="string", step="bigint"),  # its former name
    _relation(
        "views",
        name="string",
        kind="string",
        emit="string",
        key="string",
        rows="bigint",
        state_bytes="bigint",
        state_rows="bigint",
        dropped_rows="bigint",
    ),
    _relation(
        "state",
        op="string",
        operator="string",
        views="string",
        bucket="int",
        rows="bigint",
        bytes="bigint",
        objects="bigint",
    ),
    _relation(
        "steps",
        step="bigint",
        started="timestamp",
        millis="bigint",
        rows_in="bigint",
        rows_out="bigint",
        late="bigint",
        errors="bigint",
    ),
    _relation(
        "dead_letters",
        sink="string",
        step="bigint",
        id="string",
        status="int",
        error="string",
        body="string",
        time="timestamp",
    ),
    _relation("tables", name="string", primary_key="string", row_count="bigint", connector="string", ready="boolean"),
)
