"""Reads spec files: headings in column 0, their bodies indented, `#` for comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.core.durations import parse_micros
from tidegate.testing.spec import values
from tidegate.testing.spec.model import (
    Advance,
    Ask,
    Clock,
    Content,
    Emits,
    End,
    Item,
    Kind,
    Late,
    Rejected,
    Restart,
    Row,
    Rows,
    Spec,
    SpecSyntaxError,
    Sql,
    Step,
    Warned,
    Watermark,
)

KINDS = ("append", "upsert", "changelog")


@dataclass(frozen=True)
class Block:
    """A heading, split into its first word and the rest, and its indented lines with their numbers."""

    path: Path
    line: int
    word: str
    rest: str
    body: tuple[tuple[int, str], ...]

    def error(self, message: str, line: int | None = None, hint: str | None = None) -> SpecSyntaxError:
        return SpecSyntaxError(self.path, line or self.line, message, hint)


def read(path: Path) -> Spec:
    """Read a spec file."""
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text: str, path: Path = Path("<text>")) -> Spec:
    """Parse the text of a spec file. Line one is `# title`."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# ") or not lines[0][2:].strip():
        raise SpecSyntaxError(path, 1, "line one must be the title", "write `# What holds, in one sentence.`")
    items: list[Item] = []
    for block in _blocks(path, lines):
        if block.word in INPUTS:
            _add_to_step(block, items, INPUTS[block.word](block))
        elif block.word in ITEMS:
            items.append(ITEMS[block.word](block))
        else:
            raise block.error(f"unknown heading {block.word!r}", hint="headings: " + ", ".join([*ITEMS, *INPUTS]))
    return Spec(path, lines[0][2:].strip(), tuple(items))


def _blocks(path: Path, lines: list[str]) -> Iterator[Block]:
    heading: tuple[int, str] | None = None
    body: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0].isspace():
            if heading is None:
                raise SpecSyntaxError(path, number, "an indented line belongs to a heading, and there is none yet")
            body.append((number, line))
            continue
        if heading is not None:
            yield _block(path, heading, body)
        heading, body = (number, line.strip()), []
    if heading is not None:
        yield _block(path, heading, body)


def _block(path: Path, heading: tuple[int, str], body: list[tuple[int, str]]) -> Block:
    number, text = heading
    word, _, rest = text.partition(" ")
    return Block(path, number, word, rest.strip(), tuple(body))


def _add_to_step(block: Block, items: list[Item], input_: Rows | Advance) -> None:
    """Add rows or an advance to the last step. After a check that step has run, and nothing can be added."""
    last = items[-1] if items else None
    if not isinstance(last, Step):
        raise block.error(f"`{block.word} {block.rest}` is not inside a step", hint="begin one with `step TEXT`")
    items[-1] = replace(last, inputs=(*last.inputs, input_))


def _sql(block: Block) -> Sql:
    if not block.body:
        raise block.error("`sql` has no statements")
    return Sql(block.line, "\n".join(line for _, line in block.body))


def _kind(block: Block) -> Kind:
    view, kind = _words(block, 2, "kind VIEW append|upsert|changelog")
    if kind not in KINDS:
        raise block.error(f"{kind!r} is not a kind", hint="a kind is append, upsert or changelog")
    return Kind(block.line, view, kind)


def _step(block: Block) -> Step:
    _no_body(block)
    return Step(block.line, block.rest)


def _clock(block: Block) -> Clock:
    _no_body(block)
    duration = block.rest
    amount = parse_micros(duration.removeprefix("+")) if duration.startswith("+") else None
    if amount is None:
        raise block.error(f"{duration!r} is not a duration", hint="write it as +500ms, +10s or +1h30m")
    return Clock(block.line, f"clock {duration}", amount)


def _end(block: Block) -> End:
    _words(block, 0, "end")
    return End(block.line, "end")


def _restart(block: Block) -> Restart:
    _words(block, 0, "restart")
    return Restart(block.line)


