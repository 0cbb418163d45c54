"""Options that are declared as models: what a bag gives them, and what the docs say of them."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
from pydantic import Field

from tests.connectors.pages import DOCS
from tidegate.connectors.sse.options import StreamOptions
from tidegate.connectors.webhook.options import PostOptions, ReceiveOptions
from tidegate.core.option_models import SECONDS, OptionModel, Prefixed, whole_number
from tidegate.core.options import Bag
from tidegate.core.secrets import is_secret
from tidegate.errors import Error, Span


class Sample(OptionModel):
    url: str = Field(examples=["https://a.example"])
    name: str = "none"
    note: str | None = None
    count: Annotated[int, whole_number(1)] = 7
    wait: Annotated[float, SECONDS] = 1.5
    fast: bool = False
    labels: Annotated[dict[str, str], Prefixed("labels.")] = Field({})


def bag(**options: str) -> Bag:
    at = Span(10, 20)
    return Bag("SAMPLE", [(name.replace("__", "."), text, at) for name, text in options.items()], Span(0, 5))


def test_options_are_taken_in_any_spelling_and_the_others_have_their_defaults() -> None:
    given = bag(URL="x", Count="1_000", wait="2m", fast="TRUE", labels__A="b", name="", note="")
    assert Sample.take(given) == Sample(url="x", count=1000, wait=120.0, fast=True, labels={"A": "b"}, note="")
    given.finish()
    assert Sample.take(bag(url="x")) == Sample(url="x")


@pytest.mark.parametrize(
    ("options", "message", "hint", "span"),
    [
        ({}, "SAMPLE needs option 'url'", "add url = 'https://a.example'", Span(0, 5)),
        ({"url": "x", "Count": "0"}, "option 'Count' cannot be '0'", "expected a whole number from 1", Span(10, 20)),
        ({"url": "x", "wait": "long"}, "option 'wait' cannot be 'long'", None, Span(10, 20)),
        ({"url": "x", "fast": "yes"}, "option 'fast' cannot be 'yes'", "expected 'true' or 'false'", Span(10, 20)),
        ({"uri": "x"}, "SAMPLE has no option 'uri'", "did you mean url?", Span(10, 20)),
        ({"url": "x", "counts": "1"}, "SAMPLE has no option 'counts'", "did you mean count?", Span(10, 20)),
    ],
)
def test_errors_are_those_of_every_other_option(
    options: dict[str, str], message: str, hint: str | None, span: Span
) -> None:
    given = bag(**options)
    with pytest.raises(Error) as refused:
        Sample.take(given)
        given.finish()
    assert (refused.value.message, refused.value.span) == (message, span)
    assert hint is None or refused.value.hint == hint


def table(page: str, number: int) -> str:
    """The rows of a table of options."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split("| option | ")[number].split("\n\n")[0]


@pytest.mark.parametrize(
    ("model", "page", "number", "more"),
    [
        (StreamOptions, "sse.md", 1, {"channels"}),
        (PostOptions, "webhook.md", 1, {"channels"}),
        (ReceiveOptions, "webhook.md", 2, set()),
    ],
)
def test_the_docs_have_the_declared_options(model: type[OptionModel], page: str, number: int, more: set[str]) -> None:
    rows = table(page, number)
    first_column = {name for row in rows.splitlines() for name in re.findall(r"`([a-z_]+)", row.split("|")[1])}
    declared = set(model.model_fields)
    assert first_column <= declared | more
    assert {name for name in declared if not re.search(rf"`{name}\b", rows)} == set()


@pytest.mark.parametrize("model", [StreamOptions, PostOptions, ReceiveOptions])
def test_every_option_is_described_and_secrets_are_marked(model: type[OptionModel]) -> None:
    properties = model.model_json_schema()["properties"]
    for name, option in properties.items():
        assert option["description"].endswith(".")
        assert option.get("secret", False) == is_secret(name)
