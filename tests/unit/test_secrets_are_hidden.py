"""No output repeats a secret: statements of every connector with a marker in every secret option, cut and mutated."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate import sql
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.cli.listening.config import Config
from tidegate.cli.listening.declaring import check
from tidegate.cli.listening.merging import complete_config, merge
from tidegate.cli.listening.sections import read_config
from tidegate.cli.listening.statements import definitions, script
from tidegate.connectors import registry
from tidegate.core.secrets import hide_known, mask_sql, remember
from tidegate.errors import Error, make, render
from tidegate.runtime.literal_secrets import without_secrets
from tidegate.sql import statements as s
from tidegate.storage.folder import Folder
from tidegate.storage.secrets_file import Secrets

MARKER = "Zq7MARKERx9"
SEED = int(os.environ.get("SECRETS_SEED", "1"))
SPELLINGS = (
    *(MARKER, f"{MARKER}@a/b:c", f"pa ss {MARKER}", f"{MARKER}#?&x=1", f"it's {MARKER}", f"{MARKER}--x/*y*/"),
    *(f"a;{MARKER}", f"a,{MARKER}=", f"({MARKER})"),
)

STATEMENTS = {
    "CREATE SOURCE w FROM WEBHOOK (port = '0', {}, path = '/hooks')": ("secret",),
    "CREATE SINK w FROM pgcdc_events INTO WEBHOOK (url = 'https://example.com/hook', {}, timeout = '3s')": (
        *("secret", "headers.Authorization", "headers.X-Api-Key", "headers.Cookie"),
    ),
    "CREATE SINK w FROM pgcdc_events INTO WEBHOOK ({}, timeout = '3s')": ("url",),
    "CREATE SINK e FROM pgcdc_events INTO SSE (port = '0', {}, keep = '5')": ("token",),
    "CREATE SINK r FROM pgcdc_events INTO REDIS (url = 'redis://localhost:6379/0', {}, stream = 'x')": ("password",),
    "CREATE SINK r FROM pgcdc_events INTO REDIS ({}, stream = 'x')": ("url",),
    "CREATE SOURCE p FROM POSTGRES (host = 'localhost', {}, database = 'shop', tables = 'orders')": ("password",),
    "CREATE SOURCE p FROM POSTGRES ({}, tables = 'orders')": ("url",),
    "CREATE SOURCE n FROM NOTIFY ({}, channels = 'jobs')": ("url", "password"),
    "CREATE SOURCE o FROM OUTBOX ({}, table = 'outbox')": ("url", "password"),
    "CREATE SINK p FROM pgcdc_events INTO POSTGRES (table = 't', {})": ("url", "password"),
    "CREATE SOURCE k FROM KAFKA (topic = 't', {}, bootstrap_servers = 'b:9092')": (
        *("kafka.sasl.password", "properties.sasl.jaas.config", "kafka.ssl.key.password", "ssl.truststore.password"),
        *("properties.sasl.oauthbearer.client.secret", "schema.registry.password", "schema.registry.url"),
    ),
    "CREATE SINK k FROM pgcdc_events INTO KAFKA (topic = 't', bootstrap_servers = 'b:9092', {})": (
        *("kafka.sasl.password", "properties.sasl.jaas.config"),
    ),
    "CREATE TABLE t (id INT PRIMARY KEY) WITH ('connector' = 'kafka', 'topic' = 't', {}, 'format' = 'json')": (
        *("properties.sasl.jaas.config", "properties.sasl.password", "kafka.sasl.jaas.config"),
    ),
    "CREATE SOURCE c (id INT) FROM CLOUDFISH (place = 'x', {}, mode = 'y')": ("api-key", "credentials", "password"),
}
URLS = ("postgresql://app:{}@db.example:5432/shop", "redis://:{}@db.example:6379/0", "https://u:{}@example.com/hook")
QUERIES = ("https://example.com/hook?token={}", "https://example.com/hook?a=b&api_key={}&c=d", "https://e.com/?key={}")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="{}";'


def quotings(key: str, secret: str) -> Iterator[str]:
    """One option in every spelling."""
    single, double = secret.replace("'", "''"), secret.replace('"', '\\"')
    for name in (key if re.fullmatch(r"[\w.]+", key) else f"`{key}`", f"'{key}'", f'"{key}"'):
        yield f"{name} = '{single}'"
        yield f'{name}="{double}"'
    if re.fullmatch(r"[\w\-]+", secret):
        yield f"'{key}' = {secret}"
    inside = secret if "://" in secret else MARKER
    yield f"'{key}'\n  =\n'{single}' -- {key} = {inside}\n"
    yield f"/* {key}: '{inside}' */ '{key}' = '{single}'" if "*/" not in inside else f"{key}='{single}'"


def values(key: str, generator: random.Random) -> str:
    secret = generator.choice(SPELLINGS)
    if key.endswith("url"):
        plain = re.fullmatch(r"[\w@/:]+", secret) is not None
        return generator.choice(URLS).format(secret) if plain else generator.choice(QUERIES).format(MARKER)
    if key.endswith("jaas.config"):
        return JAAS.format(MARKER)
    return f"Bearer {secret}" if key == "headers.Authorization" else secret


def written(generator: random.Random) -> str:
    template = generator.choice(list(STATEMENTS))
    key = generator.choice(STATEMENTS[template])
    return template.format(generator.choice(list(quotings(key, values(key, generator)))))


TOKENS = re.compile(r"\s+|'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*\n?|/\*.*?\*/|[\w.]+|.", re.DOTALL)
Mutation = Callable[[list[str], random.Random], list[str]]


def cut(tokens: list[str], generator: random.Random) -> list[str]:
    text = "".join(tokens)
    return [text[: generator.randrange(len(text))]]


def removed(tokens: list[str], generator: random.Random) -> list[str]:
    at = generator.randrange(len(tokens))
    return tokens[:at] + tokens[at + 1 :]


def doubled(tokens: list[str], generator: random.Random) -> list[str]:
    at = generator.randrange(len(tokens))
    return tokens[: at + 1] + tokens[at:]


def without_a_quote(tokens: list[str], generator: random.Random) -> list[str]:
    text = "".join(tokens)
    quotes = [place for place, sign in enumerate(text) if sign in "'\""]
    at = generator.choice(quotes)
    return [text[:at] + text[at + 1 :]]


def swapped(tokens: list[str], generator: random.Random) -> list[str]:
    at = generator.randrange(len(tokens))
    return [*tokens[:at], generator.choice([",", "(", ")", "=", ";", ""]), *tokens[at + 1 :]]


def unchanged(tokens: list[str], generator: random.Random) -> list[str]:
    return tokens


MUTATIONS: tuple[Mutation, ...] = (cut, removed, doubled, without_a_quote, swapped, unchanged)


def shown(text: str, secrets: Secrets) -> Iterator[str]:
    """Everything that a text leads to: errors, SHOW CREATE, what is stored."""
    try:
        statements = sql.parse(text).statements
    except Error as problem:
        yield from parts(problem)
        return
    for statement in statements:
        stored = without_secrets(statement, secrets)
        connector = getattr(statement, "connector", None)
        if connector is None:
            continue
        options = [(option.key, option.value, option.span) for option in connector.options]
        try:
            if isinstance(statement, s.CreateSink):
                registry.sink(connector.kind, "x", EVENTS.columns, options, connector.format, connector.span, reads=BUS)
            else:
                registry.source(connector.kind, "x", (), options, connector.format, connector.span)
        except Error as problem:
            problem.text = text
            yield from parts(problem)
        else:
            yield stored.text
            yield repr(getattr(stored, "connector", None))
            yield mask_sql(statement.text)


def parts(problem: Error) -> Iterator[str]:
    """All that an error shows, also to programs."""
    assert problem.__cause__ is None
    yield render(problem)
    yield from (str(each) for each in (problem.args, problem.text, problem.message, problem.detail, problem.hint))


@pytest.fixture
def secrets(tmp_path: Path) -> Iterator[Secrets]:
    with Folder(tmp_path / "db") as folder:
        folder.open()
        yield Secrets(folder)


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_no_output_repeats_a_secret(mutate: Mutation, secrets: Secrets) -> None:
    generator = random.Random(SEED)
    for number in range(300):
        text = written(generator)
        mutated = "".join(mutate(TOKENS.findall(text), generator))
        if MARKER in mutated:
            found = [each for each in shown(mutated, secrets) if MARKER in each or MARKER[3:] in each]
            assert found == [], f"{number}: {mutated!r}"


FILE = """\
postgres: {url: 'postgresql://app:%(secret)s@db.example/shop', tables: '*'}
adapters:
  webhook: {url: 'https://example.com/hook?token=%(secret)s', secret: %(secret)s, headers: {X-Key: %(secret)s}}
  sse: {port: 8080, token: "%(secret)s"}  # was token: %(secret)s
  redis: {url: 'redis://localhost', password: '%(secret)s', stream: x}
  kafka: {topic: t, brokers: 'b:9092', kafka.sasl.jaas.config: 'x required password="%(secret)s";'}
