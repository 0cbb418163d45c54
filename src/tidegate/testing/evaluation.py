"""Brings all views through a micro-batch, level by level, with as few jobs as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar

from tidegate.testing.batch import Batch
from tidegate.testing.instance import Instance
from tidegate.testing.time.amounts import Unknown

P = ParamSpec("P")
T = TypeVar("T")


def evaluate(instances: Sequence[Instance], batch: Batch, clock: int) -> None:
    """One micro-batch of these views; what they read has had it."""
    for level in _levels(instances):
        _ask(level, batch, clock)
        _answer(level, batch)
        for instance in _living(level):
            _guarded(instance, instance.settle)


def _levels(instances: Sequence[Instance]) -> Iterator[list[Instance]]:
    depths = {id(instance): _depth(instance) for instance in instances}
    for depth in sorted(set(depths.values())):
        yield [instance for instance in instances if depths[id(instance)] == depth]


def _depth(instance: Instance) -> int:
    return 1 + max((_depth(one) for one in instance.sources.values() if isinstance(one, Instance)), default=0)


def _living(level: Sequence[Instance]) -> list[Instance]:
    """Those whose content is known, and known of what they read."""
    for instance in level:
        for name, source in instance.sources.items():
            if instance.lost is None and source.lost is not None:
                instance.lost = f"it reads {name}, and of that: {source.lost}"
    return [instance for instance in level if instance.lost is None]


def _ask(level: Sequence[Instance], batch: Batch, clock: int) -> None:
    asked = [question for one in _living(level) for question in _guarded(one, one.ask, clock) or []]
    for (windowing, _), answer in zip(asked, batch.run([job for _, job in asked]), strict=True):
        windowing.told(answer)


def _answer(level: Sequence[Instance], batch: Batch) -> None:
    wanted = [(instance, _guarded(instance, instance.query)) for instance in _living(level)]
    jobs = [(instance, job) for instance, job in wanted if job is not None]
    for (instance, _), table in zip(jobs, batch.run([job for _, job in jobs]), strict=True):
        _guarded(instance, instance.answered, table)


def _guarded(instance: Instance, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """What the model cannot tell is lost from then on."""
    try:
        return act(*args, **kwargs)
    except Unknown as problem:
        instance.lost = str(problem)
        return None
