"""A record is a change with the row before and after it, as Debezium writes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.core.columns import WEIGHT
from tidegate.core.quoting import identifier, literal
from tidegate.errors import Error
from tidegate.formats.avro_schema import failure
from tidegate.formats.contract import (
    AFTER,
    BEFORE,
    FAULT,
    OP,
    PART,
    VALUE,
    Change,
    ChangeReader,
    ChangeWriter,
    KeyWriter,
    Layout,
    Parts,
    finished,
    others,
    split,
)
from tidegate.formats.malformed import missing_text
from tidegate.traits.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPERATIONS = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}
"""The ops of an envelope, as operations of events. Tables take all but truncate."""

_ROW_OPS = ", ".join(f"'{op}'" for op in OPERATIONS if op != "t")
_TAKEN = f"({OP} = 'd' OR ({PART} = 0 AND __two))"
_NO_BEFORE = "before is missing: set REPLICA IDENTITY FULL, or declare a PRIMARY KEY"
_NO_OP = "the record has no op: it is not a Debezium envelope"
_TRUNCATE = "op t: truncate is not applied, delete the rows instead"


def find_envelope(document: Any) -> dict[str, Any] | None:
    """Return the envelope that a JSON document is, or that it has as `payload` beside its `schema`; None if neither.

    Events of the bus carry an envelope as it is, so it need not be complete: `DebeziumDecoder`, which makes rows of
    envelopes, rejects those that lack the row before or after a change.
    """
    if _is_envelope(document):
        return cast(dict[str, Any], document)
    inner = document.get("payload") if isinstance(document, dict) and "schema" in document else None
    return inner if _is_envelope(inner) else None


def _is_envelope(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and isinstance(document.get("op"), str)
        and document["op"] in OPERATIONS
        and all(document.get(name) is None or isinstance(document[name], dict) for name in ("before", "after"))
        and ("before" in document or "after" in document or document["op"] == "t")
    )


@dataclass(frozen=True)
class DebeziumDecoder:
    """A relation with a key needs the row before a change only to delete it or to see that its key changed; one without
    needs it always. The tombstones that follow deletes say nothing new."""

    layout: Layout
    reader: ChangeReader
    keyed: bool

    def rows(self, frame: DataFrame) -> DataFrame:
        carried, columns = others(frame), self.layout.columns
        frame = self.reader.changes(frame.where(f"{VALUE} IS NOT NULL"))
        frame = frame.selectExpr("*", f"coalesce({FAULT}, {self._broken()}) AS __broken")
        frame = frame.selectExpr("*", f"(__broken IS NULL AND {self._is_two()}) AS __two")
        frame = frame.selectExpr("*", f"explode(IF(__two, array(0, 1), array(0))) AS {PART}")
        values = [f"IF({_TAKEN}, {BEFORE}.{name}, {AFTER}.{name}) AS {name}" for name in self._names()]
        frame = frame.selectExpr("*", *values, f"IF({_TAKEN}, -1L, 1L) AS {WEIGHT}")
        return finished(frame, carried, columns, self._error(), self.reader.raw)

    def failure(self, text: str) -> Error | None:
        return failure(text)

    def _names(self) -> list[str]:
        return [identifier(c.name) for c in self.layout.columns]

    def _keys(self) -> list[str]:
        return [identifier(name) for name in self.layout.key]

    def _is_two(self) -> str:
        """Whether a record takes one row and adds another."""
        if not self.keyed:
            return f"coalesce({OP} = 'u', false)"
        whole = " AND ".join(f"{BEFORE}.{name} IS NOT NULL" for name in self._keys()) or "true"
        moved = " OR ".join(f"NOT ({BEFORE}.{name} <=> {AFTER}.{name})" for name in self._keys()) or "false"
        return f"coalesce({OP} = 'u', false) AND {whole} AND ({moved})"

    def _broken(self) -> str:
        """What is wrong with an envelope whose parts can be read."""
        needs_before = "'d'" if self.keyed else "'u', 'd'"
        lost = " OR ".join(f"{BEFORE}.{name} IS NULL" for name in self._keys()) or "false"
        no_key = f"WHEN {OP} = 'd' AND ({lost}) THEN 'before lacks the key' " if self.keyed else ""
        return (
            f"CASE WHEN {OP} IS NULL THEN {literal(_NO_OP)}"
            f" WHEN {OP} = 't' THEN {literal(_TRUNCATE)}"
            f" WHEN {OP} NOT IN ({_ROW_OPS}) THEN concat('op ', left({OP}, 80), ' is unknown')"
            f" WHEN {OP} IN ({needs_before}) AND {BEFORE} IS NULL THEN {literal(_NO_BEFORE)}"
            f" {no_key}WHEN {OP} <> 'd' AND {AFTER} IS NULL THEN 'after is missing' END"
        )

    def _error(self) -> str:
        """Of a row that goes only the key matters, if there is one; others must be whole."""
        missing = missing_text(self.layout.columns)
        if missing is None:
            return "__broken"
        checked = f"IF({_TAKEN}, NULL, {missing})" if self.keyed else missing
        return f"coalesce(__broken, {checked})"


@dataclass(frozen=True)
class DebeziumEncoder:
    """Changes as envelopes without a time, so that a repeated step writes the same. A delete is followed by a tombstone
    if there is a key: compaction then forgets it."""

    layout: Layout
    writer: ChangeWriter
    key: KeyWriter
    keyed: bool

    @property
    def takes(self) -> Kind:
        return "changelog"

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        parts = split(changes, self.layout)
        keys = self.key.keys(parts.rows)
        said = paired(parts, keys if self.keyed else None)
        for change, value in zip(said, self.writer.changes(parts.rows, said), strict=True):
            key = keys[change.row]
            yield key, value
            if change.op == "d" and self.keyed:
                yield key, None


def paired(parts: Parts, keys: list[bytes | None] | None) -> list[Change]:
    """Changes in the order of the table, an update where its new row stands. A row that an update takes back belongs to
    the next new row of the same key; without keys, of the same unbroken run of updates. A row without its other half
    just comes or goes; but with a key a new row of an update stays one, `before` unknown: upsert views tell no more."""
    units = [place for place, weight in enumerate(parts.weights) for _ in range(abs(weight))]
    old_of = _matches([(parts.ops[place], _run_or_key(keys, place)) for place in units])
    used = set(old_of.values())
    changes = []
    for unit, place in enumerate(units):
        step = parts.steps[place]
        if unit in old_of:
            changes.append(Change("u", units[old_of[unit]], place, step))
        elif parts.ops[place].startswith("+"):
            lone = "u" if parts.ops[place] == "+U" and keys is not None else "c"
            changes.append(Change(lone, None, place, step))
        elif unit not in used:
            changes.append(Change("d", place, None, step))
    return changes


def _run_or_key(keys: list[bytes | None] | None, place: int) -> bytes | None:
    return None if keys is None else keys[place] or b""


def _matches(units: list[tuple[str, bytes | None]]) -> dict[int, int]:
    """Which -U each +U belongs to. Without a key (None), those of a run of -U that stands right before a run of +U."""
    waiting: dict[bytes | None, deque[int]] = {}
    found: dict[int, int] = {}
    last = ""
    for unit, (op, key) in enumerate(units):
        if key is None and (op[1] != "U" or (op == "-U" and last == "+U")):
            waiting.clear()
        if op == "-U":
            waiting.setdefault(key, deque()).append(unit)
        elif op == "+U" and waiting.get(key):
            found[unit] = waiting[key].popleft()
        last = op
    return found
