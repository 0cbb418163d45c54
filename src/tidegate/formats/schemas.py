"""Schemas by their ids: a schema registry with Confluent's interface."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.options import Bag
from tidegate.core.secrets import masked
from tidegate.errors import Error, make

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

AvroSchema = Any
_RETRIES = 2
_TIMEOUT_SECONDS = 10
_NOT_FOUND = 404
_MARK = re.compile(r"schema registry at (\S+) failed: ([^\n]*)")


class UnknownSchema(LookupError):
    """The registry is there, and has no such schema: a record that cannot be read, however often it is tried."""


class RegistryFailed(RuntimeError):
    """The registry does not answer, or does not let us in: the step must be repeated."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"schema registry at {url} failed: {why}")


class Schemas(Hashable, Protocol):
    """Where schemas are kept. It is sent to workers, so it can be pickled; it can be hashed, for they are remembered
    by it."""

    def by_id(self, number: int) -> AvroSchema:
        """A schema as its JSON says; `UnknownSchema` if there is none."""
        ...

    def register(self, subject: str, schema: AvroSchema) -> int:
        """The id of a schema under a subject, the same one however often it is asked."""
        ...


@dataclass(frozen=True)
class Registry:
    """A schema registry on the network."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def by_id(self, number: int) -> AvroSchema:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            text = _client(self).get_schema(number).schema_str
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                raise UnknownSchema(f"schema {number} is not in the registry") from None
            raise self._failed(error) from None
        except Exception as error:
            raise self._failed(error) from None
        return json.loads(text or "null")

    def register(self, subject: str, schema: AvroSchema) -> int:
        from confluent_kafka.schema_registry import Schema

        try:
            return int(_client(self).register_schema(subject, Schema(json.dumps(schema), "AVRO")))
        except Exception as error:
            raise failure(str(self._failed(error))) or self._failed(error) from None

    def _failed(self, error: Exception) -> RegistryFailed:
        """The client's own errors are many (of HTTP, of sockets, of TLS); none of them says the address."""
        why = " ".join(str(error).split()) or type(error).__name__
        hidden = why.replace(self.password, "***") if self.password else why
        return RegistryFailed(masked("url", self.url), hidden)


def registry_of(bag: Bag) -> Registry:
    """Takes the options of a registry out of the bag."""
    aliases = ("schema.registry", "schema.registry.url", "avro_confluent.url", "avro_confluent.schema_registry.url")
    return Registry(
        url=bag.required("schema_registry_url", "http://localhost:8081", aliases).rstrip("/"),
        user=bag.text("schema_registry_user", aliases=("schema.registry.username",)),
        password=bag.text("schema_registry_password", aliases=("schema.registry.password",)),
    )


def failure(text: str) -> Error | None:
    """The error for the user when a step failed with this text because of the registry."""
    found = _MARK.search(text)
    if found is None:
        return None
    return make(
        "PIPELINE_FAILED",
        message=f"the schema registry at {found[1]} cannot be asked",
        detail=found[2].strip() or None,
        hint="start it, or correct schema_registry_url, schema_registry_user and schema_registry_password",
    )


@lru_cache(maxsize=64)
def _client(registry: Registry) -> SchemaRegistryClient:
    """One client for each registry in a process: it keeps its connections and the schemas it has seen."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    settings: dict[str, Any] = {"url": registry.url, "max.retries": _RETRIES, "timeout": _TIMEOUT_SECONDS}
    if registry.user is not None:
        settings["basic.auth.user.info"] = f"{registry.user}:{registry.password or ''}"
    return SchemaRegistryClient(settings)
