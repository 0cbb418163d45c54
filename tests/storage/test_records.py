"""The canonical JSON of dataclasses: stable under renames and new defaults, strict when read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from tidegate.core.records import Codec, Malformed, canonical


@dataclass(frozen=True)
class Part:
    name: str
    size: int = 1


@dataclass(frozen=True)
class Renamed:
    name: str
    size: int = 1
    added: tuple[str, ...] = ()


@dataclass(frozen=True)
class Base:
    pass


@dataclass(frozen=True)
class Left(Base):
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Right(Base):
    pair: tuple[str, int]
    choice: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Whole:
    either: Left | Right | None
    base: Base
    counts: Mapping[str, int]
    names: frozenset[str]
    bound: int | float | str | None = None


KINDS: dict[str, type] = {"part": Part, "left": Left, "right": Right}
CODEC = Codec(KINDS, {"left": 2})
WHOLE = Whole(Left((Part("x"), Part("y", 3))), Right(("k", 1)), {"b": 1, "a": 2}, frozenset({"q", "p"}), 1.5)


def test_every_value_is_the_same_after_json() -> None:
    assert CODEC.decode(Whole, CODEC.encode(WHOLE)) == WHOLE


def test_defaults_are_left_out_and_kinds_and_versions_are_written() -> None:
    assert CODEC.encode(WHOLE.either) == {
        "@kind": "left",
        "@version": 2,
        "parts": [{"@kind": "part", "name": "x"}, {"@kind": "part", "name": "y", "size": 3}],
    }


def test_a_renamed_class_with_a_new_field_is_written_as_before() -> None:
    after = Codec({"part": Renamed})
    assert after.encode(Renamed("x", 3)) == CODEC.encode(Part("x", 3))
    assert after.decode(Renamed, CODEC.encode(Part("x", 3))) == Renamed("x", 3)


def test_the_text_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical(CODEC.encode({"b": (1,), "a": {"y", "x"}})) == '{"a":["x","y"],"b":[1]}'


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"either": {"@kind": "unheard"}}, "unknown kind 'unheard'"),
        ({"either": {"@kind": "part", "name": "x"}}, "unknown kind 'part'"),
        ({"base": {"@kind": "left", "@version": 3, "parts": []}}, "a known version"),
        ({"base": {"@kind": "right", "pair": ["k"]}}, "a list of 2"),
        ({"base": {"@kind": "right", "pair": ["k", 1], "choice": "c"}}, "choice"),
        ({"base": {"@kind": "right"}}, "field pair is missing"),
        ({"base": {"@kind": "right", "pair": ["k", 1], "more": 1}}, "unknown field more"),
        ({"counts": {"a": True}}, "expected int"),
        ({"names": "p"}, "expected a list"),
        ({"bound": []}, "bound"),
        ({"new": 1}, "unknown field new"),
    ],
)
def test_unknown_content_is_rejected(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        CODEC.decode(Whole, {**CODEC.encode(WHOLE), **change})


def test_a_record_needs_every_field() -> None:
    document = CODEC.encode(WHOLE)
    del document["bound"]
    with pytest.raises(Malformed, match="field bound is missing"):
        CODEC.decode(Whole, document)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", object(), {1: 2}])
def test_values_without_a_json_form_are_rejected(value: object) -> None:
    with pytest.raises(TypeError):
        CODEC.encode(value)
