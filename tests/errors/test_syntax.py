"""Syntax errors: the whole text, caret included."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tidegate.errors import Error
from tidegate.sql import parse


def error_text(text: str) -> str:
    with pytest.raises(Error) as caught:
        parse(text)
    return str(caught.value)


def check(sql: str, expected: str) -> None:
    assert error_text(dedent(sql).strip("\n")) == dedent(expected).strip("\n")


def test_an_unknown_emit_strategy() -> None:
    check(
        """
        CREATE MATERIALIZED VIEW v AS
          SELECT item, SUM(price) FROM bids
          GROUP BY item EMIT SOMETIMES;
        """,
        """
        SYNTAX_ERROR: EMIT cannot be followed by SOMETIMES
          line 3:  GROUP BY item EMIT SOMETIMES;
                                 ^^^^^^^^^^^^^^
          hint: write EMIT ON WATERMARK, ON UPDATE, EVERY INTERVAL '10' SECOND, ON WINDOW CLOSE, CHANGES or FINAL
        """,
    )


def test_an_incomplete_emit() -> None:
    check(
        "SELECT a FROM bids EMIT ON WINDOW",
        """
        SYNTAX_ERROR: EMIT ON WINDOW must be followed by CLOSE
          line 1:  SELECT a FROM bids EMIT ON WINDOW
                                      ^^^^^^^^^^^^^^
          hint: write EMIT ON WINDOW CLOSE
        """,
    )


def test_an_emit_on_something_else() -> None:
    check(
        "SELECT a FROM bids EMIT ON TUESDAY",
        """
        SYNTAX_ERROR: EMIT ON must be followed by WATERMARK, UPDATE or WINDOW CLOSE, not TUESDAY
          line 1:  SELECT a FROM bids EMIT ON TUESDAY
                                      ^^^^^^^^^^^^^^^
          hint: write EMIT ON WATERMARK, ON UPDATE, EVERY INTERVAL '10' SECOND, ON WINDOW CLOSE, CHANGES or FINAL
        """,
    )


def test_a_duration_without_a_unit() -> None:
    check(
        "SELECT a FROM bids EMIT EVERY 5",
        """
        SYNTAX_ERROR: EMIT EVERY must be followed by a duration, not 5
          line 1:  SELECT a FROM bids EMIT EVERY 5
                                                 ^
          hint: write INTERVAL '10' SECOND, or short: 10s, 1h30m, 500ms
        """,
    )


def test_an_unknown_unit_of_time() -> None:
    check(
        "SELECT a FROM bids EMIT EVERY INTERVAL '5' SECCOND",
        """
        SYNTAX_ERROR: there is no unit of time SECCOND
          line 1:  SELECT a FROM bids EMIT EVERY INTERVAL '5' SECCOND
                                                 ^^^^^^^^^^^^^^^^^^^^
          hint: did you mean SECOND?
        """,
    )


def test_emit_inside_a_query() -> None:
    check(
        "SELECT * FROM (SELECT a FROM bids EMIT CHANGES) x",
        """
        SYNTAX_ERROR: EMIT belongs at the end of the whole query, not inside it
          line 1:  SELECT * FROM (SELECT a FROM bids EMIT CHANGES) x
                                                     ^^^^^^^^^^^^
          hint: make the inner query a view of its own, with its own EMIT
        """,
    )


def test_emit_twice() -> None:
    check(
        "SELECT a FROM bids EMIT CHANGES EMIT FINAL",
        """
        SYNTAX_ERROR: EMIT is given twice
          line 1:  SELECT a FROM bids EMIT CHANGES EMIT FINAL
                                                   ^^^^^^^^^^
        """,
    )


def test_a_misspelt_statement() -> None:
    check(
        "SELECT 1;\nSELCT a FROM bids",
        """
        SYNTAX_ERROR: no statement begins with SELCT
          line 2:  SELCT a FROM bids
                   ^^^^^
          hint: did you mean SELECT?
        """,
    )


def test_a_misspelt_clause() -> None:
    check(
        "SELECT a FROM bids WHER price > 5",
        """
        SYNTAX_ERROR: unexpected price
          line 1:  SELECT a FROM bids WHER price > 5
                                           ^^^^^
          hint: did you mean WHERE for WHER?
        """,
    )


def test_an_unterminated_string() -> None:
    check(
        "SELECT a\nFROM bids WHERE b = 'x AND c = 1",
        """
        SYNTAX_ERROR: this string is never closed
          line 2:  FROM bids WHERE b = 'x AND c = 1
                                       ^^^^^^^^^^^^
          hint: add the closing '
        """,
    )


def test_an_unterminated_comment() -> None:
    check(
        "SELECT a FROM bids; /* SELECT 2",
        """
        SYNTAX_ERROR: this comment is never closed
          line 1:  SELECT a FROM bids; /* SELECT 2
                                       ^^^^^^^^^^^
          hint: add the closing */
        """,
    )


def test_an_unclosed_parenthesis() -> None:
    check(
        "SELECT (a + 1 FROM bids",
        """
        SYNTAX_ERROR: expected ) before FROM
          line 1:  SELECT (a + 1 FROM bids
                                 ^^^^
        """,
    )


def test_an_operator_without_its_right_side() -> None:
    check(
        "SELECT a FROM bids WHERE a >",
        """
        SYNTAX_ERROR: something is missing after >, at the end of the statement
          line 1:  SELECT a FROM bids WHERE a >
                                               ^
        """,
    )


def test_an_extra_comma() -> None:
    check(
        "SELECT a, b, FROM bids",
        """
        SYNTAX_ERROR: something is missing after this comma, before FROM
          line 1:  SELECT a, b, FROM bids
                              ^
        """,
    )


def test_a_missing_alias() -> None:
    check(
        "SELECT a AS, b FROM bids",
        """
        SYNTAX_ERROR: something is missing after AS, before ,
          line 1:  SELECT a AS, b FROM bids
                            ^^
        """,
    )


def test_between_without_and() -> None:
    check(
        "SELECT a FROM bids WHERE a BETWEEN 1 2",
        """
        SYNTAX_ERROR: expected AND before 2
          line 1:  SELECT a FROM bids WHERE a BETWEEN 1 2
                                                        ^
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT FROM t",
        "SELECT , a FROM t",
        "SELECT f(, a) FROM t",
        "SELECT a FROM t GROUP BY HAVING a",
        "SELECT a,, b FROM t",
    ],
)
def test_gaps(text: str) -> None:
    assert error_text(text).startswith("SYNTAX_ERROR: something is missing after")


