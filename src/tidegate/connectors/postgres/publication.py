"""The publication: which tables a slot sends changes of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.postgres.client import library
from tidegate.connectors.postgres.naming import quoted
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.origin import OriginTable
from tidegate.errors import Error, make

_OPERATIONS = ("insert", "update", "delete", "truncate")
_WHOLE = "publish_via_partition_root = true"


@dataclass(frozen=True)
class Wanted:
    """What a publication has to have: `keyed` tables need every kind of change. No `tables` are all of them."""

    name: str
    tables: Sequence[OriginTable]
    keyed: Sequence[OriginTable]
    everything: bool

    @property
    def listed(self) -> str:
        return "ALL TABLES" if self.everything else f"TABLE {', '.join(sorted({table.alone for table in self.tables}))}"

    @property
    def creation(self) -> str:
        return f"CREATE PUBLICATION {quoted(self.name)} FOR {self.listed} WITH ({_WHOLE})"


def ensure_publication(connection: Any, wanted: Wanted, server: Server, ours: bool) -> bool:
    """Makes it, or makes it fit if it is ours; one of the user's must fit already. Returns whether it was made."""
    found = connection.execute(
        "SELECT puballtables, pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s",
        (wanted.name,),
    ).fetchone()
    if found is None:
        _run(connection, (wanted.creation,), server)
        return True
    _check_operations(wanted, dict(zip(_OPERATIONS, found[1:], strict=True)))
    everything, missing = found[0], _missing(connection, wanted)
    if not missing and (everything or not wanted.everything):
        return False
    if not ours:
        raise _lacks(wanted, missing, server, everything)
    if wanted.everything:
        _run(connection, (f"DROP PUBLICATION {quoted(wanted.name)}", wanted.creation), server)
    else:
        _run(connection, (f"ALTER PUBLICATION {quoted(wanted.name)} SET {wanted.listed}",), server)
    return False


def published(connection: Any, name: str, table: OriginTable) -> tuple[list[str] | None, str | None]:
    """The columns that a publication sends of a table, and the condition of its rows; None: all."""
    found = connection.execute(
        "SELECT to_jsonb(p) FROM pg_publication_tables p WHERE pubname = %s AND schemaname = %s AND tablename = %s",
        (name, table.schema, table.name),
    ).fetchone()
    said = found[0] if found is not None else {}
    columns = said.get("attnames")
    if table.generated:
        there = columns or sorted(table.marks, key=lambda column: table.marks[column][0])
        columns = [column for column in there if column not in table.generated]
    return columns, said.get("rowfilter")


def drop_publication(connection: Any, name: str) -> None:
    connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(name)}")


def _missing(connection: Any, wanted: Wanted) -> list[OriginTable]:
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (wanted.name,)
    ).fetchall()
    there = {tuple(row) for row in rows}
    return [table for table in wanted.tables if (table.schema, table.name) not in there]


def _check_operations(wanted: Wanted, there: dict[str, bool]) -> None:
    missing = [operation for operation, published in there.items() if not published]
    if wanted.keyed and missing:
        raise make(
            "PIPELINE_FAILED",
            message=f"publication {wanted.name} leaves out {', '.join(missing)}, so {wanted.keyed[0].sql} could not be"
            " followed exactly",
            hint=f"ALTER PUBLICATION {quoted(wanted.name)} SET (publish = '{', '.join(_OPERATIONS)}');"
            " then start again",
        )


def _lacks(wanted: Wanted, missing: Sequence[OriginTable], server: Server, everything: bool) -> Error:
    parted = [table for table in missing if table.kind == "p"]
    if parted and (everything or not wanted.everything):
        return make(
            "PIPELINE_FAILED",
            message=f"publication {wanted.name} at {server.place} does not have {parted[0].sql}, or only its partitions"
            " one by one",
            hint=f"ALTER PUBLICATION {quoted(wanted.name)} SET ({_WHOLE}); and if it has not got it: ALTER PUBLICATION"
            f" {quoted(wanted.name)} ADD TABLE {parted[0].sql}; then start again",
        )
    if wanted.everything:
        return make(
            "PIPELINE_FAILED",
            message=f"publication {wanted.name} at {server.place} is not for all tables",
            hint="name the tables in tables = '...', or leave out publication to have one made",
        )
    lacking = ", ".join(sorted({table.sql for table in missing}))
    return make(
        "PIPELINE_FAILED",
        message=f"publication {wanted.name} at {server.place} does not have {lacking}",
        hint=f"ALTER PUBLICATION {quoted(wanted.name)} ADD TABLE {lacking}; then start again",
    )


def _run(connection: Any, statements: Sequence[str], server: Server) -> None:
    """All of them or none. What is refused is told together with the statement for someone who may."""
    try:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement)
    except library().errors.InsufficientPrivilege as refused:
        raise make(
            "PIPELINE_FAILED",
            message=f"{server.user} may not publish changes at {server.place}: {refused.diag.message_primary}",
            hint=f"as the owner of the tables or a superuser: {'; '.join(statements)}; then start again",
        ) from None
