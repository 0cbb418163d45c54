"""The publication that a slot sends changes of, created or checked before a capture starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.client import library, quoted
from tidegate.connectors.postgres.options import Following, Server
from tidegate.connectors.postgres.position import Record, default_name
from tidegate.connectors.postgres.tables import (
    Form,
    OriginTable,
    check_key,
    check_parts,
    check_published,
    check_sent,
    wanted_tables,
)
from tidegate.core.schema import names as names_in
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


@dataclass(frozen=True)
class Followed:
    """A relation of ours, how it is followed, and the tables that it follows."""

    spec: SourceSpec
    following: Following
    tables: Sequence[OriginTable]

    @property
    def keyed(self) -> bool:
        return bool(self.spec.columns)

    @property
    def snapshot(self) -> bool:
        """Whether it begins with the rows that are there."""
        return self.keyed or self.following.snapshot

    @property
    def form(self) -> Form:
        """What the table of a keyed relation is like, as far as its rows depend on it."""
        return self.tables[0].form(names_in(self.spec.columns))


@dataclass(frozen=True)
class Names:
    """Of the slot and the publication; whether the user has given them."""

    slot: str
    publication: str
    own_slot: bool
    own_publication: bool


def names_of(following: Following, owner: str, database: str) -> Names:
    """Those that are not given are made up; a publication is called like a slot that is given."""
    slot = following.slot or default_name(owner, database, following.publication)
    own = following.slot is None, following.publication is None
    return Names(slot, following.publication or slot, *own)


def prepare(
    connection: Any, server: Server, sources: Sequence[tuple[SourceSpec, Following]], names: Names, record: Record
) -> list[Followed]:
    """Finds the tables and makes the publication fit. It comes before the slot: the server looks up the publication as
    it was at the time of a change."""
    _check_level(connection, server)
    followed = [Followed(spec, how, wanted_tables(connection, how, server)) for spec, how in sources]
    ours = names.own_publication or record.facts.publication
    there = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (names.publication,)).fetchone()
    for one in followed:
        if one.keyed:
            check_sent(one.spec, one.tables[0])
            check_key(one.spec, one.tables[0])
        if ours or there is None:
            check_published(one.tables)
        for table in one.tables:
            check_parts(table)
    wanted = Wanted(
        names.publication,
        [table for one in followed for table in one.tables],
        [table for one in followed if one.keyed for table in one.tables],
        any(not one.following.tables for one in followed),
    )
    if ensure_publication(connection, wanted, server, ours):
        record.keep(publication=True)
    return followed


def _check_level(connection: Any, server: Server) -> None:
    level = connection.execute("SHOW wal_level").fetchone()[0]
    if level != "logical":
        raise make(
            "PIPELINE_FAILED",
            message=f"PostgreSQL at {server.place} has wal_level = {level}, which keeps too little to follow changes",
            hint="as a superuser: ALTER SYSTEM SET wal_level = logical; then restart the server",
        )
