"""Windows of the oracle, against values computed by hand: windows of a time, sessions, late rows."""

import pytest

from tidegate.core.durations import CalendarInterval
from tidegate.core.types import Type
from tidegate.testing.oracle.amounts import DAY, INFINITE, add_months, minus
from tidegate.testing.oracle.windowing import Candidate, WindowRows
from tidegate.testing.oracle.windows import Entry, Window, sessions

S = 1_000_000
MONTH = CalendarInterval(months=1)
KINDS = (Type("string"),)


def seconds(*pairs):
    return [(start * S, end * S) for start, end in pairs]


@pytest.mark.parametrize(
    ("window", "time", "expected"),
    [
        (Window("tumble", CalendarInterval(10 * S)), 12, [(10, 20)]),
        (Window("tumble", CalendarInterval(10 * S)), 20, [(20, 30)]),
        (Window("tumble", CalendarInterval(10 * S)), -1, [(-10, 0)]),
        (Window("tumble", CalendarInterval(10 * S), offset=3 * S), 12, [(3, 13)]),
        (Window("hop", CalendarInterval(30 * S), CalendarInterval(10 * S)), 35, [(30, 60), (20, 50), (10, 40)]),
        (Window("hop", CalendarInterval(25 * S), CalendarInterval(10 * S)), 35, [(30, 55), (20, 45)]),
        (Window("cumulate", CalendarInterval(30 * S), CalendarInterval(10 * S)), 12, [(0, 20), (0, 30)]),
        (Window("session", CalendarInterval(5 * S)), 7, [(7, 12)]),
    ],
)
def test_windows_that_contain_a_time(window, time, expected):
    assert window.extents(time * S) == seconds(*expected)


def test_months_follow_the_calendar():
    january = Window("tumble", MONTH).extents(40 * DAY)
    assert january == [(31 * DAY, 59 * DAY)]
    assert add_months(30 * DAY, 1) == 58 * DAY
    assert minus(58 * DAY, MONTH) == 27 * DAY


def test_the_earliest_open_window():
    assert Window("tumble", CalendarInterval(10 * S)).earliest_open(20 * S) == (20 * S, 30 * S)
    assert Window("hop", CalendarInterval(30 * S), CalendarInterval(10 * S)).earliest_open(35 * S) == (10 * S, 40 * S)
    assert Window("cumulate", CalendarInterval(30 * S), CalendarInterval(10 * S)).earliest_open(12 * S) == (0, 20 * S)
    assert Window("tumble", CalendarInterval(10 * S)).earliest_open(INFINITE) == (INFINITE, INFINITE)


def test_a_row_at_exactly_last_plus_gap_starts_a_new_session():
    rows = [Entry((), time * S, (), None) for time in (0, 4, 9, 13)]
    result = sessions(rows, Window("session", CalendarInterval(5 * S)))
    assert [(session.start, session.end) for session in result] == seconds((0, 9), (9, 18))


class Accepting:
    """A window and the rows that it accepts: each has a name, a time in seconds and a weight."""

    def __init__(self, window, lateness=0):
        self.rows = WindowRows(window, KINDS, lateness * S)

    def step(self, watermark, *rows):
        """Adds rows and returns the names of the late ones."""
        self.rows.late = []
        candidates = [
            Candidate((name,), weight, time * S, tuple(self.rows.window.extents(time * S)))
            for name, time, weight in rows
        ]
        self.rows.step(candidates, None if watermark is None else watermark * S)
        return [row[0] for row in self.rows.late]

    def content(self):
        return sorted((row[0], start // S, end // S) for row, (start, end) in self.rows.rows())


def test_a_row_is_late_when_the_watermark_is_at_the_end_of_its_window():
    window = Accepting(Window("tumble", CalendarInterval(10 * S)))
    assert window.step(None, ("a", 3, 1), ("b", 25, 1)) == []
    assert window.step(10, ("c", 9, 1), ("d", 10, 1)) == ["c"]
    assert window.content() == [("a", 0, 10), ("b", 20, 30), ("d", 10, 20)]


def test_lateness_keeps_windows_open():
    window = Accepting(Window("tumble", CalendarInterval(10 * S)), lateness=5)
    assert window.step(14, ("a", 9, 1)) == []
    assert window.step(15, ("b", 9, 1)) == ["b"]


def test_hop_rejects_per_window_and_counts_only_rows_that_no_window_accepts():
    window = Accepting(Window("hop", CalendarInterval(20 * S), CalendarInterval(10 * S)))
    assert window.step(20, ("a", 15, 1), ("b", 5, 1)) == ["b"]
    assert window.content() == [("a", 10, 30)]


def test_a_late_delete_retracts_nothing():
    window = Accepting(Window("tumble", CalendarInterval(10 * S)))
    window.step(None, ("a", 3, 1), ("b", 12, 1))
    assert window.step(10, ("a", 3, -1), ("b", 12, -1)) == ["a"]
    assert window.content() == [("a", 0, 10)]


def test_a_late_row_may_bridge_sessions_that_are_not_closed_for_good():
    window = Accepting(Window("session", CalendarInterval(10 * S)), lateness=20)
    window.step(None, ("a", 0, 1), ("c", 15, 1))
    assert window.step(12, ("b", 8, 1)) == []
    assert window.content() == [("a", 0, 25), ("b", 0, 25), ("c", 0, 25)]


def test_a_row_that_would_reopen_a_closed_session_is_late():
    window = Accepting(Window("session", CalendarInterval(10 * S)))
    window.step(None, ("a", 0, 1), ("c", 30, 1))
    assert window.step(12, ("b", 9, 1), ("d", 10, 1)) == ["b"]
    assert window.content() == [("a", 0, 10), ("c", 30, 40), ("d", 10, 20)]


def test_a_row_of_a_closed_session_is_late_unless_another_row_extends_it():
    alone = Accepting(Window("session", CalendarInterval(10 * S)))
    assert alone.step(12, ("a", 1, 1)) == ["a"]
    together = Accepting(Window("session", CalendarInterval(10 * S)))
    assert together.step(12, ("a", 1, 1), ("b", 5, 1)) == []


def test_a_delete_splits_a_session_unless_it_is_closed():
    window = Accepting(Window("session", CalendarInterval(10 * S)))
    window.step(None, ("a", 0, 1), ("b", 9, 1), ("c", 18, 1))
    assert window.step(20, ("b", 9, -1)) == []
    assert window.content() == [("a", 0, 10), ("c", 18, 28)]
    assert window.step(28, ("c", 18, -1)) == ["c"]


def test_a_row_in_reach_of_a_closed_session_stays_late():
    window = Accepting(Window("session", CalendarInterval(10 * S)))
    window.step(None, ("a", 0, 1), ("c", 10, 1), ("d", 15, 1))
    for watermark in (18, 20, 24):
        assert window.step(watermark, ("b", 5, 1)) == ["b"]
    assert window.content() == [("a", 0, 10), ("c", 10, 25), ("d", 10, 25)]
