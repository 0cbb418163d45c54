"""Which type a column has behind its number: of an array its elements', of a domain the one below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.connectors.postgres.client import library
from tidegate.connectors.postgres.payloads import Encode, encoder
from tidegate.connectors.postgres.pgoutput import Table

_FIRST_OF_USERS = 16384
_BELOW = """
WITH RECURSIVE below AS (
    SELECT t.oid AS named, t.oid, 0 AS depth FROM pg_type t WHERE t.oid = ANY (%s::oid[])
    UNION ALL
    SELECT b.named, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
        b.depth + CASE t.typtype WHEN 'd' THEN 0 ELSE 1 END
    FROM below b JOIN pg_type t ON t.oid = b.oid
    WHERE t.typtype = 'd' OR t.typcategory = 'A' AND t.typelem <> 0
)
SELECT DISTINCT ON (named) named::bigint, b.oid::bigint, depth FROM below b JOIN pg_type t ON t.oid = b.oid
WHERE NOT (t.typtype = 'd' OR t.typcategory = 'A' AND t.typelem <> 0) ORDER BY named, depth DESC
"""


class Types:
    """How values are written, by type. Users' own types are looked up when they come for the first time; one that is
    gone by then is text."""

    def __init__(self) -> None:
        self._known: dict[int, Encode] = {}
        for known in library().adapters.types:
            self._known[known.oid] = encoder(known.oid)
            if known.array_oid:
                self._known[known.array_oid] = encoder(known.oid, depth=int(known.delimiter == ","))

    def encoders(self, table: Table, connection: Any) -> Sequence[Encode]:
        oids = [column.oid for column in table.columns]
        self._learn({oid for oid in oids if oid >= _FIRST_OF_USERS and oid not in self._known}, connection)
        return [self._known.get(oid) or encoder(oid) for oid in oids]

    def _learn(self, oids: Iterable[int], connection: Any) -> None:
        asked = sorted(oids)
        if not asked:
            return
        for named, base, depth in connection.execute(_BELOW, (asked,)).fetchall():
            self._known[named] = encoder(base, depth)
        for oid in asked:
            self._known.setdefault(oid, encoder(oid))
