"""Windows of the naive model, by hand: which cover a time, what a session is, which rows come too late."""

import pytest

from tidegate.core.durations import CalendarInterval
from tidegate.core.types import Type
from tidegate.testing.time.acceptance import Candidate, Taken
from tidegate.testing.time.amounts import DAY, INFINITE, add_months, minus
from tidegate.testing.time.windows import Window, sessions

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
def test_windows_that_cover_a_time(window, time, expected):
    assert window.covering(time * S) == seconds(*expected)


def test_months_go_by_the_calendar():
    january = Window("tumble", MONTH).covering(40 * DAY)
    assert january == [(31 * DAY, 59 * DAY)]
    assert add_months(30 * DAY, 1) == 58 * DAY
    assert minus(58 * DAY, MONTH) == 27 * DAY


def test_the_earliest_window_that_is_open():
    assert Window("tumble", CalendarInterval(10 * S)).opened(20 * S) == (20 * S, 30 * S)
    assert Window("hop", CalendarInterval(30 * S), CalendarInterval(10 * S)).opened(35 * S) == (10 * S, 40 * S)
    assert Window("cumulate", CalendarInterval(30 * S), CalendarInterval(10 * S)).opened(12 * S) == (0, 20 * S)
    assert Window("tumble", CalendarInterval(10 * S)).opened(INFINITE) == (INFINITE, INFINITE)


def test_a_row_at_exactly_last_plus_gap_begins_a_new_session():
    found = sessions([0, 4 * S, 9 * S, 13 * S], Window("session", CalendarInterval(5 * S)))
    assert [extent for extent, _ in found] == seconds((0, 9), (9, 18))


class Taking:
    """A window that takes rows at seconds; the row is its name."""

    def __init__(self, window, lateness=0):
        self.taken = Taken(window, KINDS, True, lateness * S)

    def step(self, frontier, *rows):
        line = None if frontier is None else frontier * S
        self.taken.late = []
        windows = [
            Candidate((name,), weight, time * S, tuple(self.taken.window.covering(time * S)))
            for name, time, weight in rows
        ]
        self.taken.step(windows, line)
        return [row[0] for row in self.taken.late]

    def content(self):
        return sorted((row[0], start // S, end // S) for row, (start, end) in self.taken.rows())


def test_a_row_is_late_when_the_frontier_is_at_the_end_of_its_window():
    taking = Taking(Window("tumble", CalendarInterval(10 * S)))
    assert taking.step(None, ("a", 3, 1), ("b", 25, 1)) == []
    assert taking.step(10, ("c", 9, 1), ("d", 10, 1)) == ["c"]
    assert taking.content() == [("a", 0, 10), ("b", 20, 30), ("d", 10, 20)]


def test_lateness_keeps_windows_open():
    taking = Taking(Window("tumble", CalendarInterval(10 * S)), lateness=5)
    assert taking.step(14, ("a", 9, 1)) == []
    assert taking.step(15, ("b", 9, 1)) == ["b"]


def test_hop_refuses_per_window_and_counts_only_what_none_took():
    taking = Taking(Window("hop", CalendarInterval(20 * S), CalendarInterval(10 * S)))
    assert taking.step(20, ("a", 15, 1), ("b", 5, 1)) == ["b"]
    assert taking.content() == [("a", 10, 30)]


def test_a_late_delete_takes_nothing_back():
    taking = Taking(Window("tumble", CalendarInterval(10 * S)))
    taking.step(None, ("a", 3, 1), ("b", 12, 1))
    assert taking.step(10, ("a", 3, -1), ("b", 12, -1)) == ["a"]
    assert taking.content() == [("a", 0, 10)]


def test_a_late_row_may_bridge_sessions_that_are_not_closed_for_good():
    taking = Taking(Window("session", CalendarInterval(10 * S)), lateness=20)
    taking.step(None, ("a", 0, 1), ("c", 15, 1))
    assert taking.step(12, ("b", 8, 1)) == []
    assert taking.content() == [("a", 0, 25), ("b", 0, 25), ("c", 0, 25)]


def test_a_row_that_would_reopen_a_closed_session_is_late():
    taking = Taking(Window("session", CalendarInterval(10 * S)))
    taking.step(None, ("a", 0, 1), ("c", 30, 1))
    assert taking.step(12, ("b", 9, 1), ("d", 10, 1)) == ["b"]
    assert taking.content() == [("a", 0, 10), ("c", 30, 40), ("d", 10, 20)]


def test_rows_that_make_a_session_which_is_closed_are_late_and_together_may_not_be():
    alone = Taking(Window("session", CalendarInterval(10 * S)))
    assert alone.step(12, ("a", 1, 1)) == ["a"]
    together = Taking(Window("session", CalendarInterval(10 * S)))
    assert together.step(12, ("a", 1, 1), ("b", 5, 1)) == []


def test_a_delete_splits_a_session_unless_it_is_closed():
    taking = Taking(Window("session", CalendarInterval(10 * S)))
    taking.step(None, ("a", 0, 1), ("b", 9, 1), ("c", 18, 1))
    assert taking.step(20, ("b", 9, -1)) == []
    assert taking.content() == [("a", 0, 10), ("c", 18, 28)]
    assert taking.step(28, ("c", 18, -1)) == ["c"]
