"""Splits a line of a spec file into cells: `a | 'x | y' | {"k": "v | w"}` has three."""

from __future__ import annotations

OPS = ("+I", "-U", "+U", "-D", "+", "-")


def split(text: str) -> tuple[str, ...]:
    """The cells between `|`, without blanks around them; quoted cells keep their quotes."""
    cells, position = [], 0
    while True:
        end = _end_of_cell(text, position)
        cells.append(text[position:end].strip())
        if end >= len(text):
            return tuple(cells)
        position = end + 1


def split_op(text: str) -> tuple[str, str]:
    """`+I a | 1` is the op `+I` and the rest; a line without an op has the empty one."""
    for op in OPS:
        if text == op or text.startswith(op + " "):
            return op, text[len(op) :].strip()
    return "", text


def split_delete(text: str) -> tuple[str, str]:
    """`- a | 1` deletes; `-1 | a` is a row with a negative number."""
    return ("-", text[2:].strip()) if text.startswith("- ") else ("", text)


def split_tombstone(text: str) -> tuple[bool, str]:
    """`a !` gives a key and is a tombstone."""
    return (True, text[:-2].strip()) if text.endswith(" !") else (False, text)


def _end_of_cell(text: str, start: int) -> int:
    first = len(text) - len(text[start:].lstrip())
    quote = {"'": "'", "{": '"', "[": '"'}.get(text[first : first + 1])
    if quote is None:
        return _or_end(text.find("|", start), text)
    inside = escaped = False
    for position in range(first, len(text)):
        letter = text[position]
        if escaped:
            escaped = False
        elif letter == "\\" and quote == '"' and inside:
            escaped = True
        elif letter == quote:
            inside = not inside
        elif letter == "|" and not inside:
            return position
    return len(text)


def _or_end(found: int, text: str) -> int:
    return len(text) if found < 0 else found
