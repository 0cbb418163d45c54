"""Patterns with `*` and `?`: what they match, and how much work a hostile one makes."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.globs import LONGEST, Globs, split_patterns


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        ("a*, b?c", "a", True),
        ("a*, b?c", "a\nb", True),
        ("a*, b?c", "b.c", True),
        ("a*, b?c", "bc", False),
        ("a*, b?c", "xa", False),
        ("*", "", True),
        ("?", "", False),
        ("", "", False),
        ("a.c", "abc", False),
        ("**a**b", "ab", True),
        ("*a", "ba\n", False),
    ],
)
def test_what_patterns_match(patterns: str, text: str, expected: bool) -> None:
    assert Globs(split_patterns(patterns)).matches(text) is expected


SIGNS = st.text(alphabet="ab*?", max_size=8)


@given(st.lists(SIGNS, max_size=3), st.text(alphabet="ab", max_size=8))
def test_patterns_are_those_of_a_regular_expression(patterns: list[str], text: str) -> None:
    regexes = [pattern.replace("?", ".").replace("*", ".*") for pattern in patterns]
    assert Globs(patterns).matches(text) == any(re.fullmatch(regex, text) is not None for regex in regexes)


def work(pattern: str, text: str) -> int:
    """The number of instructions that Python executes for a match."""
    globs, count = Globs([pattern]), 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, count = True, count + 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        globs.matches(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("pattern", ["*" * 40 + "X", "*a" * 40 + "X", "?*" * 40 + "X", "*?a" * 300 + "X"])
def test_no_pattern_makes_more_work_than_another(pattern: str) -> None:
    plain = work("a" * len(pattern), "a" * 400)
    assert work(pattern, "a" * 400) <= 50 * 400
    assert work(pattern, "a" * 800) <= 2.1 * max(work(pattern, "a" * 400), plain)


def test_patterns_of_a_request_have_a_limit() -> None:
    assert split_patterns("a" * LONGEST) == ["a" * LONGEST]
    with pytest.raises(ValueError, match="aaa"):
        split_patterns("a" * (LONGEST + 1))