def test_two_statements_without_a_semicolon() -> None:
    check(
        "SELECT a FROM bids\nSELECT b FROM bids",
        """
        SYNTAX_ERROR: unexpected SELECT
          line 2:  SELECT b FROM bids
                   ^^^^^^
          hint: statements are separated by ;
        """,
    )


def test_group_without_by() -> None:
    check(
        "SELECT a FROM bids GROUP a",
        """
        SYNTAX_ERROR: unexpected a
          line 1:  SELECT a FROM bids GROUP a
                                            ^
          hint: write GROUP BY
        """,
    )


def test_an_unknown_type() -> None:
    check(
        "CREATE TABLE t (a INT,\n  b STRNG)",
        """
        SYNTAX_ERROR: there is no type STRNG
          line 2:  b STRNG)
                     ^^^^^
          hint: did you mean STRING?
        """,
    )


def test_a_cast_to_an_unknown_type() -> None:
    check(
        "SELECT CAST(a AS TIMESTMP) FROM t",
        """
        SYNTAX_ERROR: there is no type TIMESTMP
          line 1:  SELECT CAST(a AS TIMESTMP) FROM t
                                    ^^^^^^^^
          hint: did you mean TIMESTAMP?
        """,
    )


def test_columns_without_a_comma() -> None:
    check(
        "CREATE TABLE t (a INT b INT)",
        """
        SYNTAX_ERROR: expected , or ) or NOT NULL, PRIMARY KEY, LATENESS d or WATERMARK d, not b
          line 1:  CREATE TABLE t (a INT b INT)
                                         ^
        """,
    )


