"""Avro schemas: those of columns, and a schema registry that keeps them by id."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import pyarrow as pa
from pydantic import Field

from tidegate.core.option_models import SECRET, Aliases, OptionModel
from tidegate.core.options import Bag
from tidegate.core.schema import Schema
from tidegate.core.secrets import masked
from tidegate.core.types import arrow_type
from tidegate.errors import Error, make
from tidegate.formats.contract import Layout

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

AvroSchema = Any
_RETRIES = 2
_TIMEOUT_SECONDS = 10
_NOT_FOUND = 404
_URLS = ("schema.registry", "schema.registry.url", "avro_confluent.url", "avro_confluent.schema_registry.url")
_MARK = re.compile(r"schema registry at (\S+) failed: ([^\n]*)")


class UnknownSchema(LookupError):
    """The registry answers, but has no such schema: the record cannot be read, and a retry does not help."""


class RegistryFailed(RuntimeError):
    """The registry does not answer, or denies access: the step is repeated."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"schema registry at {url} failed: {why}")


class Schemas(Hashable, Protocol):
    """A store of schemas. It is sent to workers, so it can be pickled, and is a key of caches, so it can be hashed."""

    def by_id(self, number: int) -> AvroSchema:
        """Return the JSON document of a schema; raise `UnknownSchema` if there is none."""
        ...

    def register(self, subject: str, schema: AvroSchema) -> int:
        """Register a schema under a subject and return its id, which is the same for every call."""
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
        """Wrap an error of the client (HTTP, sockets, TLS), none of which contains the address."""
        why = " ".join(str(error).split()) or type(error).__name__
        hidden = why.replace(self.password, "***") if self.password else why
        return RegistryFailed(masked("url", self.url), hidden)


class RegistryOptions(OptionModel):
    """Which registry has the schemas."""

    schema_registry_url: Annotated[str, Aliases(*_URLS)] = Field(
        description="Address of the schema registry.", examples=["http://localhost:8081"]
    )
    schema_registry_user: Annotated[str | None, Aliases("schema.registry.username")] = Field(
        None, description="User name at the registry."
    )
    schema_registry_password: Annotated[str | None, Aliases("schema.registry.password")] = Field(
        None, description="Password at the registry.", json_schema_extra=SECRET
    )


def registry_of(bag: Bag) -> Registry:
    """Take the options of a registry out of the bag."""
    options = RegistryOptions.take(bag)
    url, user, password = options.schema_registry_url, options.schema_registry_user, options.schema_registry_password
    return Registry(url.rstrip("/"), user, password)


def failure(text: str) -> Error | None:
    """Return the error to show for a step that failed with this text, None if the registry is not the cause."""
    match = _MARK.search(text)
    if match is None:
        return None
    return make(
        "PIPELINE_FAILED",
        message=f"the schema registry at {match[1]} cannot be asked",
        detail=match[2].strip() or None,
        hint="start it, or correct schema_registry_url, schema_registry_user and schema_registry_password",
    )


@lru_cache(maxsize=64)
def _client(registry: Registry) -> SchemaRegistryClient:
    """One client per registry and process, which caches connections and schemas."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    settings: dict[str, Any] = {"url": registry.url, "max.retries": _RETRIES, "timeout": _TIMEOUT_SECONDS}
    if registry.user is not None:
        settings["basic.auth.user.info"] = f"{registry.user}:{registry.password or ''}"
    return SchemaRegistryClient(settings)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = "tidegate"
_SIMPLE: dict[pa.DataType, AvroSchema] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("ns"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("us", tz="UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.duration("us"): "long",
    pa.null(): "null",
}


def record(name: str, columns: Schema) -> AvroSchema:
    """Return the schema of a record with these columns. A nullable column is a union with null, which is its default,
    so that columns can be added and dropped."""
    return _record(name, [(c.name, arrow_type(c.type), c.nullable) for c in columns])


def envelope(columns: Schema) -> AvroSchema:
    """Return the schema of a Debezium envelope."""
    source = {"type": "record", "name": "Source", "fields": [{"name": "step", "type": "long"}]}
    fields = [
        {"name": "before", "type": ["null", record("Value", columns)], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
    ]
    return {"type": "record", "name": "Envelope", "namespace": _NAMESPACE, "fields": fields}


def tagged(columns: Schema) -> AvroSchema:
    """Return the schema of a row with its op, weight and step."""
    fields = [
        {"name": "op", "type": "string"},
        {"name": "weight", "type": "long"},
        {"name": "step", "type": "long"},
        {"name": "row", "type": record("Value", columns)},
    ]
    return {"type": "record", "name": "Change", "namespace": _NAMESPACE, "fields": fields}


def reject_names(layout: Layout, bag: Bag) -> None:
    """Reject names that Avro cannot have: it allows letters, digits and underscores."""
    seen: set[str] = set()
    for name in _all_names(layout.columns):
        if not _NAME.fullmatch(name):
            message = f"Avro cannot have a column named {name}: only letters, digits and _ are allowed"
            raise make("INVALID_OPTION", message=message, hint="rename it in a view, with AS", span=bag.span)
    for column in layout.columns:
        if column.name in seen:
            message = f"Avro cannot have two columns named {column.name}"
            raise make("INVALID_OPTION", message=message, hint="rename one in a view, with AS", span=bag.span)
        seen.add(column.name)


def _all_names(columns: Schema) -> list[str]:
    all_names = [c.name for c in columns]
    for column in columns:
        all_names += _field_names(arrow_type(column.type))
    return all_names


def _field_names(type_: Any) -> list[str]:
    if isinstance(type_, pa.StructType):
        return [name for f in type_.fields for name in (f.name, *_field_names(f.type))]
    if isinstance(type_, pa.MapType):
        return _field_names(type_.key_type) + _field_names(type_.item_type)
    return _field_names(type_.value_type) if isinstance(type_, pa.ListType) else []


def _record(name: str, fields: list[tuple[str, Any, bool]]) -> AvroSchema:
    schemas = [_field(name, *field) for field in fields]
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": schemas}


def _field(record_name: str, name: str, type_: Any, nullable: bool) -> dict[str, Any]:
    schema = _type(f"{record_name}_{name}", type_)
    if not nullable or schema == "null":
        return {"name": name, "type": schema}
    return {"name": name, "type": ["null", schema], "default": None}


def _type(name: str, type_: Any) -> AvroSchema:
    """Return the schema of a type. Nested records are named by their path; maps without string keys are lists."""
    if pa.types.is_decimal(type_):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if isinstance(type_, pa.StructType):
        return _record(name, [(f.name, f.type, f.nullable) for f in type_.fields])
    if isinstance(type_, pa.MapType):
        items = _optional(_type(f"{name}_value", type_.item_type))
        if pa.types.is_string(type_.key_type):
            return {"type": "map", "values": items}
        entry = _record(f"{name}_entry", [("key", type_.key_type, False), ("value", type_.item_type, True)])
        return {"type": "array", "items": entry}
    if isinstance(type_, pa.ListType):
        return {"type": "array", "items": _optional(_type(f"{name}_element", type_.value_type))}
    return _SIMPLE[type_]


def _optional(schema: AvroSchema) -> AvroSchema:
    return schema if schema == "null" else ["null", schema]
