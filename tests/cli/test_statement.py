"""Where a statement ends while it is being typed, and what completes it."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tidegate.cli.completion import SqlCompleter
from tidegate.cli.statement import complete, pieces, without_comments


@pytest.mark.parametrize(
    "text", ["", "  ", "\\d", "\\d bids", "SELECT 1;", "SELECT ';';", "SELECT 1; -- done", "SELECT 'it''s'; /* x */"]
)
def test_enter_sends(text: str) -> None:
    assert complete(text)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT ';'", "SELECT 1 -- ;", "SELECT 1 /* ;", "SELECT '; ", "SELECT 1; SELECT 2", "`a;b`"]
)
def test_enter_begins_a_new_line(text: str) -> None:
    assert not complete(text)


def test_a_script_falls_into_statements_and_commands() -> None:
    script = "SELECT 1; \\d bids\n-- a comment;\nINSERT INTO t VALUES ('a;b');\n\\q\nSELECT 2"
    assert [piece.strip() for piece in pieces(script)] == [
        "SELECT 1;",
        "\\d bids",
        "-- a comment;\nINSERT INTO t VALUES ('a;b');",
        "\\q",
        "SELECT 2",
    ]


def test_comments_do_not_hide_the_first_word() -> None:
    assert without_comments("/* a */ -- b\nSELECT '-- c'").split() == ["SELECT", "'--", "c'"]


def completions(text: str) -> list[str]:
    completer = SqlCompleter(lambda: ["revenue", "orders", "price"])
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


def test_completes_relations_before_keywords() -> None:
    assert completions("SELECT * FROM re") == ["revenue", "replace"]


def test_completes_keywords_in_the_case_that_is_typed() -> None:
    assert completions("sel") == ["select"]
    assert completions("SEL") == ["SELECT"]


def test_completes_commands() -> None:
    assert completions("\\s") == ["\\step"]


def test_offers_nothing_before_a_word_begins() -> None:
    assert completions("SELECT ") == []
