"""The faults. Each function makes one, waits, and removes its cause; what is wrong then is for the caller to see."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.definitions import EXTRAS

if TYPE_CHECKING:
    from tests.chaos.world import World

Fault = Callable[["World", random.Random], str]
CLOCK_JUMPS = tuple(timedelta(minutes=minutes) for minutes in (40, -50, 180, -180, 2880, -1440))


def kill_everything(world: World, chance: random.Random) -> str:
    world.pipeline.kill()
    world.pipeline.start()
    return "killed driver, JVM and workers"


def kill_driver(world: World, chance: random.Random) -> str:
    world.pipeline.kill(only_driver=True)
    world.pipeline.start()
    return "killed the driver alone"


def kill_while_starting(world: World, chance: random.Random) -> str:
    delays = [chance.uniform(0.2, 12) for _ in range(chance.randint(1, 2))]
    for delay in delays:
        world.pipeline.kill()
        world.pipeline.start()
        time.sleep(delay)
    world.pipeline.kill()
    world.pipeline.start()
    return f"killed it {len(delays) + 1} times, " + ", ".join(f"{delay:.1f} s" for delay in delays) + " after the start"


def kill_jvm(world: World, chance: random.Random) -> str:
    return _kill_one(world, chance, "JVM", [each.pid for each in world.pipeline.family() if each.is_jvm])


def kill_worker(world: World, chance: random.Random) -> str:
    return _kill_one(world, chance, "worker", [each.pid for each in world.pipeline.family() if each.is_worker])


def kill_all_workers(world: World, chance: random.Random) -> str:
    pids = [each.pid for each in world.pipeline.family() if each.is_worker]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return f"killed all {len(pids)} Python processes but the driver"


def stop(world: World, chance: random.Random) -> str:
    world.pipeline.stop()
    world.pipeline.start()
    return "stopped and started it"


def pause(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(1, 8)
    family = [each.pid for each in world.pipeline.family()]
    for sign in (signal.SIGSTOP, signal.SIGCONT):
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        if sign == signal.SIGSTOP:
            time.sleep(seconds)
    return f"paused all its processes for {seconds:.1f} s"


def kill_broker(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(0, 10)
    world.broker.kill()
    time.sleep(seconds)
    world.broker.start()
    return f"killed the broker, and started it {seconds:.1f} s later"


def restart_broker(world: World, chance: random.Random) -> str:
    world.broker.restart()
    return "restarted the broker"


def kill_pipeline_without_broker(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(0, 15)
    world.broker.kill()
    world.pipeline.kill()
    world.pipeline.start()
    time.sleep(seconds)
    world.broker.start()
    return f"killed broker and pipeline, and started the broker {seconds:.1f} s after the pipeline"


def kill_database(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(0, 10)
    world.postgres.kill()
    time.sleep(seconds)
    world.postgres.start()
    return f"killed PostgreSQL, and started it {seconds:.1f} s later"


def kill_pipeline_without_database(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(0, 15)
    world.postgres.kill()
    world.pipeline.kill()
    world.pipeline.start()
    time.sleep(seconds)
    world.postgres.start()
    return f"killed PostgreSQL and pipeline, and started PostgreSQL {seconds:.1f} s after the pipeline"


def cut_connections(world: World, chance: random.Random) -> str:
    times = chance.randint(1, 6)
    for _ in range(times):
        for proxy in world.proxies:
            proxy.cut()
        time.sleep(chance.uniform(0, 1.5))
    return f"cut all connections to broker and PostgreSQL {times} times"


def stall_connections(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(1, 20)
    for proxy in world.proxies:
        proxy.stall()
    time.sleep(seconds)
    for proxy in world.proxies:
        proxy.flow()
        if chance.random() < 0.5:
            proxy.cut()
    return f"let nothing through to broker and PostgreSQL for {seconds:.1f} s"


def fill_disk(world: World, chance: random.Random) -> str:
    seconds = chance.uniform(1, 12)
    filler = world.disk / "filler"
    _fill(filler)
    time.sleep(seconds)
    filler.unlink()
    return f"filled the disk for {seconds:.1f} s"


def kill_on_full_disk(world: World, chance: random.Random) -> str:
    filler = world.disk / "filler"
    _fill(filler)
    time.sleep(chance.uniform(0, 4))
    world.pipeline.kill()
    world.pipeline.start()
    time.sleep(chance.uniform(0, 12))
    filler.unlink()
    return "killed it while the disk was full, and started it before there was space"


def move_clock(world: World, chance: random.Random) -> str:
    by = chance.choice(CLOCK_JUMPS)
    world.clock.move(by)
    time.sleep(chance.uniform(3, 8))
    world.clock.move(timedelta())
    return f"moved the clock by {_hours(by)} and back"


def kill_with_another_clock(world: World, chance: random.Random) -> str:
    by = chance.choice(CLOCK_JUMPS)
    world.clock.move(by)
    time.sleep(chance.uniform(0, 4))
    world.pipeline.kill()
    world.clock.move(timedelta())
    world.pipeline.start()
    return f"moved the clock by {_hours(by)}, killed the pipeline, and started it with the clock back"


def change_views(world: World, chance: random.Random) -> str:
    told = _change(world, chance)
    world.pipeline.stop()
    world.pipeline.start()
    return f"stopped it; {told}"


def change_views_and_kill(world: World, chance: random.Random) -> str:
    told = _change(world, chance)
    delay = chance.uniform(0.5, 12)
    world.pipeline.kill()
    world.pipeline.start()
    time.sleep(delay)
    world.pipeline.kill()
    world.pipeline.start()
    return f"killed it; {told}; killed it again {delay:.1f} s after the start"


def _change(world: World, chance: random.Random) -> str:
    """Create, replace or drop a view with the next start."""
    number = chance.randrange(len(EXTRAS))
    name = f"extra_{chance.randrange(3)}"
    if name in world.extras and chance.random() < 0.4:
        del world.extras[name]
        world.pipeline.declare(f"DROP VIEW {name};")
        return f"dropped {name}"
    same = name in world.extras and EXTRAS[world.extras[name]].columns == EXTRAS[number].columns
    if name in world.extras and not same:
        number = world.extras[name]
    world.extras[name] = number
    world.pipeline.declare(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {EXTRAS[number].sql};")
    return f"created or replaced {name}: {EXTRAS[number].sql}"


def _kill_one(world: World, chance: random.Random, what: str, pids: list[int]) -> str:
    if not pids:
        return f"there was no {what} to kill"
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(pids), signal.SIGKILL)
    return f"killed a {what}"


def _hours(by: timedelta) -> str:
    return f"{by / timedelta(hours=1):+.1f} h"


def _fill(path: Path) -> None:
    """Write until there is no space."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))


ALWAYS: tuple[Fault, ...] = (
    kill_everything,
    kill_driver,
    kill_while_starting,
    kill_jvm,
    kill_worker,
    kill_all_workers,
    stop,
    pause,
    kill_broker,
    restart_broker,
    kill_pipeline_without_broker,
    kill_database,
    kill_pipeline_without_database,
    cut_connections,
    stall_connections,
    change_views,
    change_views_and_kill,
)
WITH_OWN_DISK: tuple[Fault, ...] = (fill_disk, kill_on_full_disk)
"""They need a file system of their own, which only root can mount."""
WITH_OWN_CLOCK: tuple[Fault, ...] = (move_clock, kill_with_another_clock)
"""They need a C compiler."""
