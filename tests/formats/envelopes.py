"""Debezium records with the expected result in a keyed table and on the event bus: cases for both decoders."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

PEN = {"id": 1, "name": "pen", "qty": 1}
CUP = {"id": 2, "name": "cup", "qty": 2}
NO_BEFORE = "before is missing: set REPLICA IDENTITY FULL, or declare a PRIMARY KEY"
NO_OP = "the record has no op: it is not a Debezium envelope"
TRUNCATE = "op t: truncate is not applied, delete the rows instead"

Change = tuple[int, dict[str, Any]]
Event = tuple[str, Any, Any]


class Case(NamedTuple):
    """A record, the expected changes of a table with the key `id` (or the reason why it is rejected), and the expected
    operation, row and old row of the event (or the reason)."""

    name: str
    record: Any
    changes: list[Change] | str
    event: Event | str

    @property
    def value(self) -> bytes:
        return self.record if isinstance(self.record, bytes) else json.dumps(self.record).encode()


def _rejected_case(name: str, record: Any, reason: str) -> Case:
    return Case(name, record, reason, reason)


PLAIN = [
    Case("create", {"op": "c", "before": None, "after": PEN}, [(1, PEN)], ("INSERT", PEN, None)),
    Case("no before", {"op": "c", "after": PEN}, [(1, PEN)], ("INSERT", PEN, None)),
    Case("snapshot", {"op": "r", "before": None, "after": PEN}, [(1, PEN)], ("INSERT", PEN, None)),
    Case("update", {"op": "u", "before": PEN, "after": {**PEN, "qty": 5}}, [(1, {**PEN, "qty": 5})],
         ("UPDATE", {**PEN, "qty": 5}, PEN)),
    Case("new key", {"op": "u", "before": PEN, "after": CUP}, [(-1, PEN), (1, CUP)], ("UPDATE", CUP, PEN)),
    Case("unknown before", {"op": "u", "before": None, "after": CUP}, [(1, CUP)], ("UPDATE", CUP, None)),
    Case("delete", {"op": "d", "before": PEN, "after": None}, [(-1, PEN)], ("DELETE", None, PEN)),
    Case("blind delete", {"op": "d", "before": None, "after": None}, NO_BEFORE, ("DELETE", None, None)),
    Case("truncate", {"op": "t", "before": None, "after": None}, TRUNCATE, ("TRUNCATE", None, None)),
    Case("truncate as Debezium writes it", {"op": "t", "ts_ms": 1}, TRUNCATE, ("TRUNCATE", None, None)),
    _rejected_case("unknown op", {"op": "x", "before": None, "after": PEN}, "op x is unknown"),
    _rejected_case("op that is a number", {"op": 5, "before": None, "after": PEN}, "op 5 is unknown"),
    _rejected_case("create of nothing", {"op": "c", "before": PEN, "after": None}, "after is missing"),
    _rejected_case("update to nothing", {"op": "u", "before": PEN, "after": None}, "after is missing"),
    _rejected_case("no op", {"before": None, "after": PEN}, NO_OP),
    _rejected_case("row", PEN, NO_OP),
]  # fmt: skip
CASES = [
    *PLAIN,
    *(Case(f"{case.name}, in a payload", {"payload": case.record}, *case[2:]) for case in PLAIN),
    *(
        Case(f"{case.name}, with a schema", {"schema": {"type": "struct"}, "payload": case.record}, *case[2:])
        for case in PLAIN
    ),
    Case("payload first", {"op": "d", "before": PEN, "payload": {"op": "c", "after": CUP}}, [(1, CUP)],
         ("INSERT", CUP, None)),
    Case("empty payload", {"payload": None, "op": "c", "after": CUP}, [(1, CUP)], ("INSERT", CUP, None)),
    Case("only an op", {"op": "d"}, NO_BEFORE,
         "the record has neither before nor after: it is not a Debezium envelope"),
    Case("before is a number", {"op": "d", "before": 1}, "not a JSON object",
         "before is not an object"),
    _rejected_case("no JSON", b"pen", "not a JSON object"),
    _rejected_case("half an object", b'{"op":"c"', "not a JSON object"),
    _rejected_case("a list", b"[1, 2]", "not a JSON object"),
]  # fmt: skip
