"""Makes a failing pipeline smaller. All candidates of a round run in one pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.differential.pipeline import Beat, Pipeline, Step

Removal = tuple[str, int, int]
"""What to leave out: a view or an input by its place, or a change or an advance of a step by both places."""
Fails = Callable[[Sequence[Pipeline], tuple[Beat, ...]], list[bool]]


def shrink(pipeline: Pipeline, beats: tuple[Beat, ...], fails: Fails, rounds: int) -> tuple[Pipeline, tuple[Beat, ...]]:
    """The smallest pipeline found that still fails, and its beats."""
    for _ in range(rounds):
        removals = _removals(pipeline)
        alone = fails([_without(pipeline, {one}) for one in removals], beats)
        useful = [one for one, still in zip(removals, alone, strict=True) if still]
        if not useful:
            break
        together = [_without(pipeline, set(useful[:count])) for count in range(1, len(useful) + 1)]
        still = fails(together, beats)
        pipeline = together[max((at for at, failed in enumerate(still) if failed), default=0)]
    calm = tuple(replace(beat, restart=False) for beat in beats)
    return (pipeline, calm) if calm != beats and fails([pipeline], calm)[0] else (pipeline, beats)


def _removals(pipeline: Pipeline) -> list[Removal]:
    read = {source for view in pipeline.views for source in view.query.sources}
    read |= {view.late_to for view in pipeline.views if view.late_to}
    found: list[Removal] = []
    if len(pipeline.views) > 1:
        found += [("view", place, 0) for place, view in enumerate(pipeline.views) if view.name not in read]
    found += [("input", place, 0) for place, one in enumerate(pipeline.inputs) if one.name not in read]
    for number, step in enumerate(pipeline.steps):
        found += [("change", number, place) for place in range(len(step.changes))]
        found += [("advance", number, place) for place in range(len(step.advances))]
    return found


def _without(pipeline: Pipeline, removals: set[Removal]) -> Pipeline:
    inputs = tuple(one for place, one in enumerate(pipeline.inputs) if ("input", place, 0) not in removals)
    kept = {one.name for one in inputs}
    steps = []
    for number, step in enumerate(pipeline.steps):
        changes = [one for at, one in enumerate(step.changes) if ("change", number, at) not in removals]
        advances = [one for at, one in enumerate(step.advances) if ("advance", number, at) not in removals]
        steps.append(
            Step(
                tuple(change for change in changes if change.relation in kept),
                tuple(advance for advance in advances if advance[0] in kept),
            )
        )
    views = tuple(view for place, view in enumerate(pipeline.views) if ("view", place, 0) not in removals)
    return Pipeline(inputs, views, tuple(steps))
