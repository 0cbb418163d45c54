"""Debezium envelopes: a record is a change, with the row before and after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""The ops of an envelope, and the operations of events that they become."""

SIDES = ("before", "after")
_NO_BEFORE = "before is missing: set REPLICA IDENTITY FULL, or declare a PRIMARY KEY"
_NO_OP = "the record has no op: it is not a Debezium envelope"
_NO_SIDES = "the record has neither before nor after: it is not a Debezium envelope"
_TRUNCATE = "op t: truncate is not applied, delete the rows instead"


class Rule(NamedTuple):
    """Rejects an envelope with one of these ops, or only if it lacks the row named `missing`."""

    ops: tuple[str, ...]
    missing: str | None
    problem: str


EVENT_RULES = (Rule(("c", "r", "u"), "after", "after is missing"),)
"""What every envelope must satisfy. Events can do without the row before a change, and a truncate is one."""


def row_rules(keyed: bool) -> tuple[Rule, ...]:
    """What the envelopes of a relation must satisfy in addition.

    Truncate cannot be applied: such a record has no key, so Debezium writes it to any partition, in no order with the
    rows of the others. Without a key the row before a change is needed to delete it.
    """
    needs_before = ("d",) if keyed else ("u", "d")
    return (Rule(("t",), None, _TRUNCATE), Rule(needs_before, "before", _NO_BEFORE), *EVENT_RULES)


def unwrapped(document: Any) -> Any:
    """Return the `payload` of a record that Connect's converter wrapped, with or without schema, else the record."""
    payload = document.get("payload") if isinstance(document, dict) else None
    return document if payload is None else payload


def read_envelope(document: Any, rules: Sequence[Rule] = EVENT_RULES) -> dict[str, Any]:
    """Return the envelope in a decoded record; a ValueError says what is wrong with it.

    `DebeziumDecoder` applies the same rules as Spark SQL.
    """
    envelope = unwrapped(document)
    if not isinstance(envelope, dict) or envelope.get("op") is None:
        raise ValueError(_NO_OP)
    op = envelope["op"]
    if not isinstance(op, str) or op not in OPERATIONS:
        raise ValueError(f"op {str(op)[:80]} is unknown")
    for side in SIDES:
        if not isinstance(envelope.get(side), dict | None):
            raise ValueError(f"{side} is not an object")
    for rule in rules:
        if op in rule.ops and (rule.missing is None or envelope.get(rule.missing) is None):
            raise ValueError(rule.problem)
    if op != "t" and not any(side in envelope for side in SIDES):
        raise ValueError(_NO_SIDES)
    return envelope


_TAKEN = f"({OP} = 'd' OR ({PART} = 0 AND __two))"
_COLUMN_OF = {"before": BEFORE, "after": AFTER}


def _sql_of(rule: Rule) -> str:
    ops = ", ".join(literal(op) for op in rule.ops)
    missing = "" if rule.missing is None else f" AND {_COLUMN_OF[rule.missing]} IS NULL"
    return f"WHEN {OP} IN ({ops}){missing} THEN {literal(rule.problem)}"


@dataclass(frozen=True)
class DebeziumDecoder:
    """Makes rows of envelopes. A relation with a key needs the row before a change only to delete it or to see that its
    key changed; one without needs it always. Tombstones, which follow deletes, are ignored."""

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
        """Condition: a record deletes one row and inserts another."""
        if not self.keyed:
            return f"coalesce({OP} = 'u', false)"
        whole = " AND ".join(f"{BEFORE}.{name} IS NOT NULL" for name in self._keys()) or "true"
        moved = " OR ".join(f"NOT ({BEFORE}.{name} <=> {AFTER}.{name})" for name in self._keys()) or "false"
        return f"coalesce({OP} = 'u', false) AND {whole} AND ({moved})"

    def _broken(self) -> str:
        """Say what is wrong with an envelope, in the order of `read_envelope`."""
        known = ", ".join(literal(op) for op in OPERATIONS)
        lost = " OR ".join(f"{BEFORE}.{name} IS NULL" for name in self._keys()) or "false"
        no_key = f" WHEN {OP} = 'd' AND ({lost}) THEN 'before lacks the key'" if self.keyed else ""
        rules = " ".join(map(_sql_of, row_rules(self.keyed)))
        return (
            f"CASE WHEN {OP} IS NULL THEN {literal(_NO_OP)}"
            f" WHEN {OP} NOT IN ({known}) THEN concat('op ', left({OP}, 80), ' is unknown')"
            f" {rules}{no_key} END"
        )

    def _error(self) -> str:
        """NOT NULL is not checked for deleted rows of a relation with a key: only their key matters."""
        missing = missing_text(self.layout.columns)
        if missing is None:
            return "__broken"
        checked = f"IF({_TAKEN}, NULL, {missing})" if self.keyed else missing
        return f"coalesce(__broken, {checked})"


@dataclass(frozen=True)
class DebeziumEncoder:
    """Writes changes as envelopes, without a time of writing, so that a repeated step writes the same records. With a
    key, a delete is followed by a tombstone, which lets compaction remove the key."""

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
        envelopes = pair_updates(parts, keys if self.keyed else None)
        for change, value in zip(envelopes, self.writer.changes(parts.rows, envelopes), strict=True):
            key = keys[change.row]
            yield key, value
            if change.op == "d" and self.keyed:
                yield key, None


def pair_updates(parts: Parts, keys: list[bytes | None] | None) -> list[Change]:
    """Combine the two rows of an update into one change, at the position of the new row; other rows are one each.

    A -U belongs to the next +U of the same key; without keys, of the same unbroken run of updates. One without a
    partner is an insert or a delete, but with a key a lone +U remains an update with `before` unknown: the changelog
    of an upsert view has no -U.
    """
    units = [index for index, weight in enumerate(parts.weights) for _ in range(abs(weight))]
    old_of = _match([(parts.ops[index], _run_or_key(keys, index)) for index in units])
    used = set(old_of.values())
    changes = []
    for unit, index in enumerate(units):
        step = parts.steps[index]
        if unit in old_of:
            changes.append(Change("u", units[old_of[unit]], index, step))
        elif parts.ops[index].startswith("+"):
            lone = "u" if parts.ops[index] == "+U" and keys is not None else "c"
            changes.append(Change(lone, None, index, step))
        elif unit not in used:
            changes.append(Change("d", index, None, step))
    return changes


def _run_or_key(keys: list[bytes | None] | None, index: int) -> bytes | None:
    return None if keys is None else keys[index] or b""


def _match(units: list[tuple[str, bytes | None]]) -> dict[int, int]:
    """Map each +U to its -U. Without a key (None), a run of -U matches the run of +U right after it."""
    waiting: dict[bytes | None, deque[int]] = {}
    matches: dict[int, int] = {}
    last = ""
    for unit, (op, key) in enumerate(units):
        if key is None and (op[1] != "U" or (op == "-U" and last == "+U")):
            waiting.clear()
        if op == "-U":
            waiting.setdefault(key, deque()).append(unit)
        elif op == "+U" and waiting.get(key):
            matches[unit] = waiting[key].popleft()
        last = op
    return matches
