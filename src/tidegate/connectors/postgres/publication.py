"""The publication that a slot sends changes of, created or checked before a capture starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.client import library, quoted
from tidegate.connectors.postgres.options import Following, Server
from tidegate.connectors.postgres.slot import Record, default_name
from tidegate.connectors.postgres.tables import (
    Form,
    OriginTable,
    check_key,
    check_parts,
    check_published,
    check_sent,
    selected_tables,
)
from tidegate.core.schema import names as names_in
from tidegate.errors import Error, make

_OPERATIONS = ("insert", "update", "delete", "truncate")
_WHOLE = "publish_via_partition_root = true"


@dataclass(frozen=True)
class Publication:
    """What a publication must contain: `keyed` tables need every kind of change. No `tables` are all of them."""

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


def ensure_publication(connection: Any, publication: Publication, server: Server, owned: bool) -> bool:
    """Create a publication, or alter it if it is `owned`; one of the user must fit already. True if it was created."""
    row = connection.execute(
        "SELECT puballtables, pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s",
        (publication.name,),
    ).fetchone()
    if row is None:
        _run(connection, (publication.creation,), server)
        return True
    _check_operations(publication, dict(zip(_OPERATIONS, row[1:], strict=True)))
    everything, missing = row[0], _missing(connection, publication)
    if not missing and (everything or not publication.everything):
        return False
    if not owned:
        raise _missing_tables(publication, missing, server, everything)
    if publication.everything:
        _run(connection, (f"DROP PUBLICATION {quoted(publication.name)}", publication.creation), server)
    else:
        _run(connection, (f"ALTER PUBLICATION {quoted(publication.name)} SET {publication.listed}",), server)
    return False


def published(connection: Any, name: str, table: OriginTable) -> tuple[list[str] | None, str | None]:
    """Return the columns that a publication sends of a table, and the filter of its rows; None: all."""
    row = connection.execute(
        "SELECT to_jsonb(p) FROM pg_publication_tables p WHERE pubname = %s AND schemaname = %s AND tablename = %s",
        (name, table.schema, table.name),
    ).fetchone()
    state = row[0] if row is not None else {}
    columns = state.get("attnames")
    if table.generated:
        all_columns = columns or sorted(table.marks, key=lambda column: table.marks[column][0])
        columns = [column for column in all_columns if column not in table.generated]
    return columns, state.get("rowfilter")


def drop_publication(connection: Any, name: str) -> None:
    connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(name)}")


def _missing(connection: Any, publication: Publication) -> list[OriginTable]:
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (publication.name,)
    ).fetchall()
    existing = {tuple(row) for row in rows}
    return [table for table in publication.tables if (table.schema, table.name) not in existing]


def _check_operations(publication: Publication, operations: dict[str, bool]) -> None:
    missing = [operation for operation, published in operations.items() if not published]
    if publication.keyed and missing:
        raise make(
            "PIPELINE_FAILED",
            message=f"publication {publication.name} leaves out {', '.join(missing)},"
            f" so {publication.keyed[0].sql} could not be followed exactly",
            hint=f"ALTER PUBLICATION {quoted(publication.name)} SET (publish = '{', '.join(_OPERATIONS)}');"
            " then start again",
        )


def _missing_tables(
    publication: Publication, missing: Sequence[OriginTable], server: Server, everything: bool
) -> Error:
    partitioned = [table for table in missing if table.kind == "p"]
    if partitioned and (everything or not publication.everything):
        return make(
            "PIPELINE_FAILED",
            message=f"publication {publication.name} at {server.place} does not have {partitioned[0].sql},"
            " or only its partitions one by one",
            hint=f"ALTER PUBLICATION {quoted(publication.name)} SET ({_WHOLE}); and if it has not got it:"
            f" ALTER PUBLICATION {quoted(publication.name)} ADD TABLE {partitioned[0].sql}; then start again",
        )
    if publication.everything:
        return make(
            "PIPELINE_FAILED",
            message=f"publication {publication.name} at {server.place} is not for all tables",
            hint="name the tables in tables = '...', or leave out publication to have one made",
        )
    names = ", ".join(sorted({table.sql for table in missing}))
    return make(
        "PIPELINE_FAILED",
        message=f"publication {publication.name} at {server.place} does not have {names}",
        hint=f"ALTER PUBLICATION {quoted(publication.name)} ADD TABLE {names}; then start again",
    )


def _run(connection: Any, statements: Sequence[str], server: Server) -> None:
    """Run statements in one transaction. The error for missing rights contains them, for a user who has these."""
    try:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement)
    except library().errors.InsufficientPrivilege as rejected:
        raise make(
            "PIPELINE_FAILED",
            message=f"{server.user} may not publish changes at {server.place}: {rejected.diag.message_primary}",
            hint=f"as the owner of the tables or a superuser: {'; '.join(statements)}; then start again",
        ) from None


@dataclass(frozen=True)
class Followed:
    """A relation, how it is followed, and the tables that it follows."""

    spec: SourceSpec
    following: Following
    tables: Sequence[OriginTable]

    @property
    def keyed(self) -> bool:
        return bool(self.spec.columns)

    @property
    def snapshot(self) -> bool:
        """True if it begins with the rows that exist."""
        return self.keyed or self.following.snapshot

    @property
    def form(self) -> Form:
        """The definition of the table of a keyed relation, as far as its rows depend on it."""
        return self.tables[0].form(names_in(self.spec.columns))


@dataclass(frozen=True)
class Names:
    """Names of the slot and the publication; `own_*` is true for generated ones."""

    slot: str
    publication: str
    own_slot: bool
    own_publication: bool


def names_of(following: Following, owner: str, database: str) -> Names:
    """Generate the names that the options do not have; a publication has the name of the slot."""
    slot = following.slot or default_name(owner, database, following.publication)
    own = following.slot is None, following.publication is None
    return Names(slot, following.publication or slot, *own)


def prepare(
    connection: Any, server: Server, sources: Sequence[tuple[SourceSpec, Following]], names: Names, record: Record
) -> list[Followed]:
    """Find the tables and create or check the publication. This comes before the slot: the server uses the publication
    as it was at the time of a change."""
    _check_level(connection, server)
    followed = [
        Followed(spec, following, selected_tables(connection, following, server)) for spec, following in sources
    ]
    owned = names.own_publication or record.facts.publication
    existing = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (names.publication,)).fetchone()
    for one in followed:
        if one.keyed:
            check_sent(one.spec, one.tables[0])
            check_key(one.spec, one.tables[0])
        if owned or existing is None:
            check_published(one.tables)
        for table in one.tables:
            check_parts(table)
    publication = Publication(
        names.publication,
        [table for one in followed for table in one.tables],
        [table for one in followed if one.keyed for table in one.tables],
        any(not one.following.tables for one in followed),
    )
    if ensure_publication(connection, publication, server, owned):
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
