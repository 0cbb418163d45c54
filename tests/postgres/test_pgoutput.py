"""Messages of the plugin pgoutput, byte by byte."""

from __future__ import annotations

import struct

import pytest

from tidegate.connectors.postgres.events import Shape, encoder, json_payload
from tidegate.connectors.postgres.pgoutput import (
    EPOCH_US,
    UNCHANGED,
    Begin,
    Change,
    Commit,
    Table,
    TableColumn,
    Truncate,
    decode,
)
from tidegate.connectors.postgres.replication import lsn_text, parse_lsn, reached_by_stream

OID = 3_000_000_000


def row(*values: str | None) -> bytes:
    """A tuple as pgoutput encodes it; `~` stands for a value that is not sent (unchanged TOAST)."""
    cells = (
        b"n" if v is None else b"u" if v == "~" else b"t" + struct.pack(">I", len(v.encode())) + v.encode()
        for v in values
    )
    return struct.pack(">H", len(values)) + b"".join(cells)


def test_transactions() -> None:
    assert decode(b"B" + struct.pack(">qqI", 5, 7, 4_000_000_000)) == Begin(5, 7 + EPOCH_US, 4_000_000_000)
    assert decode(b"C" + struct.pack(">bqqq", 0, 5, 9, 7)) == Commit(5, 9)
    for other in (b"O" + struct.pack(">q", 1) + b"origin\0", b"Y" + bytes(8), b"M" + bytes(20)):
        assert decode(other) is None


def test_rows() -> None:
    head = struct.pack(">I", OID)
    assert decode(b"..I" + head + b"N" + row("1", None, "żółw", ""), 2) == Change(
        "INSERT", OID, ["1", None, "żółw", ""]
    )
    assert decode(b"U" + head + b"N" + row("1", "~")) == Change("UPDATE", OID, ["1", UNCHANGED])
    assert decode(b"U" + head + b"K" + row("1", None) + b"N" + row("2", "b")) == Change(
        "UPDATE", OID, ["2", "b"], ["1", None], False
    )
    assert decode(b"U" + head + b"O" + row("1", "a") + b"N" + row("1", "~")) == Change(
        "UPDATE", OID, ["1", UNCHANGED], ["1", "a"], True
    )
    assert decode(b"D" + head + b"K" + row("1", None)) == Change("DELETE", OID, None, ["1", None], False)
    assert decode(b"D" + head + b"O" + row("1", "a")) == Change("DELETE", OID, None, ["1", "a"], True)
    assert decode(b"T" + struct.pack(">IbII", 2, 1, 7, OID)) == Truncate((7, OID))


def test_tables() -> None:
    columns = b"\x01id\0" + struct.pack(">Ii", 23, -1) + b"\x00two words\0" + struct.pack(">Ii", OID, 8)
    message = b"R" + struct.pack(">I", OID) + b"sales\0items\0d" + struct.pack(">H", 2) + columns
    assert decode(message) == Table(
        OID, "sales", "items", "d", (TableColumn("id", 23, True), TableColumn("two words", OID, False))
    )


@pytest.mark.parametrize("wrong", [b"Z", b"I" + bytes(4) + b"N\x00\x01b" + bytes(4)])
def test_unknown_messages_are_errors(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="is not one of pgoutput's"):
        decode(wrong)


def test_log_sequence_numbers() -> None:
    assert parse_lsn("16/B374D848") == 0x16_B374D848
    assert lsn_text(0x16_B374D848) == "16/B374D848"
    assert [reached_by_stream(place) for place in (8192, 8192 + 24, 8192 + 40, 8192 + 48, 8191)] == [
        8192,
        8192,
        8192,
        8240,
        8191,
    ]


def test_payloads() -> None:
    table = Table(OID, "public", "t", "d", (TableColumn("id", 23, True), TableColumn('a"b', 25, False)))
    shape = Shape(table, [encoder(23), encoder(25)])
    assert shape.channel == "pgcdc:t"
    assert shape.payload(Change("UPDATE", OID, ["1", UNCHANGED], ["2", None])) == (
        '{"op":"UPDATE","table":"t","row":{"id":1},"old":{"id":2},"missing":["a\\"b"]}'
    )
    assert shape.payload(Change("DELETE", OID, None, ["2", None])) == (
        '{"op":"DELETE","table":"t","row":null,"old":{"id":2}}'
    )
    assert shape.truncated() == '{"op":"TRUNCATE","table":"t","row":null,"old":null}'


@pytest.mark.parametrize(
    ("oid", "depth", "text", "json"),
    [
        (1700, 0, "-0.10", "-0.10"),
        (1700, 0, "NaN", '"NaN"'),
        (701, 0, "-Infinity", '"-Infinity"'),
        (701, 0, "1e-07", "1e-07"),
        (1184, 0, "0044-03-15 12:00:00+00 BC", '"0044-03-15 12:00:00+00 BC"'),
        (1184, 0, "12024-05-01 00:00:00.5+00", '"12024-05-01T00:00:00.5Z"'),
        (1184, 1, '{"2024-05-01 00:00:00+00",NULL}', '["2024-05-01T00:00:00Z",null]'),
        (16, 1, "[2:3]={t,f}", "[true,false]"),
        (25, 1, "{}", "[]"),
        (25, 1, '{"{",a}', '["{","a"]'),
        (17, 0, "\\x", '""'),
        (114, 0, '{\r\n"a":\n"b\\n"}', '{  "a": "b\\n"}'),
        (600, 0, "(1,2)", '"(1,2)"'),
    ],
)
def test_values_as_json(oid: int, depth: int, text: str, json: str) -> None:
    assert encoder(oid, depth)(text) == json


def test_texts_as_payloads() -> None:
    assert [json_payload(text) for text in ('{"a": 1}', "5", "", "NaN", 'say "hi"')] == [
        '{"a": 1}',
        "5",
        '{"payload":""}',
        '{"payload":"NaN"}',
        '{"payload":"say \\"hi\\""}',
    ]
