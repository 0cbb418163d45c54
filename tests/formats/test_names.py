"""Names and options of formats."""

from __future__ import annotations

import pytest

from tests.formats.records import TRADES, bag, reading, writing
from tidegate.errors import Error
from tidegate.formats.avro import AvroReader
from tidegate.formats.avro_writer import AvroWriter
from tidegate.formats.contract import Layout
from tidegate.formats.debezium import DebeziumDecoder, DebeziumEncoder
from tidegate.formats.envelopes import OpsEncoder, PlainDecoder, PlainEncoder, UpsertDecoder, UpsertEncoder
from tidegate.formats.json import JsonReader
from tidegate.formats.names import decoder

URL = "http://localhost:8081"


@pytest.mark.parametrize(
    ("format", "options", "envelope", "encoding"),
    [
        (None, {}, PlainDecoder, JsonReader),
        ("JSON", {}, PlainDecoder, JsonReader),
        ("plain", {}, PlainDecoder, JsonReader),
        ("plain", {"encode": "avro", "schema_registry_url": URL}, PlainDecoder, AvroReader),
        (None, {"encode": "AVRO", "schema.registry": URL}, PlainDecoder, AvroReader),
        ("avro-confluent", {"avro-confluent.url": URL}, PlainDecoder, AvroReader),
        ("Debezium", {}, DebeziumDecoder, JsonReader),
        ("debezium", {"encode": "avro", "schema.registry.url": URL}, DebeziumDecoder, AvroReader),
        ("debezium_avro_confluent", {"schema.registry.url": URL}, DebeziumDecoder, AvroReader),
        ("debezium-avro", {"schema-registry-url": URL}, DebeziumDecoder, AvroReader),
    ],
)
def test_format_names_of_sources(format: str | None, options: dict[str, str], envelope: type, encoding: type) -> None:
    created = reading(TRADES, format, **options)
    assert type(created) is envelope
    assert type(created.reader) is encoding  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("format", "envelope", "is_avro"),
    [
        (None, PlainEncoder, False),
        ("avro", PlainEncoder, True),
        ("upsert-avro", UpsertEncoder, True),
        ("upsert", UpsertEncoder, False),
        ("debezium-avro", DebeziumEncoder, True),
        ("ops", OpsEncoder, False),
        ("OPS_AVRO", OpsEncoder, True),
    ],
)
def test_format_names_of_sinks(format: str | None, envelope: type, is_avro: bool) -> None:
    created = writing(TRADES, format, ["id"], **({"schema_registry_url": URL} if is_avro else {}))
    assert type(created) is envelope
    assert (type(created.writer) is AvroWriter) == is_avro  # type: ignore[attr-defined]


def test_with_a_key_plain_is_upsert() -> None:
    for format in ("json", "csv", "plain", "upsert"):
        assert isinstance(reading(TRADES, format, ["id"]), UpsertDecoder)


def error_of(format: str | None, is_sink: bool = False, primary: tuple[str, ...] = (), **options: str) -> Error:
    with pytest.raises(Error) as caught:
        (writing if is_sink else reading)(TRADES, format, primary, **options)
    return caught.value


def test_unknown_formats() -> None:
    error = error_of("debezum")
    assert (error.code, error.message) == ("UNKNOWN_FORMAT", "kafka has no format debezum")
    assert error.hint == "did you mean debezium?"
    assert error_of("ops").code == "UNKNOWN_FORMAT"
    assert "did you mean avro?" in str(error_of("arvo").hint)


def test_invalid_options() -> None:
    assert error_of("avro").code == "MISSING_OPTION"
    assert error_of("json", schema_registry_url=URL).code == "UNKNOWN_OPTION"
    assert error_of("debezium-json", encode="avro").message == (
        "format debezium-json is json, but option 'encode' says avro"
    )
    assert error_of("debezium", encode="csv").hint == "expected 'json' or 'avro'"
    assert error_of("json", timestamp_unit="m").hint == "expected 's', 'ms', 'us' or 'ns'"
    assert error_of("json", is_sink=True, key="id, nam").hint == "did you mean name?"
    assert error_of("json", is_sink=True, key="id,name", key_format="raw").message == (
        "key_format 'raw' is for a single column, but the key is id and name"
    )
    assert error_of("json", primary=("id", "name"), key_format="raw").code == "INVALID_OPTION"
    assert error_of("json", key_format="raw").code == "UNKNOWN_OPTION"


def test_options_that_are_not_of_the_format_stay_in_the_bag() -> None:
    options = bag(timestamp_unit="ms", topic="trades")
    decoder(Layout("trades", TRADES), "json", options, keyed=False)
    assert options.required("topic", "name") == "trades"
    options.finish()
