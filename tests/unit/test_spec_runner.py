"""The spec runner fails when it should, with the reason."""

from pathlib import Path

import pytest

from tests.model.random_views.generate import make
from tests.model.random_views.shrink import shrink
from tests.model.random_views.timed import make_timed
from tidegate.testing.oracle.oracle import Oracle
from tidegate.testing.spec.files import find, matches, run_file, run_paths, run_together
from tidegate.testing.spec.parser import parse, read
from tidegate.testing.spec.renaming import can_share, rename, with_prefix

GOOD = """\
# Sums follow their rows.
sql
  CREATE TABLE t (k STRING, x INT);
  CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS total FROM t GROUP BY k;
step
> t
  a | 1
< v
  +I a | 1
"""
WRONG = """\
# Nothing in here is right.
sql
  CREATE TABLE t (k STRING, x INT);
  CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS total FROM t GROUP BY k;
kind v append
error *
  SELECT nothing FROM t;
  ~ no error says this
step one row
> t
  a | 1
< v
  +I b | 2
= v
? SELECT k FROM v
  z
late t 3
watermark t.x 5
step never runs
advance t.x 5
"""
ERRORS = """\
# Errors name the relations of the spec.
sql
  CREATE TABLE t (k INT, x INT);
error UNKNOWN_COLUMN
  CREATE MATERIALIZED VIEW v AS SELECT y FROM t;
  ~ SELECT y FROM t;
sql
  CREATE SOURCE s (k INT LATENESS 5);
  CREATE MATERIALIZED VIEW v AS SELECT k FROM s;
step
> t
  - 3 | 1
> s
  10
? SELECT relation, code FROM system.errors
  t | ROW_NOT_FOUND
step
> s
  1
? SELECT relation, view, row FROM system.late_rows
  s | NULL | {"k":1}
? DESCRIBE s
  k | INT | true
"""
TIME = """\
# Frontiers, late rows, the clock and the end of inputs can be checked.
sql
  CREATE SOURCE s (x BIGINT LATENESS 5, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
  CREATE MATERIALIZED VIEW w AS
    SELECT window_start, SUM(x) AS total FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_start;
  CREATE MATERIALIZED VIEW e AS
    SELECT window_start, COUNT(*) AS n FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_start
    EMIT EVERY INTERVAL '10' SECOND;
watermark s.ts none
step rows
> s
  10 | 12:00:07
watermark s.X 5
watermark s.ts 12:00:02
step a row that is late
> s
  1 | 12:00:08
late s 1
clock +10s
< e
  +I 12:00:00 | 1
step moved by hand
advance s.ts 12:00:10
< w
  +I 12:00:00 | 10
watermark s.ts 12:00:10
step another window
> s
  20 | 12:00:12
end
< w
  +I 12:00:10 | 20
watermark s.ts infinity
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    created = tmp_path_factory.mktemp("specs")
    (created / "good.spec").write_text(GOOD)
    (created / "time.spec").write_text(TIME)
    (created / "wrong.spec").write_text(WRONG)
    (created / "unreadable.spec").write_text("# Title\nthis is no heading\n")
    return created


@pytest.fixture(scope="module")
def summary(folder, spark):
    return run_paths([folder], restarts=True, spark=spark)


def test_the_summary_counts(summary):
    assert str(summary) == "2 passed, 2 failed"
    assert [result.path.stem for result in summary.results if result.ok] == ["good", "time"]


def test_every_wrong_check_is_reported_with_its_line(summary):
    wrong = next(result for result in summary.results if result.path.stem == "wrong")
    assert [(failure.line, failure.message) for failure in wrong.failures] == [
        (5, "v is of kind changelog, expected append"),
        (6, "the text does not say: no error says this"),
        (12, "< v"),
        (14, "= v"),
        (15, "? SELECT k FROM v"),
        (17, "0 rows of t were late, expected 3"),
        (18, "the watermark of t.x is none, expected 5"),
        (19, "t.x has no watermark to advance"),
    ]
    report = wrong.failures[2].render()
    assert "  Nothing in here is right." in report
    assert "  step: one row" in report
    assert "- +I b | 2" in report and "missing" in report
    assert "+I a | 1  unexpected" in report
    assert "aggregate" in report.split("EXPLAIN")[1]


def test_a_file_that_cannot_be_read_is_a_failure(summary):
    unreadable = next(result for result in summary.results if result.path.stem == "unreadable")
    assert "unknown heading 'this'" in unreadable.failures[0].message


def test_content_that_is_not_the_batch_answer_is_a_failure(folder, spark, monkeypatch):
    monkeypatch.setattr(Oracle, "write", lambda self, relation, rows: None)
    result = run_file(folder / "good.spec", spark, restarts=False)
    assert [failure.message for failure in result.failures] == ["v is not what its SELECT gives as a batch"]
    assert "a | 1    unexpected" in " ".join(result.failures[0].render().split("\n"))


def test_files_are_selected_by_a_word(folder):
    assert [path.name for path in find([folder, folder / "good.spec"])] == [
        "good.spec",
        "time.spec",
        "unreadable.spec",
        "wrong.spec",
    ]
    assert matches(folder / "good.spec", "FOLLOW their")
    assert not matches(folder / "unreadable.spec", "follow")
    with pytest.raises(FileNotFoundError):
        find([folder / "missing"])


def test_only_names_of_relations_are_renamed():
    sql = "CREATE MATERIALIZED VIEW t AS SELECT a.a AS t, 'a' AS x FROM a WHERE a.t > 1 -- a\n"
    names = {"a": "p_a", "t": "p_t"}
    assert (
        rename(sql, names)
        == "CREATE MATERIALIZED VIEW p_t AS SELECT p_a.a AS t, 'a' AS x FROM p_a WHERE p_a.t > 1 -- a\n"
    )


def test_a_renamed_spec_has_the_same_checks(folder):
    spec = read(folder / "good.spec")
    assert can_share(spec)
    assert can_share(parse(WRONG))
    assert not can_share(parse(TIME))
    assert not can_share(parse(WRONG.replace("SELECT nothing FROM t;", "SELEKT;")))
    assert can_share(parse(ERRORS))
    assert not can_share(parse(ERRORS.replace("system.errors", "system.waterlines")))
    assert not can_share(parse("# Idle.\nsql\n  CREATE SOURCE s (x INT) WITH ('idle_timeout' = '1s');\n"))
    prefixed = with_prefix(spec, "p_")
    assert "CREATE TABLE p_t" in prefixed.items[0].text
    assert prefixed.items[1].inputs[0].relation == "p_t"
    assert prefixed.items[2].view == "p_v"


def test_a_renamed_spec_has_its_own_errors_and_late_rows(spark, folder):
    """Statements that fail, and rows of system relations, are checked under the names that the spec has."""
    (folder / "one.spec").write_text(ERRORS)
    (folder / "two.spec").write_text(ERRORS.replace("3 |", "4 |"))
    assert run_together([folder / "one.spec", folder / "two.spec"], spark, restarts=False) == []
    (folder / "two.spec").write_text(ERRORS.replace("~ SELECT y FROM t", "~ FROM p_t").replace("t | ROW", "t | NO"))
    failures = run_together([folder / "one.spec", folder / "two.spec"], spark, restarts=False)
    assert [(failure.path.name, failure.line) for failure in failures] == [("two.spec", 4), ("two.spec", 15)]


def test_windows_and_late_rows_are_renamed_too():
    sql = (
        "CREATE MATERIALIZED VIEW v AS SELECT s.k FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
        " GROUP BY window_start, s.k LATE DATA TO late; LATENESS v.k 1; ADVANCE s.ts TO TIMESTAMP '2020-01-01'"
    )
    renamed = rename(sql, {"s": "p_s", "v": "p_v", "late": "p_late"})
    assert renamed == sql.replace("s.", "p_s.").replace("TABLE s", "TABLE p_s").replace("v.", "p_v.").replace(
        "VIEW v", "VIEW p_v"
    ).replace("TO late", "TO p_late")


@pytest.mark.parametrize("generate", [make, make_timed])
def test_a_seed_generates_one_case_and_shrinking_keeps_the_failure(generate):
    case = generate(7, 10)
    assert case.spec() == generate(7, 10).spec()
    assert parse(case.spec(), Path("x.spec")).runs == len(case.steps)
    view = case.views[-1]
    alone = case.with_views({view.name})
    row = next(change for step in alone.steps for change in step)

    def fails(smaller):
        return view.name in {one.name for one in smaller.views} and any(row in step for step in smaller.steps)

    smallest = shrink(case, fails, seconds=30)
    assert fails(smallest)
    assert sum(len(step) for step in smallest.steps) == 1
    assert len(smallest.views) <= len(alone.views)
