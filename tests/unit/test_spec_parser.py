"""Spec files are parsed by their grammar, and a syntax error names its line."""

from pathlib import Path

import pytest

from tidegate.testing.spec import model
from tidegate.testing.spec.parser import parse

WHOLE = """\
# A late row within the allowed lateness corrects a result that is already out.

sql
  CREATE SOURCE bids (item STRING, price BIGINT, ts TIMESTAMP);
  CREATE MATERIALIZED VIEW v AS
    SELECT 1;

kind v changelog

step two rows, nothing closes
> bids
  a | 10 | 12:00:03
  # a comment line between rows
  - a | 5  | 12:00:07
  'x | y' |   -5 | NULL
> keyed
  a !
advance bids.ts 12:00:10
< v

clock +1h30m
< v
  +I 12:00:00 | a | 15
  - 12:00:00 | a | 15
= v
  12:00:00 | a | 115
? SELECT count(*) FROM v
  1
late bids 0
watermark bids.ts none
restart
end
error EMIT_NEEDS_WATERLINE
  CREATE MATERIALIZED VIEW broken AS
    SELECT item FROM bids EMIT FINAL;
  ~ GROUP BY item
  ~ second
warning HINT_IGNORED
  CREATE VIEW w AS SELECT 1
"""


def test_every_heading_is_read():
    spec = parse(WHOLE)
    assert spec.title == "A late row within the allowed lateness corrects a result that is already out."
    assert [type(item).__name__ for item in spec.items] == [
        *("Sql", "Kind", "Step", "Emits", "Clock", "Emits", "Content", "Ask"),
        *("Late", "Watermark", "Restart", "End", "Rejected", "Warned"),
    ]
    assert spec.runs == 3


def test_a_step_has_its_rows_in_order_over_all_relations():
    step = next(item for item in parse(WHOLE).items if isinstance(item, model.Step))
    bids, tombstones, advance = step.inputs
    assert isinstance(bids, model.Rows) and isinstance(tombstones, model.Rows)
    assert [(row.sign, row.cells) for row in bids.rows] == [
        ("", ("a", "10", "12:00:03")),
        ("-", ("a", "5", "12:00:07")),
        ("", ("'x | y'", "-5", "NULL")),
    ]
    assert [(row.tombstone, row.cells) for row in tombstones.rows] == [(True, ("a",))]
    assert advance == model.Advance(18, "bids", "ts", "12:00:10")


def test_changes_have_ops_and_statements_have_texts():
    spec = parse(WHOLE)
    emits = [item for item in spec.items if isinstance(item, model.Emits)]
    assert emits[0].rows == ()
    assert [row.sign for row in emits[1].rows] == ["+I", "-"]
    rejected = next(item for item in spec.items if isinstance(item, model.Rejected))
    assert rejected.code == "EMIT_NEEDS_WATERLINE"
    assert rejected.texts == ("GROUP BY item", "second")
    assert rejected.statement.strip().endswith("EMIT FINAL;")
    clock = next(item for item in spec.items if isinstance(item, model.Clock))
    assert clock.micros == 5_400_000_000


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("sql\n  SELECT 1", 1, "line one must be the title"),
        ("# t\n\n  floating", 3, "belongs to a heading"),
        ("# t\nstop", 2, "unknown heading 'stop'"),
        ("# t\n> bids\n  1", 2, "is not inside a step"),
        ("# t\nstep a\n< v\n> bids\n  1", 4, "is not inside a step"),
        ("# t\nstep a\n< v\n  a | 1", 4, "begins with its op"),
        ("# t\nsql", 2, "has no statements"),
        ("# t\nkind v sometimes", 2, "'sometimes' is not a kind"),
        ("# t\nclock 10s", 2, "'10s' is not a duration"),
        ("# t\nclock +10", 2, "'+10' is not a duration"),
        ("# t\nlate bids many", 2, "'many' is not a number"),
        ("# t\nstep a\nadvance bids 3", 3, "expected `advance RELATION.column VALUE`"),
        ("# t\nerror SYNTAX_ERROR\n  ~ only text", 2, "has no statement"),
        ("# t\nstep a\n  1 | 2", 3, "has no indented lines"),
        ("# t\n> a b", 2, "expected `> RELATION`"),
    ],
)
def test_a_syntax_error_names_its_line(text, line, says):
    with pytest.raises(model.SpecSyntaxError) as caught:
        parse(text, Path("x.spec"))
    assert f"x.spec:{line}:" in caught.value.message
    assert says in caught.value.message
