"""Errors of Spark are found in the user's text by what they name."""

import pytest

from tidegate.errors import Span
from tidegate.sql import find_place

TEXT = "SELECT 1; select upper(`Item`), bids . pirce FROM bids WHERE x IN ('a', 'b')"
SECOND = Span(10, len(TEXT))


@pytest.mark.parametrize(
    ("near", "found"),
    [
        (["pirce"], "pirce"),
        (["`bids`.`pirce`"], "bids . pirce"),
        (["b.pirce"], "pirce"),
        (["UPPER"], "upper"),
        (["upper(`item`)"], "upper(`Item`)"),
        (["nothing", "x IN ('a', 'b')"], "x IN ('a', 'b')"),
        (["1"], TEXT[10:]),
        (["'never closed"], TEXT[10:]),
        ([], TEXT[10:]),
    ],
)
def test_place(near, found):
    span = find_place(TEXT, SECOND, near)
    assert TEXT[span.start : span.end] == found
