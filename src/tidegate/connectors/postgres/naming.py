"""Names as SQL has them."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
concurrently constraint create cross current_catalog current_date current_role current_schema current_time
current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from
full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime
localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning
right select session_user similar some symmetric system_user table tablesample then to trailing true union unique user
using variadic verbose when where window with
"""
_RESERVED = frozenset(_WORDS.split())


def quoted(*names: str) -> str:
    """`public.orders`, `"Big Corp"."order"`: in quotes where they are needed."""
    return ".".join(name if _PLAIN.fullmatch(name) and name not in _RESERVED else _in_quotes(name) for name in names)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
