"""The servers of the tests, as processes on loopback. `make servers` starts them by hand."""

from tests.servers.fetch import FetchError, kafka_jars, server_files
from tests.servers.kafka import Broker, Record, kafka_broker
from tests.servers.processes import free_port, listening, wait_until
from tests.servers.registry import Registry, schema_registry
from tests.servers.shared import shared
from tests.servers.spark import WORKERS, SparkCluster, spark_cluster

__all__ = [
    "WORKERS",
    "Broker",
    "FetchError",
    "Record",
    "Registry",
    "SparkCluster",
    "free_port",
    "kafka_broker",
    "kafka_jars",
    "listening",
    "schema_registry",
    "server_files",
    "shared",
    "spark_cluster",
    "wait_until",
]
