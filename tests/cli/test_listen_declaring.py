"""A data folder is made to be what `tidegate listen` was notes_on, run after run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.cli.listening.config import Config
from tidegate.cli.listening.declaring import declare
from tidegate.cli.listening.merging import complete_config, merge
from tidegate.cli.listening.sections import read_config
from tidegate.cli.listening.statements import definitions
from tidegate.database import runtime_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = "sources: {webhook: 0}\n"
COUNTS = """\
  counts:
    query: |
      SELECT channel, COUNT(*) AS n -- of each
      FROM pgcdc_events GROUP BY channel
"""
Declare = Callable[[str], list[str]]


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[tidegate.Database]:
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        yield db


@pytest.fixture
def notes_on(db: tidegate.Database) -> Declare:
    """Applies a file to the folder; returns the notes."""

    def declare_file(text: str) -> list[str]:
        config = merge(read_config(Path("listen.yaml"), HEAD + text, {}), Config())
        return declare(db, definitions(complete_config(config)))

    return declare_file


def names(db: tidegate.Database) -> list[str]:
    return [relation.name for relation in runtime_of(db).catalog.value]


def test_the_same_again_changes_nothing(db: tidegate.Database, notes_on: Declare) -> None:
    text = f"views:\n{COUNTS}adapters: {{file: a.jsonl}}\n"
    assert notes_on(text) == []
    before = runtime_of(db).catalog.value
    assert notes_on(text) == []
    assert runtime_of(db).catalog.value is before
    assert names(db) == ["webhook", "counts", "file"]


def test_what_changed_is_replaced_and_what_is_gone_is_dropped(db: tidegate.Database, notes_on: Declare) -> None:
    notes_on(f"views:\n{COUNTS}  more: SELECT * FROM counts\nadapters: {{file: a.jsonl}}\n")
    changed = f"views:\n{COUNTS.replace('AS n', 'AS m')}\nadapters: {{file: b.jsonl}}\n"
    assert notes_on(changed) == [
        "view more is no longer listed and was dropped",
        "view counts has changed, and starts from scratch",
        "sink file has changed",
    ]
    assert names(db) == ["webhook", "counts", "file"]
    assert notes_on(changed) == []
    assert notes_on("adapters: {stdout: }\n") == [
        "sink file is no longer listed and was dropped",
        "view counts is no longer listed and was dropped",
    ]
    assert names(db) == ["webhook", "stdout"]


def test_a_view_that_was_read_until_now_is_dropped(notes_on: Declare) -> None:
    notes_on(f"views:\n{COUNTS}  more: SELECT n FROM counts\n")
    assert notes_on("views: {more: SELECT COUNT(*) AS n FROM pgcdc_events}\n") == [
        "view more has changed, and starts from scratch",
        "view counts is no longer listed and was dropped",
    ]


def test_blanks_and_comments_are_no_change(notes_on: Declare) -> None:
    notes_on(f"views:\n{COUNTS}")
    assert notes_on(f"views:\n{COUNTS.replace('-- of each', '').replace('GROUP', '  GROUP')}") == []


def test_what_others_made_is_left_alone(db: tidegate.Database, notes_on: Declare) -> None:
    db.sql("CREATE MATERIALIZED VIEW mine AS SELECT COUNT(*) AS n FROM pgcdc_events")
    notes_on(f"views:\n{COUNTS}")
    assert notes_on("adapters: [stdout]\n") == ["view counts is no longer listed and was dropped"]
    assert "mine" in names(db)
    with pytest.raises(tidegate.Error) as refused:
        notes_on("views: {mine: SELECT COUNT(*) AS other FROM pgcdc_events}\n")
    assert str(refused.value) == (
        "ALREADY_EXISTS: listen.yaml:2: view mine: mine exists already in this folder, as a materialized view\n"
        "  hint: give it another name, or name another folder: --data DIR"
    )


def test_a_view_that_is_read_keeps_its_columns(notes_on: Declare) -> None:
    notes_on(f"views:\n{COUNTS}  more: SELECT n FROM counts\n")
    with pytest.raises(tidegate.Error) as refused:
        notes_on(f"views:\n{COUNTS.replace('AS n', 'AS m')}  more: SELECT n FROM counts\n")
    assert str(refused.value).startswith(
        "HAS_DEPENDENTS: listen.yaml:5: view counts: counts cannot change its columns: it is read by more\n"
    )


def test_the_caret_of_what_only_the_database_knows(notes_on: Declare) -> None:
    with pytest.raises(tidegate.Error) as refused:
        notes_on(f"views:\n{COUNTS.replace('GROUP BY channel', 'GROUP BY chanel')}")
    assert str(refused.value) == (
        "UNKNOWN_COLUMN: listen.yaml:6: view counts: there is no column chanel\n"
        "  line 6:  FROM pgcdc_events GROUP BY chanel\n"
        "                                      ^^^^^^\n"
        "  hint: did you mean channel?"
    )
