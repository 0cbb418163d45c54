"""Changes of tables as events of the bus: payloads in JSON, and batches of events."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Rows
from tidegate.connectors.postgres.client import library
from tidegate.connectors.postgres.pgoutput import UNCHANGED, Begin, Cells, Change, Table
from tidegate.connectors.postgres.values import array_elements
from tidegate.formats.events import Event, rfc3339, rows_of

Encode = Callable[[str], str]

_quoted = json.encoder.encode_basestring
_MOMENT = re.compile(r"\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+00)?")
_BOOL, _BYTEA, _TIMESTAMP, _TIMESTAMPTZ = 16, 17, 1114, 1184
_WHOLE, _REAL, _JSON = (20, 21, 23, 26), (700, 701, 1700), (114, 3802)


def _plain(text: str) -> str:
    return text


def _number(text: str) -> str:
    """NaN and infinity are text: JSON has no such numbers."""
    return text if text[-1].isdigit() else _quoted(text)


def _truth(text: str) -> str:
    return "true" if text == "t" else "false"


def _json(text: str) -> str:
    """JSON on one line: line breaks can only be between its tokens."""
    return text.replace("\r", " ").replace("\n", " ") if "\n" in text or "\r" in text else text


def _timestamp(text: str) -> str:
    """RFC 3339, with Z if it has a zone; `infinity` and years BC stay as they are."""
    if not _MOMENT.fullmatch(text):
        return _quoted(text)
    return f'"{text.replace(" ", "T").replace("+00", "Z")}"'


def _binary(text: str) -> str:
    return f'"{base64.b64encode(bytes.fromhex(text[2:])).decode()}"'


_ENCODERS: Mapping[int, Encode] = {
    **dict.fromkeys(_WHOLE, _plain),
    **dict.fromkeys(_REAL, _number),
    **dict.fromkeys(_JSON, _json),
    _BOOL: _truth,
    _BYTEA: _binary,
    _TIMESTAMP: _timestamp,
    _TIMESTAMPTZ: _timestamp,
}


def encoder(base: int, depth: int = 0) -> Encode:
    """Return the encoder of a type to JSON: numbers, booleans and JSON unchanged, times in RFC 3339, bytes in base 64,
    arrays (`depth` above 0) as arrays, anything else as text."""
    one = _ENCODERS.get(base, _quoted)
    return (lambda text: _array(text, one)) if depth else one


def _array(text: str, one: Encode) -> str:
    """Encode an array. Only an array of arrays begins with two braces: in an element they would be quoted."""
    start = text.find("{")
    nested = text[start + 1 : start + 2] == "{"
    try:
        elements = array_elements(text, nested)
    except ValueError:
        return _quoted(text)
    inner: Encode = (lambda element: _array(element, one)) if nested else one
    return "[" + ",".join("null" if element is None else inner(element) for element in elements) + "]"


def json_payload(text: str) -> str:
    """Return a text as a payload: JSON unchanged, any other as `{"payload": ...}`."""
    try:
        json.loads(text, parse_constant=_reject_constant)
    except ValueError:
        return f'{{"payload":{_quoted(text)}}}'
    return _json(text)


def _reject_constant(word: str) -> None:
    """Reject NaN and Infinity, which are JavaScript, not JSON."""
    raise ValueError(word)


class Shape:
    """Writes changes of a table as JSON, for one definition of its columns."""

    def __init__(self, table: Table, encoders: Sequence[Encode]) -> None:
        self.table = table
        self.table_name = table.name if table.schema == "public" else f"{table.schema}.{table.name}"
        self.channel = f"pgcdc:{self.table_name}"
        self._names = [_quoted(column.name) for column in table.columns]
        self._every = list(zip([f"{name}:" for name in self._names], encoders, strict=True))
        self._keys = [column.key for column in table.columns]
        self._heads = {
            op: f'{{"op":"{op}","table":{_quoted(self.table_name)},"row":'
            for op in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
        }

    def payload(self, change: Change) -> str:
        """Return the payload of a change; `missing` lists the columns whose values were not sent."""
        _, _, new, old, whole = change
        before = "null" if old is None else self._object(old) if whole else self._identity(old)
        if new is None:
            return f'{self._heads["DELETE"]}null,"old":{before}}}'
        if UNCHANGED in new:
            return self._partial(change, new, before)
        return f'{self._heads[change.op]}{self._object(new)},"old":{before}}}'

    def snapshot(self, row: Sequence[str | None]) -> str:
        """Return the payload of a row of the initial load."""
        return f'{self._heads["INSERT"]}{self._object(list(row))},"old":null,"snapshot":true}}'

    def truncated(self) -> str:
        return f'{self._heads["TRUNCATE"]}null,"old":null}}'

    def _partial(self, change: Change, new: Cells, before: str) -> str:
        cells = filled(new, change.old)
        missing = [name for name, cell in zip(self._names, cells, strict=True) if cell is UNCHANGED]
        note = f',"missing":[{",".join(missing)}]' if missing else ""
        return f'{self._heads[change.op]}{self._object(cells)},"old":{before}{note}}}'

    def _object(self, cells: Cells) -> str:
        parts = [
            name + ("null" if cell is None else encode(cell))
            for (name, encode), cell in zip(self._every, cells, strict=True)
            if cell is not UNCHANGED
        ]
        return "{" + ",".join(parts) + "}"

    def _identity(self, cells: Cells) -> str:
        identity = [cell if key else UNCHANGED for cell, key in zip(cells, self._keys, strict=True)]
        return self._object(identity)


def filled(new: Cells, old: Cells | None) -> Cells:
    """Take unchanged values of a row from the row before, as far as it has them. A value that is stored out of line is
    never NULL, so NULL means that it was not sent there either."""
    if old is None or UNCHANGED not in new:
        return new
    return [before if cell is UNCHANGED and before is not None else cell for cell, before in zip(new, old, strict=True)]


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
    """Encoders by type. User-defined types are looked up when they first occur; one that was dropped is text."""

    def __init__(self) -> None:
        self._encoders: dict[int, Encode] = {}
        for type_info in library().adapters.types:
            self._encoders[type_info.oid] = encoder(type_info.oid)
            if type_info.array_oid:
                self._encoders[type_info.array_oid] = encoder(type_info.oid, depth=int(type_info.delimiter == ","))

    def encoders(self, table: Table, connection: Any) -> Sequence[Encode]:
        oids = [column.oid for column in table.columns]
        self._learn({oid for oid in oids if oid >= _FIRST_OF_USERS and oid not in self._encoders}, connection)
        return [self._encoders.get(oid) or encoder(oid) for oid in oids]

    def _learn(self, oids: Iterable[int], connection: Any) -> None:
        unknown = sorted(oids)
        if not unknown:
            return
        for type_oid, base, depth in connection.execute(_BELOW, (unknown,)).fetchall():
            self._encoders[type_oid] = encoder(base, depth)
        for oid in unknown:
            self._encoders.setdefault(oid, encoder(oid))


CHUNK = 20_000


class Stamp:
    """What the events of a transaction have in common. `now` is the processing time of its arrival."""

    def __init__(self, begin: Begin, now: int) -> None:
        self.commit, self.now, self.seq = begin.commit, now, 0
        self._head = f'{{"xid":{begin.xid},"commit_time":"{rfc3339(begin.time_us)}","seq":'

    @property
    def transaction(self) -> str:
        return f"{self._head}{self.seq}}}"


class EventBuffer:
    """The events of one source, packed into tables as they become many. Transactions committed before `since` are not
    added."""

    def __init__(self, relation: str) -> None:
        self.relation = relation
        self.since = 0
        self._events: list[Event] = []
        self._chunks: list[pa.Table] = []

    def add(self, stamp: Stamp, channel: str, operation: str, payload: str) -> None:
        identity = f"{stamp.commit:X}-{stamp.seq}"
        self._events.append(Event(identity, channel, operation, payload, self.relation, stamp.now, stamp.transaction))
        if len(self._events) >= CHUNK:
            self._pack()

    def add_snapshot(self, lsn: int, number: int, channel: str, payload: str, now: int) -> None:
        """Add a row of the initial load at an LSN."""
        self._events.append(Event(f"{lsn:X}-s{number}", channel, "INSERT", payload, self.relation, now))
        if len(self._events) >= CHUNK:
            self._pack()

    def take(self) -> list[Rows]:
        """Return everything added since the last call."""
        self._pack()
        chunks, self._chunks = self._chunks, []
        return [(BUS, pa.concat_tables(chunks), 1)] if chunks else []

    def clear(self) -> None:
        self._events, self._chunks = [], []

    def _pack(self) -> None:
        if self._events:
            self._chunks.append(rows_of(self._events))
            self._events = []
