"""A chaos run: one random fault after the other under load, and a comparison after each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.world import World, open_world

AGREEMENT_SECONDS = 180.0
LOAD_SECONDS = (1.0, 5.0)


class ChaosError(AssertionError):
    """What is wrong after a fault."""


def run(
    folder: Path, spark: Any, seed: int, count: int, tell: Callable[[str], None], only: tuple[str, ...] = ()
) -> None:
    """Make `count` faults, each under load. Raises ChaosError at the first difference."""
    chance = random.Random(seed)
    with open_world(folder, spark, seed) as world:
        possible = [fault for fault in world.faults() if not only or fault.__name__ in only]
        tell(f"seed {seed}, {len(possible)} kinds of faults")
        world.pipeline.start()
        _round(world, chance, lambda world, chance: "nothing")
        left = list[Any]()
        for number in range(1, count + 1):
            left = left or chance.sample(possible, len(possible))
            began = time.monotonic()
            told = _round(world, chance, left.pop())
            tell(f"{number:4}  {time.monotonic() - began:5.1f} s  {told}")
        tell(f"{count} faults, no difference: {_figures(world)}")


def _round(world: World, chance: random.Random, fault: Callable[[World, random.Random], str]) -> str:
    world.load.begin()
    time.sleep(chance.uniform(*LOAD_SECONDS))
    try:
        told = fault(world, chance)
        time.sleep(chance.uniform(0, 2))
    finally:
        world.load.end()
    wrong = world.await_agreement(AGREEMENT_SECONDS)
    if crashes := world.pipeline.crashes():
        wrong += ["the log of the pipeline has:", *crashes[:5]]
    if wrong:
        raise ChaosError("\n".join([f"after this fault: {told}", *wrong, f"see {world.folder}, {_figures(world)}"]))
    return told


def _figures(world: World) -> str:
    written = world.load.written
    late = sum(trade.late for trade in written.trades)
    return (
        f"{len(written.trades)} trades ({late} late), {len(written.quotes)} quotes, {world.pipeline.starts} starts "
        f"of the pipeline, {len(world.pipeline.ended)} of them after it ended by itself"
    )