def _rows_in(block: Block) -> Rows:
    (relation,) = _single_word(block, "> RELATION")
    return Rows(block.line, relation, tuple(_input_row(number, line.strip()) for number, line in block.body))


def _input_row(number: int, text: str) -> Row:
    sign, text = values.split_delete(text)
    tombstone, text = values.split_tombstone(text)
    return Row(number, values.split(text), sign, tombstone)


def _advance(block: Block) -> Advance:
    qualified, _, value = block.rest.partition(" ")
    relation, column = _column(block, qualified, "advance RELATION.column VALUE")
    return Advance(block.line, relation, column, _value(block, value))


def _emits(block: Block) -> Emits:
    (view,) = _single_word(block, "< VIEW")
    return Emits(block.line, view, tuple(_change(block, number, line.strip()) for number, line in block.body))


def _change(block: Block, number: int, text: str) -> Row:
    op, text = values.split_op(text)
    if not op:
        raise block.error("a change begins with its op", number, "write +I, -U, +U, -D, or a bare + or -")
    return Row(number, values.split(text), op)


def _content(block: Block) -> Content:
    (relation,) = _single_word(block, "= RELATION")
    return Content(block.line, relation, _plain_rows(block))


def _ask(block: Block) -> Ask:
    if not block.rest:
        raise block.error("`?` is followed by a query")
    return Ask(block.line, block.rest.rstrip(";"), _plain_rows(block))


def _plain_rows(block: Block) -> tuple[Row, ...]:
    return tuple(Row(number, values.split(line.strip())) for number, line in block.body)


def _late(block: Block) -> Late:
    relation, count = _words(block, 2, "late RELATION n")
    if not count.isdigit():
        raise block.error(f"{count!r} is not a number of rows")
    return Late(block.line, relation, int(count))


def _watermark(block: Block) -> Watermark:
    qualified, _, value = block.rest.partition(" ")
    relation, column = _column(block, qualified, "watermark RELATION.column VALUE")
    return Watermark(block.line, relation, column, _value(block, value))


def _rejected(block: Block) -> Rejected:
    return Rejected(block.line, *_statement(block))


def _warned(block: Block) -> Warned:
    return Warned(block.line, *_statement(block))


def _statement(block: Block) -> tuple[str, str, tuple[str, ...]]:
    (code,) = _single_word(block, f"{block.word} CODE")
    statement = [line for _, line in block.body if not line.strip().startswith("~")]
    texts = [line.strip()[1:].strip() for _, line in block.body if line.strip().startswith("~")]
    if not statement:
        raise block.error(f"`{block.word} {code}` has no statement")
    return code, "\n".join(statement), tuple(texts)


def _single_word(block: Block, usage: str) -> list[str]:
    words = block.rest.split()
    if len(words) != 1:
        raise block.error(f"expected `{usage}`")
    return words


def _words(block: Block, count: int, usage: str) -> list[str]:
    _no_body(block)
    words = block.rest.split()
    if len(words) != count:
        raise block.error(f"expected `{usage}`")
    return words


def _column(block: Block, text: str, usage: str) -> tuple[str, str]:
    _no_body(block)
    if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)+", text):
        raise block.error(f"expected `{usage}`")
    relation, _, column = text.rpartition(".")
    return relation, column


def _value(block: Block, text: str) -> str:
    if not text.strip():
        raise block.error(f"`{block.word}` needs a value")
    return text.strip()


def _no_body(block: Block) -> None:
    if block.body:
        raise block.error(f"`{block.word}` has no indented lines", block.body[0][0])


ITEMS: dict[str, Callable[[Block], Item]] = {
    "sql": _sql,
    "kind": _kind,
    "step": _step,
    "clock": _clock,
    "end": _end,
    "restart": _restart,
    "<": _emits,
    "=": _content,
    "?": _ask,
    "late": _late,
    "watermark": _watermark,
    "waterline": _watermark,
    "error": _rejected,
    "warning": _warned,
}
INPUTS: dict[str, Callable[[Block], Rows | Advance]] = {">": _rows_in, "advance": _advance}
