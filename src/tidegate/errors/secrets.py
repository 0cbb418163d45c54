"""What is secret: options by their names, parts of texts such as passwords in URLs, and values seen in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Lock
from urllib.parse import quote, unquote

_SECRET = re.compile(
    r"(^|[._\-])(password|passwd|passphrase|pwd|secret|token|credentials?|jaas[._\-]?config|authorization|cookie"
    r"|user[._\-]info|signature|keystore[._\-]key|ssl[._\-]key)$"
    r"|(api|access|secret|private|account|encryption|signing|shared)[._\-]?key$"
    r"|(?<!schema)(^|[._\-])key[._\-](pem|password)$"
    r"|[a-z](password|secret|token|credentials)$|^headers\."
)
_PARAMETERS = frozenset({"key", "sig", "auth", "code", "pass"})
"""Parameters of URLs that are secret there, although options of these names are not."""

_ODD = re.compile(r"['\"`]")
"""In the name of an option: quotes are missing or doubled, so nobody knows what it is."""

_SCHEME = re.compile(r"[A-Za-z][\w+.\-]*://")
_TEXT_END = re.compile(r"[\s'\"<>`]|$")
_PORT = re.compile(r"[^:@/?#]*:\d*(/|$)")
_PAIR = re.compile(r"(?<![\w.\-])([A-Za-z_][\w.\-]*)(\s*[=:]\s*|%3[dD])")
_QUERY = re.compile(r"(?<=[?&;])([A-Za-z_][\w.\-]*)=([^&#\s'\"]*)")
_REFERENCE = r"\$\{(?:[A-Za-z_]\w*(?::-)?|file:/[^{}]*|secret:[0-9a-f]+)\}"
REFERENCES = re.compile(rf"(?:(?:Basic|Bearer|Token|Digest|ApiKey) )?(?:{_REFERENCE})+")
"""A value that consists of references, after the name of a scheme of authorization: nothing in it is secret."""

SHORTEST = 8
"""Shorter secrets are not searched in texts: they may be words of any message."""

_declared: set[str] = set()
_known: dict[str, None] = {}
_lock = Lock()


def declare_secret(name: str) -> None:
    """Treat options of this name as secret, whatever the connector."""
    _declared.add(name.casefold().replace("-", "_"))


def is_secret(key: str) -> bool:
    """`password`, `sasl.password`, `api_key`, `headers.Authorization`, ...; never a generated field
    or a column of such a name."""
    folded = key.casefold()
    if folded.startswith(("fields.", "metadata.")):
        return False
    if _ODD.search(folded):
        return True
    return _SECRET.search(folded) is not None or folded.replace("-", "_") in _declared


def secret_parts(text: str) -> list[tuple[int, int]]:
    """Where a text contains secrets: passwords and parameters of URLs, and `password=...` as in connection strings."""
    opaque = re.sub(_REFERENCE, lambda match: "$" * len(match[0]), text) if "${" in text else text
    found = [span for span in _parts(opaque) if span[0] < span[1] and not REFERENCES.fullmatch(text[slice(*span)])]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _parts(text: str) -> Iterator[tuple[int, int]]:
    for scheme in _SCHEME.finditer(text):
        yield from _user_info(text, scheme)
    for query in _QUERY.finditer(text):
        if is_secret(query[1]) or query[1].casefold() in _PARAMETERS:
            yield query.span(2)
    for pair in _PAIR.finditer(text):
        if is_secret(pair[1]):
            yield _value(text, pair.end())


def _user_info(text: str, scheme: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The password of a URL ends at its last `@`: it may itself contain `@`, `/` and `:`."""
    start = scheme.end()
    match = _TEXT_END.search(text, start)
    end = match.start() if match else len(text)
    following = _SCHEME.search(text, start, end)
    if following and "@" not in text[following.start() : end]:
        end = following.start()
    before_query = text[start:end].partition("?")[0]
    if _PORT.match(text[start:end]) and "@" not in before_query:
        return
    at = text.rfind("@", start, end)
    if at < 0:
        return
    colon = text.find(":", start, at)
    if colon >= 0:
        yield colon + 1, at
    elif scheme[0].casefold().startswith("http"):
        yield start, at


def _value(text: str, start: int) -> tuple[int, int]:
    """Where a value begins and ends: at its closing quote, else at a blank or a separator."""
    quoted = re.compile(r"""\\?(["'])((?:[^\\]|\\.)*?)(?:\\?\1|\Z)""", re.DOTALL).match(text, start)
    if quoted:
        return quoted.span(2)
    plain = re.compile(r"(?:(?:Basic|Bearer|Token|Digest|ApiKey) )?[^\s&;,#'\")]*", re.IGNORECASE).match(text, start)
    return plain.span() if plain else (start, start)


def hide_parts(text: str, stars: str | None = None) -> str:
    """A text without its secret parts; `stars` stand for each, else as many as it has characters."""
    for start, end in reversed(secret_parts(text)):
        text = text[:start] + ("*" * (end - start) if stars is None else stars) + text[end:]
    return text


def masked(key: str, value: str) -> str:
    """The value of an option as it may be shown: `***` for a secret, URLs without their passwords, references as they
    are."""
    if is_secret(key):
        return value if REFERENCES.fullmatch(value) else "***"
    return hide_parts(value, "***")


def remember(key: str, value: str) -> None:
    """Remember the secrets in the value of an option, so that texts of libraries that repeat them can be cleaned."""
    parts = [value] if is_secret(key) else [value[start:end] for start, end in secret_parts(value)]
    parts += [value[start:end] for start, end in secret_parts(value)]
    with _lock:
        for part in parts:
            for spelling in (part, unquote(part), quote(part, safe="")):
                if len(spelling) >= SHORTEST:
                    _known[spelling] = None


def hide_known(text: str) -> str:
    """A text of a library or of the system without secrets: those of this process, and those in URLs."""
    with _lock:
        known = [secret for secret in _known if secret in text]
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, "***")
    return hide_parts(text, "***") if "://" in text else text
