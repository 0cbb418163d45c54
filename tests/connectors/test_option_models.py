"""Option models: how they are filled from a bag, and that the docs describe them."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
from pydantic import Field

from tests.connectors.pages import DOCS
from tidegate.connectors.datagen.options import DatagenOptions
from tidegate.connectors.file.options import WriteOptions as FileOptions
from tidegate.connectors.files import options as files
from tidegate.connectors.kafka import options as kafka
from tidegate.connectors.postgres import options as postgres
from tidegate.connectors.postgres.notify import ChannelOptions
from tidegate.connectors.postgres.outbox import TableOptions as OutboxOptions
from tidegate.connectors.postgres.sink import SinkOptions as PostgresSinkOptions
from tidegate.connectors.redis import options as redis
from tidegate.connectors.registry import BUILT_IN
from tidegate.connectors.sse.options import StreamOptions
from tidegate.connectors.webhook.options import PostOptions, ReceiveOptions
from tidegate.core.option_models import (
    ANY_TEXT,
    SECONDS,
    Aliases,
    OptionModel,
    Parsed,
    Prefixed,
    choice,
    whole_number,
)
from tidegate.core.options import Bag
from tidegate.core.secrets import is_secret
from tidegate.errors import Error, Span
from tidegate.formats.avro_schema import RegistryOptions


class Sample(OptionModel):
    url: str = Field(examples=["https://a.example"])
    name: str = "none"
    note: str | None = None
    count: Annotated[int, whole_number(1)] = 7
    wait: Annotated[float, SECONDS] = 1.5
    fast: bool = False
    labels: Annotated[dict[str, str], Prefixed("labels.", "tags.")] = Field({})
    mode: Annotated[str, choice("one", "Two"), Aliases("modus", "way.of")] = "one"
    most: Annotated[int, ANY_TEXT] = Field(9, alias="at.most")
    safe: bool = True
    quote: Annotated[str, ANY_TEXT] = "'"


class Channels(OptionModel):
    channels: Annotated[list[str], Parsed(lambda text: text.split(), "words"), Aliases("topics")] = Field(
        examples=["a b"]
    )


def bag(**options: str) -> Bag:
    at = Span(10, 20)
    return Bag("SAMPLE", [(name.replace("__", "."), text, at) for name, text in options.items()], Span(0, 5))


def test_options_are_taken_in_any_spelling_and_the_others_have_their_defaults() -> None:
    options_bag = bag(URL="x", Count="1_000", wait="2m", fast="TRUE", labels__A="b", name="", note="")
    assert Sample.take(options_bag) == Sample(url="x", count=1000, wait=120.0, fast=True, labels={"A": "b"}, note="")
    options_bag.finish()
    assert Sample.take(bag(url="x")) == Sample(url="x")
    other = Sample.take(bag(url="x", way__of="TWO", safe="false", quote=""))
    assert other == Sample(url="x", mode="Two", safe=False, quote="")
    assert Sample.take(bag(url="x", labels__a="1", tags__b="2")).labels == {"a": "1", "b": "2"}
    assert Channels.take(bag(topics="a b")).channels == ["a", "b"]


def test_how_a_value_is_read_can_depend_on_the_statement() -> None:
    assert Sample.take(bag(url="x", at__most="7"), {"most": Parsed(int, "a number")}).most == 7
    with pytest.raises(Error) as wrong:
        Sample.take(bag(url="x", at__most="all"), {"most": Parsed(int, "a number")})
    assert (wrong.value.message, wrong.value.hint) == ("option 'at.most' cannot be 'all'", "expected a number")


def test_an_example_can_depend_on_the_statement() -> None:
    for examples, expected in (({}, "a b"), ({"channels": "c"}, "c")):
        with pytest.raises(Error) as missing:
            Channels.take(bag(), **examples)
        assert (missing.value.message, missing.value.hint) == (
            "SAMPLE needs option 'channels'", f"add channels = '{expected}'"
        )  # fmt: skip


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
def test_errors_are_like_those_of_other_options(
    options: dict[str, str], message: str, hint: str | None, span: Span
) -> None:
    options_bag = bag(**options)
    with pytest.raises(Error) as caught:
        Sample.take(options_bag)
        options_bag.finish()
    assert (caught.value.message, caught.value.span) == (message, span)
    assert hint is None or caught.value.hint == hint


def table(page: str, number: int) -> str:
    """The rows of the table of options with this number on a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.split(r"\| (?:source )?option \| ", text)[number].split("\n\n")[0]


