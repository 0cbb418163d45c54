"""The limit of the number of groups, against a naive count."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_windows import CALLS, SCHEMA, at, lengths
from tests.kernels.timed import TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference import Change, Groups, picked
from tests.model.reference_time import Windows
from tests.tiers import examples
from tidegate.core.render import json_value
from tidegate.ir.specs import AggregateSpec, WindowAggregateSpec
from tidegate.ir.windows import WindowSpec
from tidegate.kernels import aggregates
from tidegate.kernels.api import Clock
from tidegate.kernels.window_aggregate import on_port

pytestmark = pytest.mark.usefixtures("tiny_chunks")

ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "c", "d", None]),
        "ts": st.integers(0, 30).map(at),
        "i": st.sampled_from([1, 2]),
        "d": st.just(0.5),
        "s": st.just("x"),
        "ok": st.just(True),
    }
)


class Capped(Groups):
    """Groups of which the first `max_groups` are accepted."""

    def __init__(self, spec: AggregateSpec, window: tuple[str, ...]) -> None:
        super().__init__(spec)
        self._window, self._sizes = window, Counter[Any]()
        self.rejected_keys: list[Any] = []

    def step(self, number: int, inputs: Any) -> None:
        by_group: dict[Any, list[Change]] = {}
        for change in inputs[0]:
            by_group.setdefault(picked(change.row, self._spec.keys), []).append(change)
        self.rejected_keys, accepted = [], list[Change]()
        for key, changes in sorted(by_group.items(), key=lambda item: self._order(*item)):
            net = sum(change.weight for change in changes)
            window = key[1:] if self._window else ()
            live = sum(1 for other in self._live if not self._window or other[1:] == window)
            if self._sizes[key] == 0 and net != 0 and (net < 0 or live >= (self._spec.max_groups or 0)):
                self.rejected_keys.append(key)
            else:
                accepted += changes
                self._sizes[key] += net
        super().step(number, [accepted])

    @property
    def _live(self) -> set[Any]:
        return {key for key, size in self._sizes.items() if size}

    def _order(self, key: Any, changes: list[Change]) -> Any:
        """Groups that exist come last, so that they still count; then by time and key."""
        early = min(change.row["ts"] for change in changes) if self._window else 0
        return (self._sizes[key] != 0, key[1:] if self._window else (), early, (key[0] is not None, key[0] or ""))


@examples(60)
@given(st.sampled_from([1, 2, 3]), st.booleans(), drawn_steps(ROW, deletes=False))
def test_max_groups_limits_groups(most: int, append_only: bool, drawn: Any) -> None:
    spec = AggregateSpec(("k",), CALLS[:2], append_only, scalar=False, max_groups=most)
    play(TimedBench(spec, SCHEMA, ("k",), aggregates.hashes(spec)), Capped(spec, ()), drawn)


@examples(50)
@given(
    lengths("micros").filter(lambda window: window.kind != "cumulate"), st.sampled_from([1, 2]), drawn_steps(ROW, False)
)
def test_max_groups_limits_groups_of_windows(window: WindowSpec, most: int, drawn: Any) -> None:
    keys = ("k", "window_start", "window_end")
    inner = AggregateSpec(keys, (CALLS[0], CALLS[2]), append_only=True, scalar=False, max_groups=most)
    spec = WindowAggregateSpec(window, inner, "f")
    model = Windows(spec)
    model._groups = Capped(inner, keys[1:])
    bench = TimedBench(spec, SCHEMA, ("k",), aggregates.hashes(on_port(spec)))
    play(bench, model._groups, drawn, model)


def test_a_deleted_group_makes_room() -> None:
    spec = AggregateSpec(("k",), CALLS[:1], append_only=False, scalar=False, max_groups=1)
    bench = TimedBench(spec, SCHEMA, ("k",), aggregates.hashes(spec))
    a, b = ({"k": key, "ts": at(0), "i": 1, "d": 0.5, "s": "x", "ok": True} for key in "ab")
    bench.turn([(Change(b, 1), 0), (Change(a, 1), 0)], Clock(1, 0))
    assert bench.output == Counter([("a", 1)])
    assert [(error.code, error.row) for error in bench.delta.errors] == [("GROUP_CAP", '{"k":"b"}')]
    bench.turn([(Change(a, -1), 0)], Clock(2, 0))
    bench.turn([(Change(b, 1), 0)], Clock(3, 0))
    assert bench.output == Counter([("b", 1)])


def play(bench: TimedBench, groups: Capped, drawn: Any, windows: Windows | None = None) -> None:
    for step, clock, changes in zip(drawn, clocks(drawn), changes_of(drawn), strict=True):
        if windows is None:
            groups.step(clock.step, [[change for change, _ in changes]])
        else:
            windows.step(clock, [change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.output == groups.content()
        names = groups._spec.keys
        expected = [
            {name: json_value(value) for name, value in zip(names, key, strict=True)} for key in groups.rejected_keys
        ]
        rejected = [json.loads(error.row) for error in bench.delta.errors]
        assert sorted(map(str, rejected)) == sorted(map(str, expected))
        assert all(error.code == "GROUP_CAP" for error in bench.delta.errors)
