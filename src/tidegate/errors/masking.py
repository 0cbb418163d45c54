"""SQL as it may be shown: secrets are starred out token by token, also in text that is no statement.

The text keeps its length, so that spans still point at their places. Two degrees:

    mask_sql      statements that can be read: the values of secret options, and secret parts of other texts
    mask_broken   text of an error: in statements with options also every text that is not the value of an option
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tidegate.errors.secrets import REFERENCES, is_secret, secret_parts

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<string>'(?:[^'\\]|\\.|'')*(?:'|\\?\Z) | "(?:[^"\\]|\\.|"")*(?:"|\\?\Z))
      | (?P<name>`[^`]*(?:`|\Z))
      | (?P<word>[^\W\d](?:[\w.]|-(?!-))*)
      | (?P<number>\d(?:[\w.]|-(?!-))*)
      | (?P<sign>\S)""",
    re.DOTALL | re.VERBOSE,
)
_WITHOUT_OPTIONS = re.compile(
    r"(SELECT|INSERT|DELETE|UPDATE|VALUES|EXPLAIN|SHOW|DESC|DESCRIBE|DROP|SUBSCRIBE|ADVANCE|LATENESS|SET|REFRESH|WITH"
    r"|FROM|CREATE\s+(OR\s+REPLACE\s+)?(MATERIALIZED\s+)?VIEW)\b|\(|$",
    re.IGNORECASE,
)
_OPTION_LIST = re.compile(
    r"\b(FROM|INTO)\s+(DATAGEN|FILES?|FILESYSTEM|KAFKA|NOTIFY|OUTBOX|POSTGRES\w*|REDIS|SSE|STDOUT|WEBHOOK|HTTP)\b"
    r"|\bconnector\b|\bCREATE\s+(OR\s+REPLACE\s+)?(SOURCE|SINK)\b",
    re.IGNORECASE,
)
_LITERALS = frozenset(
    {"INTERVAL", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "DATE", "STEP", "METADATA", "WATERMARK", "LATENESS"}
    | {"AS", "BACK", "BY", "DEFAULT", "COMMENT", "FROM"}
)
"""Words before a text that is no option."""