def test_a_watermark_of_another_expression() -> None:
    check(
        "CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS now())",
        """
        SYNTAX_ERROR: the watermark of ts must be ts or ts - INTERVAL ...
          line 1:  CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS now())
                                                                      ^^^^^
          hint: write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        """,
    )


def test_options_without_a_comma() -> None:
    check(
        "CREATE TABLE t (a INT) WITH ('append_only' = 'true' 'x' = 'y')",
        """
        SYNTAX_ERROR: expected , or ) after append_only = ..., not x
          line 1:  CREATE TABLE t (a INT) WITH ('append_only' = 'true' 'x' = 'y')
                                                                       ^^^
        """,
    )


def test_create_something_unknown() -> None:
    check(
        "CREATE TABEL t (a INT)",
        """
        SYNTAX_ERROR: CREATE must be followed by SOURCE, STREAM, TABLE, VIEW, MATERIALIZED VIEW or SINK, not TABEL
          line 1:  CREATE TABEL t (a INT)
                          ^^^^^
          hint: did you mean TABLE?
        """,
    )


def test_a_table_from_a_query() -> None:
    check(
        "CREATE TABLE t AS SELECT 1 AS a",
        """
        NOT_SUPPORTED: a table is not made from a query
          line 1:  CREATE TABLE t AS SELECT 1 AS a
                                  ^^
          hint: write CREATE MATERIALIZED VIEW t AS SELECT ...
        """,
    )


def test_a_long_line_is_shown_in_part() -> None:
    columns = ", ".join(f"column_{n}" for n in range(30))
    text = error_text(f"SELECT {columns} FROM t WHER x > 1")
    _, line, caret, _ = text.splitlines()
    assert len(line) < 130
    assert line[caret.index("^")] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN b INT",
        "TRUNCATE TABLE t",
        "MERGE INTO t USING u ON a = b",
        "USE x",
        "GRANT a TO b",
        "$",
    ],
)
def test_statements_of_other_systems_are_rejected(text: str) -> None:
    assert error_text(text).startswith("SYNTAX_ERROR: no statement begins with")


def test_a_join_with_nothing_before_it() -> None:
    check(
        "CREATE MATERIALIZED VIEW v AS SELECT * JOIN clicks ON a = b",
        """
        SYNTAX_ERROR: this join has nothing before it
          line 1:  CREATE MATERIALIZED VIEW v AS SELECT * JOIN clicks ON a = b
                                                               ^^^^^^^^^^^^^^^
          hint: write FROM a JOIN b ON ...
        """,
    )


def test_a_hexadecimal_literal_with_other_characters() -> None:
    check(
        "SELECT X'zz' AS c FROM bids",
        """
        SYNTAX_ERROR: this literal has characters that are no digits
          line 1:  SELECT X'zz' AS c FROM bids
                          ^^^^^
          hint: X'1F' takes the digits 0-9 and A-F, B'01' takes 0 and 1
        """,
    )


def test_parentheses_nested_too_deeply() -> None:
    text = error_text(f"SELECT {'(' * 3000}1{')' * 3000} FROM bids")
    assert text.startswith("SYNTAX_ERROR: this statement is nested too deeply\n")
    assert text.endswith("hint: write parts of it as views, or as WITH name AS (...)")


def test_an_invisible_character_is_shown_by_its_number() -> None:
    check(
        "CREATE SINK s FROM v INTO FILE (path = 'x'\u200b FORMAT JSON",
        """
        SYNTAX_ERROR: expected , or ) after path = ..., not U+200B
          line 1:  CREATE SINK s FROM v INTO FILE (path = 'x'\u200b FORMAT JSON
                                                             ^
        """,
    )