MODELS: list[tuple[type[OptionModel], str, int]] = [
    (StreamOptions, "sse.md", 1),
    (PostOptions, "webhook.md", 1),
    (ReceiveOptions, "webhook.md", 2),
    (FileOptions, "file.md", 1),
    (files.FolderOptions, "files.md", 1),
    (files.TableFolderOptions, "files.md", 1),
    (files.CsvFileOptions, "files.md", 1),
    (files.TextFileOptions, "files.md", 1),
    (kafka.TopicOptions, "kafka.md", 1),
    (kafka.SourceOptions, "kafka.md", 1),
    (kafka.StartOptions, "kafka.md", 1),
    (kafka.ClientOptions, "kafka.md", 1),
    (kafka.SinkOptions, "kafka.md", 3),
    (redis.ServerOptions, "redis.md", 1),
    (redis.ModeOptions, "redis.md", 1),
    (redis.StreamOptions, "redis.md", 1),
    (redis.KeysOptions, "redis.md", 1),
    (postgres.ServerOptions, "postgres.md", 1),
    (postgres.TableOptions, "postgres.md", 1),
    (postgres.EventOptions, "postgres.md", 1),
    (OutboxOptions, "postgres.md", 2),
    (postgres.ServerOptions, "postgres-sink.md", 1),
    (PostgresSinkOptions, "postgres-sink.md", 1),
    (DatagenOptions, "datagen.md", 1),
]
MORE = {
    ("kafka.md", 1): {"format", "properties", "scan"},
    ("kafka.md", 3): {"format", "key_format", "kafka"},
    ("postgres.md", 2): {"url"},
    ("datagen.md", 1): {"fields"},
    ("sse.md", 1): {"channels"},
    ("webhook.md", 1): {"channels"},
}
"""Names in the first column of a table that no model declares: options of formats, columns and the schema registry."""


@pytest.mark.parametrize(("page", "number"), sorted({(page, number) for _, page, number in MODELS}))
def test_the_docs_have_the_declared_options(page: str, number: int) -> None:
    rows = table(page, number)
    first_column = {name for row in rows.splitlines() for name in re.findall(r"`([a-z_]+)", row.split("|")[1])}
    declared = [model.model_fields for model, *where in MODELS if where == [page, number]]
    model_options = {field.alias or name for fields in declared for name, field in fields.items()}
    assert first_column <= model_options | {"format"} | MORE.get((page, number), set())
    assert {name for name in model_options if not re.search(rf"`{re.escape(name)}\b", rows)} == set()


ALL_MODELS = [
    *(model for model, _, _ in MODELS),
    RegistryOptions,
    ChannelOptions,
    files.SinkOptions,
    files.CsvSinkOptions,
    kafka.TableOptions,
    postgres.TableFollowOptions,
]


def test_every_model_of_a_connector_is_tested() -> None:
    for connector in BUILT_IN.values():
        connector.load()
    ours = {model for model in _below(OptionModel) if model.__module__.startswith("tidegate.connectors.")}
    bases = {base for model in ours for base in model.__bases__}
    assert ours - bases <= set(ALL_MODELS)


def _below(model: type[OptionModel]) -> set[type[OptionModel]]:
    return {each for child in model.__subclasses__() for each in (child, *_below(child))}


@pytest.mark.parametrize("model", ALL_MODELS)
def test_every_option_is_described_and_secrets_are_marked(model: type[OptionModel]) -> None:
    properties = model.model_json_schema()["properties"]
    for name, option in properties.items():
        assert option["description"].endswith(".")
        assert option.get("secret", False) == is_secret(name)
