"""Before changes are followed: what the server must have, made or checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.options import Following, Server
from tidegate.connectors.postgres.origin import Form, OriginTable, wanted_tables
from tidegate.connectors.postgres.origin_checks import check_key, check_parts, check_published, check_sent
from tidegate.connectors.postgres.position import default_name
from tidegate.connectors.postgres.publication import Wanted, ensure_publication
from tidegate.connectors.postgres.record import Record
from tidegate.core.schema import names as names_in
from tidegate.errors import make


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
