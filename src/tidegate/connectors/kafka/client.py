"""What is asked of the brokers directly."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from tidegate.errors import make

if TYPE_CHECKING:
    from tidegate.connectors.kafka.options import ReadOptions

SECONDS = 20.0
LOGGER = logging.getLogger("tidegate.kafka")
LOGGER.addHandler(logging.NullHandler())


def partitions(options: ReadOptions) -> dict[str, list[int]] | None:
    """The partitions of every topic that is read. None: this client does not understand the options that are meant for
    Spark's (a trust store of Java, say), so it cannot ask."""
    kafka = library()
    given = {**client_settings(options.client), "bootstrap.servers": options.brokers}
    try:
        client = kafka.Consumer({"group.id": options.group or "tidegate", **given}, logger=LOGGER)
    except kafka.KafkaException:
        return None
    try:
        topics = client.list_topics(timeout=SECONDS).topics
    except kafka.KafkaException as failure:
        raise make(
            "PIPELINE_FAILED",
            message=f"no Kafka broker answers at {options.brokers}",
            detail=str(failure.args[0].str()),
            hint="check that it runs and that brokers = '...' is right, then start again",
        ) from None
    finally:
        client.close()
    pattern = re.compile(options.pattern) if options.pattern else None
    wanted = [name for name in topics if name in options.topics or (pattern and pattern.fullmatch(name))]
    return {name: sorted(topics[name].partitions) for name in wanted}


def client_settings(given: Any) -> dict[str, str]:
    """Settings in the words of librdkafka: a login module's configuration becomes a user and a password."""
    found = dict(given)
    jaas = found.pop("sasl.jaas.config", None)
    if jaas is not None:
        for name in ("username", "password"):
            said = re.search(rf'{name}="([^"]*)"', jaas)
            if said:
                found.setdefault(f"sasl.{name}", said[1])
    return found


def library() -> Any:
    """confluent-kafka, or an error that says how to get it."""
    try:
        import confluent_kafka
    except ImportError:
        raise make(
            "CONNECTOR_JARS",
            name="KAFKA",
            jars="the Python package confluent-kafka",
            hint="pip install 'tidegate[kafka]'",
        ) from None
    return confluent_kafka
