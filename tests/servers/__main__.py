"""`python -m tests.servers` runs all servers until Ctrl-C; `python -m tests.servers fetch` only fetches their jars."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from tests.servers import FetchError, kafka_broker, kafka_jars, schema_registry, spark_cluster
from tests.servers.fetch import fetch_everything
from tests.servers.spark import WORKERS


def run_servers() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        jars = kafka_jars()
        cluster = stack.enter_context(spark_cluster(folder_in(folder, "spark")))
        broker = stack.enter_context(kafka_broker(folder_in(folder, "kafka")))
        registry = stack.enter_context(schema_registry(folder_in(folder, "registry")))
        print(f"Spark master with {WORKERS} workers: {cluster.url}")
        print(f"  tidegate run examples/shop.sql --master {cluster.url}")
        print(f"Kafka broker: {broker.address}")
        print(f"  export TIDEGATE_JARS={jars}   # Spark's Kafka connector")
        print(f"Schema registry: {registry.url}")
        print("Ctrl-C stops them", flush=True)
        signal.pause()


def folder_in(folder: Path, name: str) -> Path:
    subfolder = folder / name
    subfolder.mkdir()
    return subfolder


if __name__ == "__main__":
    try:
        fetch_everything() if sys.argv[1:] == ["fetch"] else run_servers()
    except FetchError as error:
        sys.exit(str(error))
