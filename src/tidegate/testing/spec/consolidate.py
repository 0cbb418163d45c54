"""The net changes of a view in one step of a spec, from those of its micro-batches: `+I a`, then `-U a`, `+U b`, is
`+I b`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Emitted:
    """One change that a view emitted: micro-batch, op, and the row in canonical values."""

    step: int
    op: str
    values: tuple[Hashable, ...]


def consolidate(changes: Sequence[Emitted], key: Sequence[int] | None, upsert: bool) -> list[Emitted]:
    """The net changes. `key` are the indexes of the key columns, None if the key is unknown or not selected.

    The engine consolidates each micro-batch, so changes of a single one are returned unchanged."""
    if len({change.step for change in changes}) <= 1:
        return list(changes)
    if upsert and key is not None:
        return _last_per_key(changes, key)
    net = _net(changes)
    return _pair_by_key(net, key) if key is not None else _balance(net)


def _net(changes: Sequence[Emitted]) -> list[Emitted]:
    """Cancel insertions and retractions of equal rows; the rest keep their op."""
    weights: Counter[Hashable] = Counter()
    for change in changes:
        weights[change.values] += _sign(change)
    net = []
    for change in reversed(changes):
        if weights[change.values] * _sign(change) > 0:
            weights[change.values] -= _sign(change)
            net.append(change)
    return sorted(net, key=_sign)


def _pair_by_key(net: Sequence[Emitted], key: Sequence[int]) -> list[Emitted]:
    """A key with a retraction and an insertion is updated; other keys are inserted or deleted."""
    retracted = {_key(change, key) for change in net if _sign(change) < 0}
    inserted = {_key(change, key) for change in net if _sign(change) > 0}
    return [_with_op(change, _key(change, key) in retracted & inserted) for change in net]


def _balance(net: Sequence[Emitted]) -> list[Emitted]:
    """Without a key, an update whose other half was cancelled becomes an insertion or a deletion."""
    updates = Counter(change.op for change in net if change.op in ("-U", "+U"))
    even = updates["-U"] == updates["+U"]
    return [change if even or change.op not in updates else _with_op(change, False) for change in net]


def _last_per_key(changes: Sequence[Emitted], key: Sequence[int]) -> list[Emitted]:
    """Upserts: the last change of each key, as an insertion if the first one was."""
    first: dict[Hashable, Emitted] = {}
    last: dict[Hashable, Emitted] = {}
    for change in changes:
        first.setdefault(_key(change, key), change)
        last[_key(change, key)] = change
    new = {key_ for key_, change in first.items() if change.op == "+I"}
    return [
        Emitted(change.step, "+I" if key_ in new and change.op == "+U" else change.op, change.values)
        for key_, change in last.items()
        if not (key_ in new and change.op == "-D")
    ]


def _with_op(change: Emitted, update: bool) -> Emitted:
    op = ("+U" if update else "+I") if _sign(change) > 0 else ("-U" if update else "-D")
    return Emitted(change.step, op, change.values)


def _key(change: Emitted, key: Sequence[int]) -> Any:
    return tuple(change.values[index] for index in key)


def _sign(change: Emitted) -> int:
    return 1 if change.op.startswith("+") else -1
