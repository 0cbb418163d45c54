"""Formats by the names that users write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.options import Bag, checked_format
from tidegate.core.schema import names
from tidegate.errors import Error, Span, did_you_mean, enumerated, make
from tidegate.formats.avro import AvroKeyed, AvroReader
from tidegate.formats.avro_schema import Registry, registry_of, reject_names
from tidegate.formats.avro_writer import AvroKeys, AvroWriter
from tidegate.formats.contract import ChangeReader, ChangeWriter, Decoder, Encoder, KeyWriter, Layout, Reader, Writer
from tidegate.formats.debezium import DebeziumDecoder, DebeziumEncoder
from tidegate.formats.envelopes import OpsEncoder, PlainDecoder, PlainEncoder, UpsertDecoder, UpsertEncoder
from tidegate.formats.fields import UNITS, Times, times_of
from tidegate.formats.json import JsonReader, JsonWriter
from tidegate.formats.keys import JsonKeys, NoKeys, RawKeys, TextKeys
from tidegate.formats.text import CsvOptions, CsvReader, CsvWriter, RawReader, RawWriter, reject_nested, reject_others

_ENCODINGS = ("json", "avro", "csv", "raw")
_CHANGE_ENCODINGS = ("json", "avro")
_SPELLINGS: dict[str, tuple[str, str | None]] = {
    "json": ("plain", "json"),
    "avro": ("plain", "avro"),
    "avro-confluent": ("plain", "avro"),
    "csv": ("plain", "csv"),
    "raw": ("plain", "raw"),
    "plain": ("plain", None),
    "upsert": ("upsert", None),
    "upsert-json": ("upsert", "json"),
    "upsert-avro": ("upsert", "avro"),
    "debezium": ("debezium", None),
    "debezium-json": ("debezium", "json"),
    "debezium-avro": ("debezium", "avro"),
    "debezium-avro-confluent": ("debezium", "avro"),
}
_OF_SINKS: dict[str, tuple[str, str | None]] = {
    "ops": ("ops", None),
    "ops-json": ("ops", "json"),
    "ops-avro": ("ops", "avro"),
}


@dataclass(frozen=True)
class _Chosen:
    """An envelope and an encoding."""

    envelope: str
    encoding: str


def decoder(layout: Layout, format: str | None, bag: Bag, keyed: bool) -> Decoder:
    """Return the decoder of a format. Takes its options out of the bag and leaves those of the caller. Key columns that
    are not in the records are ignored: a transport may fill them."""
    chosen = _chosen(format, bag, _SPELLINGS)
    layout = replace(layout, key=tuple(name for name in layout.key if name in names(layout.columns)))
    if chosen.envelope == "debezium":
        return DebeziumDecoder(layout, _change_reader(layout, chosen.encoding, bag), keyed)
    if chosen.envelope == "upsert" and not keyed:
        message = f"format upsert needs a key, but {layout.relation} has no PRIMARY KEY"
        raise make("INVALID_OPTION", message=message, hint="declare one, or write format = 'json'", span=bag.span)
    if keyed:
        return UpsertDecoder(layout, _reader(layout, chosen.encoding, bag))
    return PlainDecoder(layout, _reader(layout, chosen.encoding, bag))


def encoder(layout: Layout, format: str | None, bag: Bag, subject: str | None = None) -> Encoder:
    """Return the encoder of a format. `subject` (a topic) names its schemas in a registry, unless an option does; the
    relation does without either."""
    chosen = _chosen(format, bag, _SPELLINGS | _OF_SINKS)
    if chosen.encoding == "avro":
        reject_names(layout, bag)
        registry, named = registry_of(bag), bag.text("subject", subject) or layout.relation
        avro = AvroWriter(layout, registry, named)
        return _encoder(layout, chosen, bag, avro, avro, (registry, named))
    text = JsonWriter()
    writer = text if chosen.encoding == "json" else _text_writer(layout, chosen.encoding, bag)
    return _encoder(layout, chosen, bag, writer, text, None)


def _encoder(
    layout: Layout,
    chosen: _Chosen,
    bag: Bag,
    writer: Writer,
    change_writer: ChangeWriter,
    schemas: tuple[Registry, str] | None,
) -> Encoder:
    columns = _key_columns(layout, bag)
    key = _key_writer(layout, columns, bag, schemas)
    match chosen.envelope:
        case "plain":
            return PlainEncoder(layout, writer, key)
        case "upsert" if not columns:
            message = f"format upsert needs a key, and what {layout.relation} is fed by has none"
            hint = "SELECT the key in the view, or write format = 'debezium' or 'ops', which need none"
            raise make("SINK_CANNOT_TAKE", message=message, hint=hint, span=bag.span)
        case "upsert":
            return UpsertEncoder(layout, writer, key)
        case "ops":
            return OpsEncoder(layout, change_writer, key)
    return DebeziumEncoder(layout, change_writer, key, bool(columns))


def _chosen(format: str | None, bag: Bag, spellings: dict[str, tuple[str, str | None]]) -> _Chosen:
    """Parse a format: an envelope and an encoding in one name, or in a name and the option `encode`."""
    folded = None if format is None else format.strip().casefold().replace("_", "-")
    name = checked_format(bag, folded, list(spellings), "json" if folded is None else None)
    envelope, encoding = spellings[name]
    allowed = _ENCODINGS if envelope == "plain" else _CHANGE_ENCODINGS
    at = bag.span_of("encode")
    option = bag.choice("encode", allowed)
    if option is not None and encoding not in (None, option) and format is not None:
        message = f"format {name} is {encoding}, but option 'encode' says {option}"
        raise make("INVALID_OPTION", message=message, hint=f"write format = '{envelope}', or leave it out", span=at)
    return _Chosen(envelope, option or encoding or "json")


def _reader(layout: Layout, encoding: str, bag: Bag) -> Reader:
    if encoding == "avro":
        return _avro_reader(layout, bag, "s")
    times = times_of(bag) if encoding == "json" else _text_times(bag, encoding)
    key = _text_keys(layout, times, bag, ("json", "raw", "avro"))
    reader = _text_reader(layout, encoding, bag, times, key)
    if key.format == "avro":
        return AvroKeyed(reader, registry_of(bag), times.unit, key.columns)
    return reader


def _text_reader(layout: Layout, encoding: str, bag: Bag, times: Times, key: TextKeys) -> Reader:
    if encoding == "csv":
        reject_nested(layout, bag)
        return CsvReader(layout, CsvOptions.take(bag), times, key)
    if encoding == "raw":
        reject_others(layout, bag)
        return RawReader(layout, key)
    return JsonReader(layout, times, key)


def _change_reader(layout: Layout, encoding: str, bag: Bag) -> ChangeReader:
    if encoding == "avro":
        return _avro_reader(layout, bag, "us", has_key=False)
    times = times_of(bag, unit="us", day_numbers=True)
    return JsonReader(layout, times, TextKeys(layout, times))


def _avro_reader(layout: Layout, bag: Bag, unit: str, has_key: bool = True) -> AvroReader:
    times = Times(bag.choice("timestamp_unit", UNITS, unit) or unit)
    key = (
        _text_keys(layout, times, bag, ("avro", "json", "raw"))
        if has_key
        else TextKeys(Layout(layout.relation, ()), times)
    )
    return AvroReader(layout, registry_of(bag), times.unit, key)


def _text_times(bag: Bag, encoding: str) -> Times:
    if encoding == "raw":
        return Times()
    return Times(timestamp_format=bag.text("timestamp_format"), date_format=bag.text("date_format"))


def _text_keys(layout: Layout, times: Times, bag: Bag, allowed: Sequence[str]) -> TextKeys:
    """Only relations with a key read the key of a record."""
    chosen = bag.choice("key_format", allowed) if layout.key else None
    if chosen == "raw" and len(layout.key) > 1:
        message = f"key_format 'raw' is for a single key column, but {layout.relation} has {len(layout.key)}"
        raise make("INVALID_OPTION", message=message, hint="leave it out, or write key_format = 'json'", span=bag.span)
    return TextKeys(layout, times, chosen)


def _text_writer(layout: Layout, encoding: str, bag: Bag) -> Writer:
    if encoding == "raw":
        reject_others(layout, bag)
        return RawWriter()
    reject_nested(layout, bag)
    return CsvWriter(CsvOptions.take(bag))


def _key_columns(layout: Layout, bag: Bag) -> tuple[str, ...]:
    """The option `key`, else the key of the layout."""
    at = bag.span_of("key")
    option = bag.text("key")
    if option is None:
        return layout.key
    chosen = tuple(part.strip() for part in option.split(",") if part.strip())
    known = {name.casefold(): name for name in names(layout.columns)}
    for name in chosen:
        if name.casefold() not in known:
            message = f"option 'key' names column {name}, which {layout.relation} does not have"
            raise make("INVALID_OPTION", message=message, hint=did_you_mean(name, names(layout.columns)), span=at)
    return tuple(known[name.casefold()] for name in chosen)


def _key_writer(layout: Layout, columns: tuple[str, ...], bag: Bag, schemas: tuple[Registry, str] | None) -> KeyWriter:
    allowed = ("avro", "json", "raw") if schemas is not None else ("json", "raw")
    at = bag.span_of("key_format")
    chosen = bag.choice("key_format", allowed, allowed[0])
    if not columns:
        return NoKeys()
    indexes = tuple(names(layout.columns).index(name) for name in columns)
    if chosen == "avro" and schemas is not None:
        return AvroKeys(tuple(layout.columns[index] for index in indexes), indexes, *schemas)
    if chosen == "json":
        return JsonKeys(indexes)
    if len(indexes) > 1:
        raise _single_only(columns, at)
    return RawKeys(indexes[0])


def _single_only(columns: tuple[str, ...], at: Span | None) -> Error:
    message = f"key_format 'raw' is for a single column, but the key is {enumerated(columns, 'and')}"
    return make("INVALID_OPTION", message=message, hint="write key_format = 'json', or key = 'column'", span=at)
