"""Messages of the server's plugin `pgoutput` (protocol version 1)."""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts from the year 2000."""


class Unchanged(Enum):
    """A large value that an UPDATE did not change: it is stored out of line (TOAST), and not sent."""

    VALUE = "unchanged"


UNCHANGED: Final = Unchanged.VALUE
Cell = str | None | Unchanged
Cells = list[Cell]


class TableColumn(NamedTuple):
    """A column of a table at this point of the stream; `key`: part of the replica identity."""

    name: str
    oid: int
    key: bool


class Table(NamedTuple):
    """The definition of a table for the following messages."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[TableColumn, ...]


class Begin(NamedTuple):
    """The begin of a transaction. `commit` is the LSN of its commit, `time_us` the time of it."""

    commit: int
    time_us: int
    xid: int


class Commit(NamedTuple):
    """A commit. `end` is the LSN after it, to continue from."""

    commit: int
    end: int


class Change(NamedTuple):
    """An inserted (no `old`), updated, or deleted (no `new`) row. `old` is the whole row or, if not `whole`, only the
    columns of the replica identity, with None for others; it is sent if the identity is FULL or changes."""

    op: str
    oid: int
    new: Cells | None
    old: Cells | None = None
    whole: bool = False


class Truncate(NamedTuple):
    oids: tuple[int, ...]


Message = Begin | Commit | Table | Change | Truncate

_BEGIN = Struct(">qqi").unpack_from
_COMMIT = Struct(">xqq").unpack_from
_INT = Struct(">I").unpack_from
_COUNT = Struct(">H").unpack_from
_INSERT, _UPDATE, _DELETE = ord("I"), ord("U"), ord("D")
_TEXT, _NULL, _SAME = ord("t"), ord("n"), ord("u")
_NEW, _OLD = ord("N"), ord("O")


def decode(data: bytes, at: int = 0) -> Message | None:
    """Decode the message at an index of the data; None for messages that are not used (Origin, Type, Message)."""
    kind = data[at]
    if kind == _INSERT:
        return Change("INSERT", _INT(data, at + 1)[0], _cells(data, at + 6)[0])
    if kind == _UPDATE:
        return _update(data, at)
    if kind == _DELETE:
        return Change("DELETE", _INT(data, at + 1)[0], None, _cells(data, at + 6)[0], data[at + 5] == _OLD)
    match chr(kind):
        case "B":
            commit, time_us, xid = _BEGIN(data, at + 1)
            return Begin(commit, time_us + EPOCH_US, xid & 0xFFFFFFFF)
        case "C":
            return Commit(*_COMMIT(data, at + 1))
        case "R":
            return _table(data, at + 1)
        case "T":
            return _truncate(data, at + 1)
        case "O" | "Y" | "M":
            return None
    raise ValueError(f"a message of kind {chr(kind)!r} is not one of pgoutput's")


def _update(data: bytes, at: int) -> Change:
    oid: int = _INT(data, at + 1)[0]
    at += 5
    if data[at] == _NEW:
        return Change("UPDATE", oid, _cells(data, at + 1)[0])
    whole = data[at] == _OLD
    old, at = _cells(data, at + 1)
    return Change("UPDATE", oid, _cells(data, at + 1)[0], old, whole)


def _cells(data: bytes, at: int) -> tuple[Cells, int]:
    """Decode the values of a row, and return the index after them."""
    cells: Cells = []
    add = cells.append
    count = _COUNT(data, at)[0]
    at += 2
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _INT(data, at + 1)[0]
            add(data[start:at].decode())
        elif kind == _NULL:
            add(None)
            at += 1
        elif kind == _SAME:
            add(UNCHANGED)
            at += 1
        else:
            raise ValueError(f"a value of kind {chr(kind)!r} is not one of pgoutput's")
    return cells, at


def _table(data: bytes, at: int) -> Table:
    oid = _INT(data, at)[0]
    schema, at = _text(data, at + 4)
    name, at = _text(data, at)
    identity, count = chr(data[at]), _COUNT(data, at + 1)[0]
    at += 3
    columns = []
    for _ in range(count):
        key = bool(data[at] & 1)
        column, at = _text(data, at + 1)
        columns.append(TableColumn(column, _INT(data, at)[0], key))
        at += 8
    return Table(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _truncate(data: bytes, at: int) -> Truncate:
    count = _INT(data, at)[0]
    return Truncate(tuple(_INT(data, at + 5 + 4 * number)[0] for number in range(count)))
