"""Random pipelines: inputs with declared times, and views on them and on each other."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.differential.choices import EVENTS, Known, ViewMaker
from tests.differential.history import make_steps
from tests.differential.pipeline import Beat, Columns, Input, Pipeline, Select, View
from tests.differential.simulator import CLOCK, Simulator


def make(seed: int, beats: tuple[Beat, ...]) -> Pipeline:
    """The pipeline of a seed, for a pack with these beats."""
    return _Maker(random.Random(seed)).make(beats)


class _Maker(ViewMaker):
    def make(self, beats: tuple[Beat, ...]) -> Pipeline:
        for number in range(self._random.choice((1, 1, 2, 2, 3))):
            self._add_input(number)
        wanted = self._random.choice((1, 2, 2, 3, 3, 4))
        while len(self._views) < wanted:
            made = self._view(f"v{len(self._views)}")
            if made is not None:
                self._add_view(*made)
        pipeline = Pipeline(tuple(self._inputs), tuple(self._views), ())
        base = CLOCK if self._by_clock else self._random.choice((0, CLOCK))
        return replace(pipeline, steps=make_steps(pipeline, beats, base, self._random))

    def _add_input(self, number: int) -> None:
        kind = self._random.choice(("source",) * 6 + ("bag", "bag", "keyed", "keyed"))
        columns = (("id", "BIGINT"), *EVENTS) if kind == "keyed" else EVENTS
        delay, other = self._random.choice((0, 0, 3, 5, 10)), self._random.choice((0, 5, 10, 20))
        declared = self._random.choice(("watermark",) * 13 + ("lateness",) * 3 + ("both", "both", "none", "hold"))
        if declared == "hold" and kind != "source":
            declared = "none"
        made = Input(
            f"s{number}",
            kind,
            columns,
            watermark={"ts": delay} if declared in ("watermark", "both") else {},
            lateness={"ts": other} if declared in ("lateness", "both") else {},
            hold_back={"ts": other} if declared == "hold" else {},
            idle_timeout=self._random.choice((10, 15, 30)) if kind == "source" and self._often(15) else None,
            max_ahead=30 if self._by_clock and kind == "source" and self._often(15) else None,
        )
        self._inputs.append(made)
        timed = ("ts",) if made.watermark or made.lateness else ()
        default = {"watermark": "ON WATERMARK", "both": None}.get(declared, "CHANGES")
        self._known.append(
            Known(made.name, columns, timed, default=default, held=bool(made.hold_back), append=kind == "source")
        )

    def _add_view(self, view: View, columns: Columns, default: str | None) -> None:
        sources = [one for one in self._known if one.name in view.query.sources]
        self._views.append(view)
        state = Simulator(Pipeline(tuple(self._inputs), tuple(self._views), ())).views[view.name]
        now = isinstance(view.query, Select) and any(condition.now for condition in view.query.where)
        self._known.append(
            Known(
                view.name,
                columns,
                tuple(name for name, type_ in columns if type_ == "TIMESTAMP" and name in state.now.plain),
                max(one.depth for one in sources) + 1,
                default,
                now or any(one.moves for one in sources),
                any(one.held for one in sources),
            )
        )
