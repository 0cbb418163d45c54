"""The servers, the pipeline and the load of a chaos run, and the comparison after each fault."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tidegate
from tests.chaos import expected, faults, observed
from tests.chaos.clock import MovedClock
from tests.chaos.definitions import EXTRAS, TEMPLATE, VIEWS
from tests.chaos.faults import Fault
from tests.chaos.load import Load
from tests.chaos.pipeline import Pipeline
from tests.servers import Broker, kafka_jars
from tests.servers.fetch import class_archive
from tests.servers.postgres import Postgres, postgres_server
from tests.servers.proxy import Proxy, proxy_of

DISK_SIZE = "192m"
SHOWN = 8
NOT_YET = ("UNKNOWN_RELATION", "TABLE_NOT_READY")
"""What a reader is told while the pipeline is about to create a view or to read a table."""


class World:
    """Everything that a fault can hit. `extras` are the views that were added, as numbers of EXTRAS."""

    def __init__(
        self, folder: Path, disk: Path, broker: Broker, postgres: Postgres, proxies: list[Proxy], spark: Any, seed: int
    ) -> None:
        self.folder, self.disk, self.broker, self.postgres, self.proxies = folder, disk, broker, postgres, proxies
        self.extras = dict[str, int]()
        self._spark, self.clock = spark, MovedClock(folder)
        self.database = postgres.create_database("chaos")
        self.load = Load(broker, postgres, self.database, random.Random(seed))
        self.load.prepare()
        to_broker, to_postgres = proxies
        url = postgres.url(self.database).replace(f":{postgres.port}/", f":{to_postgres.port}/")
        sql = TEMPLATE.format(brokers=f"127.0.0.1:{to_broker.port}", database=url, files=disk)
        self.pipeline = Pipeline(folder, disk / "data", sql, self._environment())
        self._reader: tidegate.Database | None = None

    def _environment(self) -> dict[str, str]:
        """The jars of Kafka, a JVM that starts fast, and the clock."""
        options, classes = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC", class_archive()
        if classes is not None and classes.exists():
            options += f" -XX:SharedArchiveFile={classes}"
        return {"TIDEGATE_JARS": str(kafka_jars()), "SPARK_SUBMIT_OPTS": options, **self.clock.environment}

    def faults(self) -> tuple[Fault, ...]:
        """The faults that this machine permits."""
        own_disk = faults.WITH_OWN_DISK if os.path.ismount(self.disk) else ()
        own_clock = faults.WITH_OWN_CLOCK if self.clock.works else ()
        return faults.ALWAYS + own_disk + own_clock

    def await_agreement(self, seconds: float) -> list[str]:
        """Wait until all views and sinks are as they must be; otherwise, what is wrong."""
        deadline = time.monotonic() + seconds
        while wrong := self._wrong():
            if time.monotonic() > deadline:
                return wrong
            time.sleep(0.5)
        return []

    def _wrong(self) -> list[str]:
        """The first kind of thing that is wrong: sinks are looked at before views, which need a query each."""
        written = self.load.written
        orders = observed.orders(self.postgres, self.database)
        right = {
            "windows": expected.windows(written),
            "hops": expected.hops(written),
            "visits": expected.visits(written),
            "pairs": expected.pairs(written),
            "regions": expected.regions(orders),
            "sectors": expected.sectors(orders, written),
        }
        enriched: expected.Rows = Counter()
        for name, content in observed.sinks(self.broker, self.postgres, self.database, self.disk):
            if name == "enriched":
                enriched = content
                wrong = expected.wrong_lookups(content, written)
            else:
                wrong = differences(right[name], content)
            if wrong:
                return [f"the sink of {name}:", *wrong]
        views = {name: (right.get(name, enriched), columns) for name, columns in VIEWS.items()}
        for name, number in self.extras.items():
            views[name] = expected.extra(number, orders, written), EXTRAS[number].columns
        try:
            reader = self._read()
            for name, (rows, columns) in views.items():
                if wrong := differences(rows, observed.view(reader, name, columns)):
                    return [f"the view {name}:", *wrong]
            if wrong := differences(expected.late_rows(written), observed.late_rows(reader)):
                return ["system.late_rows:", *wrong]
        except tidegate.Error as error:
            if error.code not in NOT_YET:
                raise
            return [str(error)]
        return []

    def _read(self) -> tidegate.Database:
        if self._reader is None:
            self._reader = tidegate.connect(self.disk / "data", spark=self._spark, read_only=True)
        return self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self.pipeline.close()


def differences(right: Counter[Any], found: Counter[Any]) -> list[str]:
    missing, extra = right - found, found - right
    lines = [f"  missing {count} x {row}" for row, count in list(missing.items())[:SHOWN]]
    lines += [f"  too much {count} x {row}" for row, count in list(extra.items())[:SHOWN]]
    if lines:
        lines.append(f"  {missing.total()} missing and {extra.total()} too much, of {right.total()}")
    return lines


@contextlib.contextmanager
def open_world(folder: Path, spark: Any, seed: int) -> Iterator[World]:
    """Servers, a disk and proxies for one run in a folder."""
    with contextlib.ExitStack() as stack:
        for name in ("kafka", "postgres", "disk"):
            (folder / name).mkdir()
        stack.enter_context(_own_disk(folder / "disk"))
        broker = Broker(folder / "kafka")
        to_broker = stack.enter_context(proxy_of(broker.port))
        broker.settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{to_broker.port}"
        stack.callback(broker.stop)
        broker.start()
        postgres = stack.enter_context(postgres_server(folder / "postgres"))
        to_postgres = stack.enter_context(proxy_of(postgres.port))
        world = World(folder, folder / "disk", broker, postgres, [to_broker, to_postgres], spark, seed)
        stack.callback(world.close)
        yield world


@contextlib.contextmanager
def _own_disk(folder: Path) -> Iterator[None]:
    """Mount a small file system on a folder; without the right to do so, it stays a folder."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "none", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
