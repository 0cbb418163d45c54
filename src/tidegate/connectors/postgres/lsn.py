"""Places in the server's log of changes (WAL): numbers here, `16/B374D848` for people."""

from __future__ import annotations

PAGE = 8192
_LONGEST_PAGE_HEADER = 40


def parse_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def reached_by_stream(insert: int) -> int:
    """The place that a stream is at once it has sent all before an insert position. At the beginning of a page that
    position is already behind the page's header, where the stream only comes with the next record."""
    within = insert % PAGE
    return insert - within if within <= _LONGEST_PAGE_HEADER else insert
