"""Secret options, which are masked in error texts and in SHOW CREATE."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(^|[._\-])(password|passwd|secret|token|credentials?|jaas\.config|authorization|cookie)$"
    r"|(^|[._\-])(api|access|secret|private|account|encryption|signing|shared)[._\-]?key$"
)
_IN_URL = re.compile(r"(://[^:/@\s']*:)([^@\s']+)(?=@)")
_IN_SQL = re.compile(r"""(['"`]?)([A-Za-z_][\w.\-]*)\1(\s*=\s*)'((?:[^']|'')*)'""")


def is_secret(key: str) -> bool:
    """`password`, `sasl.password`, `api_key`, `ssl.key.password`, ...; never a generated field that has such a name."""
    folded = key.casefold()
    return not folded.startswith("fields.") and _SECRET.search(folded) is not None


def masked(key: str, value: str) -> str:
    """The value of an option as it may be shown: `***` for a secret, URLs without their passwords."""
    return "***" if is_secret(key) else _IN_URL.sub(r"\1***", value)


def mask_sql(text: str) -> str:
    """A CREATE statement with its secrets starred out. Its length stays, so that spans still point at their places."""
    return _IN_SQL.sub(_star_out, text)


def _star_out(match: re.Match[str]) -> str:
    quote, key, equals, value = match.groups()
    hidden = "*" * len(value) if is_secret(key) else _IN_URL.sub(lambda m: m[1] + "*" * len(m[2]), value)
    return f"{quote}{key}{quote}{equals}'{hidden}'"