_PREFIXES = frozenset({"R", "B", "X", "N", "E"})
_KEYWORDS = re.compile(
    r"(CREATE|OR|REPLACE|SOURCE|SINK|STREAM|TABLE|VIEW|MATERIALIZED|IF|NOT|EXISTS|FROM|INTO|WITH|FORMAT|ENCODE|AS|SELECT"
    r"|WHERE|DATAGEN|FILES?|KAFKA|NOTIFY|OUTBOX|POSTGRES|REDIS|SSE|STDOUT|WEBHOOK|PRIMARY|KEY|INT|BIGINT|STRING|DOUBLE"
    r"|TIMESTAMP|BOOLEAN|WATERMARK|FOR|INTERVAL|SECOND|PLAIN|JSON|CSV|RAW|AVRO|PARQUET|DEBEZIUM|UPSERT)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def is_text(self) -> bool:
        return self.kind in ("string", "name")

    @property
    def content(self) -> str:
        """The text without its quotes."""
        return self.text[1:-1] if self.is_closed else self.text[1:] if self.is_text else self.text

    @property
    def content_start(self) -> int:
        return self.start + (1 if self.is_text else 0)

    @property
    def is_closed(self) -> bool:
        return self.is_text and len(self.text) > 1 and self.text[-1] == self.text[0]


class Shown(str):
    """A text whose secrets are hidden already: errors show it as it is. `hidden`: what was hidden."""

    hidden: tuple[str, ...] = ()


Ranges = list[tuple[int, int]]


def mask_sql(text: str) -> str:
    """Statements with their secrets starred out."""
    return _star_out(text, _ranges(text, broken=False))


def mask_broken(text: str) -> tuple[str, list[str]]:
    """A text of which a part is no statement, with all that may be secret starred out; also what was."""
    ranges = _ranges(text, broken=True)
    return _star_out(text, ranges), [text[start:end] for start, end in ranges]


def mask_comments(text: str) -> str:
    """Statements with the secrets in their comments starred out."""
    comments = [token for token in _tokens(text) if token.kind == "comment"]
    return _star_out(text, [span for token in comments for span in _inside(token.text, token.start)])


def _star_out(text: str, ranges: Ranges) -> str:
    characters = list(text)
    for start, end in ranges:
        characters[start:end] = ["*" if sign != "\n" else sign for sign in characters[start:end]]
    return "".join(characters)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        yield _Token(str(match.lastgroup), match[0], match.start())


def _ranges(text: str, broken: bool) -> Ranges:
    ranges: Ranges = []
    statement: list[_Token] = []
    for token in _tokens(text):
        if token.text == ";":
            ranges += _of_statement(statement, text, broken)
            statement = []
        else:
            statement.append(token)
    return sorted(ranges + _of_statement(statement, text, broken))


def _inside(text: str, offset: int) -> Ranges:
    return [(offset + start, offset + end) for start, end in secret_parts(text)]


def _of_statement(tokens: list[_Token], text: str, broken: bool) -> Ranges:
    everything, tokens = tokens, [token for token in tokens if token.kind != "comment"]
    whole = text[tokens[0].start : tokens[-1].start + len(tokens[-1].text)] if tokens else ""
    has_options = not _WITHOUT_OPTIONS.match(whole) or _OPTION_LIST.search(whole) is not None
    strict = broken and has_options
    if strict and _lacks_quote(tokens):
        return _all_words(everything)
    comments = [token for token in everything if token.kind == "comment"]
    ranges = [span for token in comments for span in _in_comment(token, strict)]
    return ranges + _Statement(tokens, has_options, strict).ranges()


def _in_comment(comment: _Token, strict: bool) -> Ranges:
    """The secrets in a comment; all of one that is never closed."""
    if strict and comment.text.startswith("/*") and not comment.text.endswith("*/"):
        return [(comment.start + 2, comment.start + len(comment.text))]
    return _inside(comment.text, comment.start)


def _lacks_quote(tokens: list[_Token]) -> bool:
    """True if a text is never closed, or touches a word: a quote is missing before it."""
    if tokens[-1].is_text and not tokens[-1].is_closed:
        return True
    pairs = [(left, right) for left, right in pairwise(tokens) if left.start + len(left.text) == right.start]
    return any(
        (left.kind == "string" and right.kind in ("word", "number"))
        or (right.kind == "string" and left.kind in ("word", "number") and left.text.upper() not in _PREFIXES)
        for left, right in pairs
    )


def _all_words(tokens: list[_Token]) -> Ranges:
    """A quote is missing somewhere, so what looks like a name may be a value: everything but keywords."""
    return [
        (token.content_start, token.content_start + len(token.content))
        for token in tokens
        if token.kind != "sign" and not _KEYWORDS.fullmatch(token.text)
    ]


class _Statement:
    """The tokens of one statement, without comments. `strict`: a text is secret unless it is clear what it is."""

    def __init__(self, tokens: list[_Token], has_options: bool, strict: bool) -> None:
        self._tokens, self._has_options, self._strict = tokens, has_options, strict
        self._depths = list(_option_depths(tokens))

    def ranges(self) -> Ranges:
        result: Ranges = []
        for index, token in enumerate(self._tokens):
            if token.kind == "sign" or (token.kind == "name" and self._follows(index)):
                continue
            if self._is_hidden(index):
                result.append((token.content_start, token.content_start + len(token.content)))
            elif token.is_text:
                result += _inside(token.content, token.content_start)
        return [(start, end) for start, end in result if start < end]

    def _is_hidden(self, index: int) -> bool:
        token = self._tokens[index]
        if REFERENCES.fullmatch(token.content):
            return False
        key, distance = self._key(index)
        if key is not None and is_secret(key):
            return token.is_text or self._has_options
        bare = token.kind != "string" and (not self._depths[index] or _KEYWORDS.fullmatch(token.text))
        if not self._strict or bare:
            return False
        if self._follows(index) or (key is not None and distance == 1):
            return False
        before = self._tokens[index - 1].text.upper() if index else ""
        return before not in _LITERALS and not (self._depths[index] == 0 and before in ("<", ">", "+", "-"))

    def _follows(self, index: int) -> bool:
        """True if `=` follows: the token is the name of an option."""
        return index + 1 < len(self._tokens) and self._tokens[index + 1].text == "="

    def _key(self, index: int) -> tuple[str | None, int]:
        """The name before `=` of which a token is (a part of) the value, and the number of signs `=`."""
        at, signs = index - 1, 0
        while at >= 0 and not (signs and self._tokens[at].text != "="):
            token = self._tokens[at]
            if token.text == "=":
                signs += 1
            elif token.text in (",", "(", ")") or (not self._has_options and not token.is_text):
                return None, 0
            at -= 1
        if at < 0 or not signs or self._tokens[at].kind not in ("word", "string", "name"):
            return None, signs
        adjacent = self._tokens[index - 1].text == "="
        return self._tokens[at].content, signs if adjacent else signs + 1


def _option_depths(tokens: list[_Token]) -> Iterator[int]:
    """How deep each token is in the parentheses of options; 0 outside."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.text == "(":
            opens = index > 0 and tokens[index - 1].text.upper() == "WITH"
            opens = opens or (index > 1 and tokens[index - 2].text.upper() in ("FROM", "INTO", "FORMAT", "ENCODE"))
            depth += 1 if depth or opens else 0
        elif token.text == ")" and depth:
            depth -= 1
        yield depth
