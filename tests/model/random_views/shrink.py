"""Makes a failing case smaller, as long as it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.model.random_views.case import Case

Fails = Callable[[Case], bool]
T = TypeVar("T")


def shrink(case: Case, fails: Fails, seconds: float, suspects: Iterable[str] = ()) -> Case:
    """The smallest failing case found within the time limit; suspected views are tried first."""
    deadline = time.monotonic() + seconds
    for name in suspects:
        alone = case.with_views({name})
        if time.monotonic() < deadline and fails(alone):
            case = alone
            break
    order = (_fewer_views, _fewer_steps, _fewer_rows, _simpler_queries, _shorter_tails, _fewer_steps, _fewer_rows)
    for attempts in order:
        case = _while_smaller(case, attempts, fails, deadline)
    return case


def _while_smaller(case: Case, attempts: Callable[[Case], Iterator[Case]], fails: Fails, deadline: float) -> Case:
    """Takes the first smaller case that still fails, and begins again from there."""
    for smaller in attempts(case):
        if time.monotonic() > deadline:
            return case
        if fails(smaller):
            return _while_smaller(smaller, attempts, fails, deadline)
    return case


def _fewer_views(case: Case) -> Iterator[Case]:
    """One view with what it reads; then half of those that none reads, then all but one."""
    read = {name for view in case.views for name in view.query.reads()}
    last = [view.name for view in case.views if view.name not in read]
    alone = [{view.name} for view in case.views]
    without = [set(part) for size in (len(last) // 2, 1) if size for part in _without_parts(last, size)]
    for names in [*alone, *without]:
        fewer = case.with_views(names)
        if 0 < len(fewer.views) < len(case.views):
            yield fewer


def _fewer_steps(case: Case) -> Iterator[Case]:
    yield from (replace(case, steps=rest) for rest in _without_parts(case.steps, 1))


def _fewer_rows(case: Case) -> Iterator[Case]:
    for index, step in enumerate(case.steps):
        for rest in _without_parts(step, max(1, len(step) // 2)):
            yield replace(case, steps=(*case.steps[:index], rest, *case.steps[index + 1 :]))
    if any(len(step) > 1 for step in case.steps):
        for index, step in enumerate(case.steps):
            for rest in _without_parts(step, 1):
                yield replace(case, steps=(*case.steps[:index], rest, *case.steps[index + 1 :]))


def _simpler_queries(case: Case) -> Iterator[Case]:
    read = {name for view in case.views for name in view.query.reads()}
    for index, view in enumerate(case.views):
        for query in view.query.simpler():
            if view.name in read and query.fields != view.query.fields:
                continue
            views = (*case.views[:index], replace(view, query=query), *case.views[index + 1 :])
            yield replace(case, views=views).with_views({one.name for one in views} - read)


def _shorter_tails(case: Case) -> Iterator[Case]:
    for index, view in enumerate(case.views):
        for tail in _without_parts(view.tail, 1):
            yield replace(case, views=(*case.views[:index], replace(view, tail=tail), *case.views[index + 1 :]))


def _without_parts(whole: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    """The sequence without each of its parts of this size, later parts first."""
    for start in reversed(range(0, len(whole), size)):
        yield (*whole[:start], *whole[start + size :])
