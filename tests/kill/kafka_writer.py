"""A Kafka sink that writes steps for ever, to be killed.

Each step gives every key of the writer one row with the number of the step. It goes on after the last step that the
sink has."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from tidegate.connectors.contract import SinkContext, SinkSpec
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.connectors.kafka.transactions import DeliveryError
from tidegate.core.options import Bag
from tidegate.core.schema import Column

KEYS = 100
COLUMNS = (Column("k", "int"), Column("step", "bigint"))


def table(writer: int, step: int) -> pa.Table:
    fixed = [["+I"] * KEYS, [1] * KEYS, [step] * KEYS]
    return pa.table([*fixed, keys(writer), [step] * KEYS], names=["op", "weight", "step", "k", "n"])


def keys(writer: int) -> list[int]:
    return list(range(writer * KEYS, writer * KEYS + KEYS))


def sink_of(address: str, topic: str, folder: Path, writer: int) -> KafkaSink:
    options = {"brokers": address, "topic": topic, "key": "k"}
    bag = Bag("KAFKA", [(name, value, None) for name, value in options.items()])
    sink = KafkaSink.build(SinkSpec("KAFKA", "out", COLUMNS, options, "json"), bag)
    sink.open(SinkContext("out", folder / str(writer), f"pipeline {writer} of {topic}"))
    return sink


def write_for_ever(address: str, topic: str, folder: Path, writer: int, journal: Connection) -> None:
    """Sends the number of each step when it is written, and before that the number of the step it goes on after.

    What a killed process asked of Kafka last may reach it after this process began, and shuts this one out: like a
    pipeline, it then tries again.
    """
    sink = sink_of(address, topic, folder, writer)
    step = sink.last_step() or 0
    journal.send(step)
    while True:
        try:
            sink.write(step + 1, table(writer, step + 1))
        except DeliveryError as error:
            assert "fenced" in str(error), error
            continue
        step += 1
        journal.send(step)
