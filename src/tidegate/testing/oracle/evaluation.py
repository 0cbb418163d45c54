"""Brings views through micro-batches, level by level, with one Spark job per level for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tidegate.testing.oracle.amounts import Unknown
from tidegate.testing.oracle.batch import Batch
from tidegate.testing.oracle.view import ViewModel

if TYPE_CHECKING:
    from tidegate.testing.oracle.oracle import Oracle

P = ParamSpec("P")
T = TypeVar("T")


def drain(oracles: Sequence[Oracle]) -> None:
    """Bring the views of all oracles up to date. The n-th micro-batches of all oracles are evaluated together. The
    oracles must share one batch, and no two relations may share a name."""
    queues = [(oracle, oracle.take_queue()) for oracle in oracles]
    for number in range(max((len(queue) for _, queue in queues), default=0)):
        entered = [(oracle, queue[number]) for oracle, queue in queues if number < len(queue)]
        for clock in sorted({micro_batch.clock for _, micro_batch in entered}):
            together = [(oracle, micro_batch) for oracle, micro_batch in entered if micro_batch.clock == clock]
            views = [view for oracle, micro_batch in together for view in oracle.enter(micro_batch)]
            evaluate(views, together[0][0].batch, clock)
        for oracle, _ in entered:
            oracle.settle()


def evaluate(views: Sequence[ViewModel], batch: Batch, clock: int) -> None:
    """Run one micro-batch of these views; the relations they read have run it."""
    for level in _levels(views):
        _filter_candidates(level, batch, clock)
        _query(level, batch)
        for view in _known(level):
            _guarded(view, view.settle)


def _levels(views: Sequence[ViewModel]) -> Iterator[list[ViewModel]]:
    depths = {id(view): _depth(view) for view in views}
    for depth in sorted(set(depths.values())):
        yield [view for view in views if depths[id(view)] == depth]


def _depth(view: ViewModel) -> int:
    return 1 + max((_depth(source) for source in view.sources.values() if isinstance(source, ViewModel)), default=0)


def _known(level: Sequence[ViewModel]) -> list[ViewModel]:
    """The views whose content, and that of all they read, the oracle can compute."""
    for view in level:
        for name, source in view.sources.items():
            if view.unknown is None and source.unknown is not None:
                view.unknown = f"it reads {name}, and of that: {source.unknown}"
    return [view for view in level if view.unknown is None]


def _filter_candidates(level: Sequence[ViewModel], batch: Batch, clock: int) -> None:
    queries = [query for view in _known(level) for query in _guarded(view, view.begin, clock) or []]
    for (windowing, _), answer in zip(queries, batch.run([job for _, job in queries]), strict=True):
        windowing.receive(answer)


def _query(level: Sequence[ViewModel], batch: Batch) -> None:
    queries = [(view, _guarded(view, view.query)) for view in _known(level)]
    jobs = [(view, job) for view, job in queries if job is not None]
    for (view, _), table in zip(jobs, batch.run([job for _, job in jobs]), strict=True):
        _guarded(view, view.receive, table)


def _guarded(view: ViewModel, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """A view is unknown from the first step on that the oracle cannot compute."""
    try:
        return act(*args, **kwargs)
    except Unknown as problem:
        view.unknown = str(problem)
        return None
