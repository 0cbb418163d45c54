"""Changes as the payloads of events: JSON, values as PostgreSQL has them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence

from tidegate.connectors.postgres.pgoutput import UNCHANGED, Cells, Change, Table
from tidegate.connectors.postgres.values import array_elements

Encode = Callable[[str], str]

_quoted = json.encoder.encode_basestring
_MOMENT = re.compile(r"\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+00)?")
_BOOL, _BYTEA, _TIMESTAMP, _TIMESTAMPTZ = 16, 17, 1114, 1184
_WHOLE, _REAL, _JSON = (20, 21, 23, 26), (700, 701, 1700), (114, 3802)


def _plain(text: str) -> str:
    return text


def _number(text: str) -> str:
    """NaN and infinity are no numbers of JSON."""
    return text if text[-1].isdigit() else _quoted(text)


def _truth(text: str) -> str:
    return "true" if text == "t" else "false"


def _json(text: str) -> str:
    """As it is, on one line: a line break in JSON can only stand between its parts."""
    return text.replace("\r", " ").replace("\n", " ") if "\n" in text or "\r" in text else text


def _moment(text: str) -> str:
    """RFC 3339, with Z if it has a zone; `infinity` and years BC stay as they are."""
    if not _MOMENT.fullmatch(text):
        return _quoted(text)
    return f'"{text.replace(" ", "T").replace("+00", "Z")}"'


def _binary(text: str) -> str:
    return f'"{base64.b64encode(bytes.fromhex(text[2:])).decode()}"'


_ENCODERS: Mapping[int, Encode] = {
    **dict.fromkeys(_WHOLE, _plain),
    **dict.fromkeys(_REAL, _number),
    **dict.fromkeys(_JSON, _json),
    _BOOL: _truth,
    _BYTEA: _binary,
    _TIMESTAMP: _moment,
    _TIMESTAMPTZ: _moment,
}


def encoder(base: int, depth: int = 0) -> Encode:
    """How values of a type are written: numbers, truth values and JSON as themselves, times in RFC 3339, bytes in base
    64, arrays (`depth` says that it is one) as arrays, anything else as text."""
    one = _ENCODERS.get(base, _quoted)
    return (lambda text: _array(text, one)) if depth else one


def _array(text: str, one: Encode) -> str:
    """An array of arrays has two braces at its beginning: in an element they would be quoted."""
    start = text.find("{")
    nested = text[start + 1 : start + 2] == "{"
    try:
        found = array_elements(text, nested)
    except ValueError:
        return _quoted(text)
    inner: Encode = (lambda element: _array(element, one)) if nested else one
    return "[" + ",".join("null" if element is None else inner(element) for element in found) + "]"


def json_payload(text: str) -> str:
    """A text as a payload: JSON as it is, any other as `{"payload": ...}`."""
    try:
        json.loads(text, parse_constant=_refused)
    except ValueError:
        return f'{{"payload":{_quoted(text)}}}'
    return _json(text)


def _refused(word: str) -> None:
    """NaN and Infinity are words of JavaScript."""
    raise ValueError(word)


class Shape:
    """How changes of one table are written, as its columns are now."""

    def __init__(self, table: Table, encoders: Sequence[Encode]) -> None:
        self.table = table
        self.shown = table.name if table.schema == "public" else f"{table.schema}.{table.name}"
        self.channel = f"pgcdc:{self.shown}"
        self._names = [_quoted(column.name) for column in table.columns]
        self._every = list(zip([f"{name}:" for name in self._names], encoders, strict=True))
        self._keys = [column.key for column in table.columns]
        self._heads = {
            op: f'{{"op":"{op}","table":{_quoted(self.shown)},"row":'
            for op in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
        }

    def payload(self, change: Change) -> str:
        """A change; `missing` names the columns whose values nobody has sent."""
        _, _, new, old, whole = change
        before = "null" if old is None else self._object(old) if whole else self._identity(old)
        if new is None:
            return f'{self._heads["DELETE"]}null,"old":{before}}}'
        if UNCHANGED in new:
            return self._partial(change, new, before)
        return f'{self._heads[change.op]}{self._object(new)},"old":{before}}}'

    def snapshot(self, row: Sequence[str | None]) -> str:
        """A row that was there at the beginning."""
        return f'{self._heads["INSERT"]}{self._object(list(row))},"old":null,"snapshot":true}}'

    def truncated(self) -> str:
        return f'{self._heads["TRUNCATE"]}null,"old":null}}'

    def _partial(self, change: Change, new: Cells, before: str) -> str:
        cells = filled(new, change.old)
        missing = [name for name, cell in zip(self._names, cells, strict=True) if cell is UNCHANGED]
        note = f',"missing":[{",".join(missing)}]' if missing else ""
        return f'{self._heads[change.op]}{self._object(cells)},"old":{before}{note}}}'

    def _object(self, cells: Cells) -> str:
        parts = [
            name + ("null" if cell is None else encode(cell))
            for (name, encode), cell in zip(self._every, cells, strict=True)
            if cell is not UNCHANGED
        ]
        return "{" + ",".join(parts) + "}"

    def _identity(self, cells: Cells) -> str:
        kept = [cell if key else UNCHANGED for cell, key in zip(cells, self._keys, strict=True)]
        return self._object(kept)


def filled(new: Cells, old: Cells | None) -> Cells:
    """A row with what was left as it was taken from the row before, as far as that has it: a value that is stored apart
    is never NULL, so NULL there means that it was not sent either."""
    if old is None or UNCHANGED not in new:
        return new
    return [before if cell is UNCHANGED and before is not None else cell for cell, before in zip(new, old, strict=True)]
