"""Parameters: `?` and `:name` stand for values that are bound when a statement runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Span, make
from tidegate.sql.cursor import Cursor, word
from tidegate.sql.spans import span_of
from tidegate.sql.statements import Script

STATEMENTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "(", "INSERT", "UPDATE", "DELETE", "ADVANCE"})
"""The first words of statements that take parameters: all others are stored as text, or take no values."""
POSITIONAL = "positional"
NAME_PARTS = (exp.Table, exp.TableAlias, exp.Column, exp.Identifier)


@dataclass(frozen=True)
class Parameter:
    """One `?` or `:name`. `name` is the name in the rendered SQL; that of a `?` is unique in its script."""

    name: str
    positional: bool
    span: Span


def read_parameter(parser: Cursor) -> exp.Placeholder | None:
    """The parameter that begins with the `?` or `:` just read; None for a `:` that is not followed by a name."""
    first: Token = parser._prev
    positional = first.token_type == TokenType.PLACEHOLDER
    if not positional:
        name = parser.here
        if name is None or name.start != first.end + 1 or not name.text.isidentifier():
            return None
        parser._advance()
    _check_statement(parser, parser.since(first))
    node = exp.Placeholder(this=f"p{first.start}" if positional else parser._prev.text)
    node.meta[POSITIONAL] = positional
    return parser.mark_since(node, first)


def _check_statement(parser: Cursor, span: Span) -> None:
    statement = word(parser._tokens[0])
    if statement not in STATEMENTS:
        stored = "write the value itself: a definition is stored as its text" if statement == "CREATE" else None
        parser.fail(f"{statement} takes no parameters", hint=stored, span=span)


def parameters(script: Script) -> list[Parameter]:
    """The parameters of a script in the order of its text."""
    by_span = {}
    for tree in _trees(script.statements):
        for node in tree.find_all(exp.Placeholder):
            span = span_of(node) or Span(0, 0)
            if _is_name(node):
                message = "a parameter stands for a value, not for a name"
                raise make("SYNTAX_ERROR", message=message, hint="write the name itself", span=span, text=script.text)
            by_span[span] = Parameter(node.name, node.meta[POSITIONAL], span)
    return [parameter for _, parameter in sorted(by_span.items())]


def _is_name(node: exp.Placeholder) -> bool:
    after_dot = isinstance(node.parent, exp.Dot) and node.arg_key == "expression"
    return after_dot or isinstance(node.parent, NAME_PARTS) or node.arg_key == "alias"


def _trees(part: object) -> Iterator[exp.Expr]:
    """The expressions of a statement, whichever fields they are in."""
    if isinstance(part, exp.Expr):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from _trees(each)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _trees(getattr(part, field.name))
