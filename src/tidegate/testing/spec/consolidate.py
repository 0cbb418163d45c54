"""What a view emitted in one user-level step, from the changes of its micro-batches: `+I a`, then `a` becoming `b`, is
`+I b`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Emitted:
    """One change as it left a view: micro-batch, op, and the row's values in column order, in comparable form."""

    step: int
    op: str
    values: tuple[Hashable, ...]


def consolidate(changes: Sequence[Emitted], key: Sequence[int] | None, upsert: bool) -> list[Emitted]:
    """The net changes. `key` are the positions of the key's columns, None if the key is unknown or not selected.

    The changes of a single micro-batch are consolidated by the engine: they are left as they are."""
    if len({change.step for change in changes}) <= 1:
        return list(changes)
    if upsert and key is not None:
        return _last_per_key(changes, key)
    net = _net(changes)
    return _pair_by_key(net, key) if key is not None else _balance(net)


def _net(changes: Sequence[Emitted]) -> list[Emitted]:
    """Cancels insertions and retractions of equal rows; what is left keeps the op it came with."""
    weights: Counter[Hashable] = Counter()
    for change in changes:
        weights[change.values] += _sign(change)
    kept = []
    for change in reversed(changes):
        if weights[change.values] * _sign(change) > 0:
            weights[change.values] -= _sign(change)
            kept.append(change)
    return sorted(kept, key=_sign)


def _pair_by_key(net: Sequence[Emitted], key: Sequence[int]) -> list[Emitted]:
    """A key that lost one row and got another was updated; otherwise it came or went."""
    gone = {_key(change, key) for change in net if _sign(change) < 0}
    came = {_key(change, key) for change in net if _sign(change) > 0}
    return [_with_op(change, _key(change, key) in gone & came) for change in net]


def _balance(net: Sequence[Emitted]) -> list[Emitted]:
    """Without a key, an update that lost its other half is an insertion or a deletion."""
    updates = Counter(change.op for change in net if change.op in ("-U", "+U"))
    even = updates["-U"] == updates["+U"]
    return [change if even or change.op not in updates else _with_op(change, False) for change in net]


def _last_per_key(changes: Sequence[Emitted], key: Sequence[int]) -> list[Emitted]:
    """An upsert output: the last change of each key, as an insertion if the step began with one."""
    first: dict[Hashable, Emitted] = {}
    last: dict[Hashable, Emitted] = {}
    for change in changes:
        first.setdefault(_key(change, key), change)
        last[_key(change, key)] = change
    born = {one for one, change in first.items() if change.op == "+I"}
    kept = {one: change for one, change in last.items() if not (one in born and change.op == "-D")}
    return [
        Emitted(change.step, "+I" if one in born and change.op == "+U" else change.op, change.values)
        for one, change in kept.items()
    ]


def _with_op(change: Emitted, update: bool) -> Emitted:
    op = ("+U" if update else "+I") if _sign(change) > 0 else ("-U" if update else "-D")
    return Emitted(change.step, op, change.values)


def _key(change: Emitted, key: Sequence[int]) -> Any:
    return tuple(change.values[index] for index in key)


def _sign(change: Emitted) -> int:
    return 1 if change.op.startswith("+") else -1
