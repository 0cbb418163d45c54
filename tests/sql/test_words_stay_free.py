"""EMIT, WATERMARK, STEP and the others are keywords only in their clauses."""

from __future__ import annotations

import pytest

from tests.sql.reading import one, query, rerender
from tidegate.sql import clauses, parse, render
from tidegate.sql.statements import CreateRelation, CreateView

WORDS = ["emit", "watermark", "lateness", "step", "source", "sink", "advance", "stream", "changes", "final", "every"]
CLAUSE_WORDS = ["allowed", "allow", "late", "event", "tumbling", "sliding", "session", "within", "of"]


@pytest.mark.parametrize("word", WORDS + CLAUSE_WORDS)
def test_as_a_column(word: str) -> None:
    assert render(query(f"SELECT {word}, t.{word} FROM t WHERE {word} > 1 ORDER BY {word}").select) == (
        f"SELECT {word}, t.{word} FROM t WHERE {word} > 1 ORDER BY {word}"
    )


@pytest.mark.parametrize("word", WORDS + CLAUSE_WORDS)
def test_as_an_alias_of_a_column(word: str) -> None:
    assert query(f"SELECT a {word}, b AS {word} FROM t").select.named_selects == [word, word]


@pytest.mark.parametrize("word", WORDS + CLAUSE_WORDS)
def test_as_an_alias_of_a_relation(word: str) -> None:
    text = f"SELECT {word}.a FROM t {word} JOIN u ON {word}.a = u.a WHERE {word}.b"
    assert render(query(text).select) == f"SELECT {word}.a FROM t AS {word} JOIN u ON {word}.a = u.a WHERE {word}.b"


@pytest.mark.parametrize("word", WORDS + CLAUSE_WORDS)
def test_as_an_alias_at_the_end(word: str) -> None:
    parsed = query(f"SELECT 1 FROM t {word}")
    assert parsed.emit is None
    assert render(parsed.select) == f"SELECT 1 FROM t AS {word}"


@pytest.mark.parametrize("word", WORDS + CLAUSE_WORDS)
def test_as_a_relation_or_function(word: str) -> None:
    assert render(query(f"SELECT a FROM {word}").select) == f"SELECT a FROM {word}"
    assert rerender(f"{word}(a, 1)") == f"{word}(a, 1)"


@pytest.mark.parametrize("word", [*WORDS, *CLAUSE_WORDS, "primary", "when", "format", "with", "key"])
def test_as_a_declared_column(word: str) -> None:
    create = one(CreateRelation, f"CREATE TABLE t (a INT, {word} STRING, b INT)")
    assert [c.name.text for c in create.columns] == ["a", word, "b"]


@pytest.mark.parametrize("word", WORDS)
def test_as_the_name_of_a_view(word: str) -> None:
    assert one(CreateView, f"CREATE VIEW {word} AS SELECT a FROM t").name.text == word


def test_emit_as_an_alias_of_a_joined_relation() -> None:
    text = "SELECT a FROM t JOIN u emit ON update = t.a EMIT ON UPDATE"
    parsed = query(text)
    assert render(parsed.select) == "SELECT a FROM t JOIN u AS emit ON update = t.a"
    assert parsed.emit is not None and parsed.emit.strategy == "on_update"


def test_emit_as_alias_and_clause_at_once() -> None:
    parsed = query("SELECT emit FROM t emit EMIT CHANGES")
    assert render(parsed.select) == "SELECT emit FROM t AS emit"
    assert parsed.emit is not None and parsed.emit.strategy == "changes"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'EMIT FINAL' AS a FROM t",
        "SELECT a FROM t -- EMIT CHANGES",
        "SELECT a /* EMIT CHANGES; */ FROM t",
        "SELECT a FROM t WHERE b = 'x; EMIT FINAL'",
        'SELECT "EMIT FINAL" AS a FROM t',
        "SELECT a AS `EMIT FINAL` FROM t",
        "SELECT a FROM t `EMIT`",
    ],
)
def test_in_strings_comments_and_quoted_names(text: str) -> None:
    assert query(text).emit is None


def test_semicolons_in_strings_and_comments_do_not_end_a_statement() -> None:
    script = parse("SELECT ';' AS a; -- one; two\nSELECT 1 /* ; */ AS b;;")
    assert [statement.text for statement in script.statements] == ["SELECT ';' AS a", "SELECT 1 /* ; */ AS b"]


def test_keywords_in_any_case() -> None:
    parsed = query("select a from t group by a Emit On Window Close allowed Lateness 5s")
    assert parsed.emit is not None and parsed.emit.strategy == "on_window_close"
    assert parsed.allowed_lateness is not None


def test_a_session_alias_before_a_named_window() -> None:
    parsed = query("SELECT row_number() OVER w FROM t session WINDOW w AS (ORDER BY a)")
    assert clauses(parsed.select).window is None
    assert "FROM t AS session WINDOW w AS" in render(parsed.select)