"""


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_no_error_of_a_file_repeats_a_secret(mutate: Mutation) -> None:
    generator = random.Random(SEED)
    for number in range(40):
        text = "".join(mutate(TOKENS.findall(FILE % {"secret": MARKER}), generator))
        try:
            found = definitions(complete_config(merge(read_config(Path("listen.yaml"), text, {}), Config())))
            check(found)
            said = [script(found)]
        except Error as problem:
            said = list(parts(problem))
        assert [each for each in said if MARKER in each] == [], f"{number}: {text!r}"


@pytest.mark.parametrize(
    "text",
    [
        'connection to "postgresql://app:{}@db.example/shop" failed',
        "Error 111 connecting to redis://:{}@db.example:6379/0.",
        "Client error '401' for url 'https://example.com/hook?token={}&a=b'",
        'sasl.jaas.config = x required password="{}"; is invalid',
        "cannot log in with {}",
    ],
)
def test_texts_of_libraries_are_cleaned(text: str) -> None:
    secret = f"{MARKER}-of-a-library"
    remember("password", secret)
    said = text.format(secret)
    for problem in (make("PIPELINE_FAILED", message=said), make("PIPELINE_FAILED", detail=said)):
        assert [each for each in parts(problem) if MARKER in each] == []
    assert MARKER not in hide_known(text.format(secret))


def test_a_caret_points_to_the_same_place_in_a_masked_text() -> None:
    text = "CREATE SINK e FROM pgcdc_events INTO SSE (token = \"hunter2\", prot = '8080')"
    with pytest.raises(Error) as caught:
        (statement,) = sql.parse(text).statements
        assert isinstance(statement, s.CreateSink)
        options = [(option.key, option.value, option.span) for option in statement.connector.options]
        registry.sink("sse", "e", EVENTS.columns, options, reads=BUS)
    caught.value.text = text
    _, line, caret, *_ = render(caught.value).splitlines()
    assert line == "  line 1:  CREATE SINK e FROM pgcdc_events INTO SSE (token = \"*******\", prot = '8080')"
    assert caret == " " * line.index("prot") + "^" * len("prot = '8080'")
