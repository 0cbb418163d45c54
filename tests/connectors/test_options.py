"""Options are taken out of a bag, checked, and shown without secrets; connectors are looked up by name."""

from __future__ import annotations

import pytest

from tests.connectors.streams import ITEMS, option_list
from tidegate.connectors import registry
from tidegate.core.options import Bag, mask_options, parse_size
from tidegate.core.secrets import is_secret, mask_sql, masked
from tidegate.errors import Error, Span


def error_of(kind: str, role: str = "source", **options: str) -> str:
    with pytest.raises(Error) as caught:
        build = registry.source if role == "source" else registry.sink
        build(kind, "items", ITEMS, option_list(**options), span=Span(1, 2))
    assert caught.value.span is not None
    return str(caught.value)


@pytest.mark.parametrize(("text", "size"), [("1024", 1024), ("64kb", 65536), ("2 MB", 2 << 20), ("1GiB", 1 << 30)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_options_are_the_same_in_any_case_and_with_hyphens() -> None:
    bag = Bag("X", option_list(**{"Max-Rows": "1_000", "HEADER": "True"}))
    assert (bag.integer("max_rows"), bag.boolean("header")) == (1000, True)
    bag.finish()


def test_a_repeated_option_is_rejected() -> None:
    with pytest.raises(Error) as caught:
        Bag("X", [("a", "1", None), ("A", "2", Span(4, 5))])
    assert str(caught.value) == "INVALID_OPTION: option 'A' is given twice\n  hint: leave one out"
    assert caught.value.span == Span(4, 5)


def test_the_error_for_an_unknown_option_lists_the_known_ones() -> None:
    bag = Bag("X", [("hedaer", "1", Span(4, 9))])
    bag.text("header")
    bag.text("path")
    with pytest.raises(Error) as caught:
        bag.finish()
    assert caught.value.span == Span(4, 9)
    assert str(caught.value) == (
        "UNKNOWN_OPTION: X has no option 'hedaer'\n  detail: options of X: header, path\n  hint: did you mean header?"
    )


def test_the_error_for_an_invalid_value_says_what_is_expected() -> None:
    bag = Bag("X", option_list(wait="soon", size="big", mode="fast"))
    for take, text in [
        (
            lambda: bag.duration("wait"),
            "cannot be 'soon'\n  hint: expected a duration such as '10s', '5 min' or '1h30m'",
        ),
        (lambda: bag.size("size"), "cannot be 'big'\n  hint: expected a size in bytes such as '64mb'"),
        (lambda: bag.choice("mode", ("a", "b")), "cannot be 'fast'\n  hint: expected 'a' or 'b'"),
    ]:
        with pytest.raises(Error) as caught:
            take()
        assert text in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        *(
            "password",
            "sasl.password",
            "db_password",
            "ssl.key.password",
            "secret",
            "client-secret",
            "token",
            "auth.token",
        ),
        *("api_key", "API-KEY", "access_key", "apikey", "sasl.jaas.config", "credentials"),
    ],
)
def test_secrets_are_masked(key: str) -> None:
    assert is_secret(key) and masked(key, "hunter2") == "***"


@pytest.mark.parametrize(
    "key",
    [
        "path",
        "format",
        "key",
        "primary_key",
        "key.format",
        "key_columns",
        "fields.token.kind",
        "metadata.token",
        "tokenizer",
        "monkey",
    ],
)
def test_other_options_are_shown(key: str) -> None:
    assert masked(key, "hunter2") == "hunter2"


def test_passwords_in_urls_are_masked() -> None:
    assert mask_options({"url": "postgres://me:hunter2@db/x"}) == {"url": "postgres://me:***@db/x"}


def test_errors_do_not_show_secrets() -> None:
    bag = Bag("X", option_list(password="hunter2"))
    with pytest.raises(Error) as caught:
        bag.integer("password")
    assert "hunter2" not in str(caught.value) and "'***'" in str(caught.value)


def test_statements_keep_their_length_when_masked() -> None:
    sql = "CREATE SINK s FROM v INTO POSTGRES (url = 'pg://me:pw@h', \"api-key\"='it''s', 'password' = 'x', a = 'b')"
    hidden = mask_sql(sql)
    assert len(hidden) == len(sql)
    assert hidden == (
        "CREATE SINK s FROM v INTO POSTGRES (url = 'pg://me:**@h', \"api-key\"='*****', 'password' = '*', a = 'b')"
    )


SOURCES = "DATAGEN, FILES, KAFKA, NOTIFY, OUTBOX, POSTGRES or WEBHOOK"
SINKS = "FILE, FILES, KAFKA, POSTGRES, REDIS, SSE, STDOUT or WEBHOOK"


def test_the_error_for_an_unknown_connector_suggests_the_nearest() -> None:
    assert error_of("FILS") == "UNKNOWN_CONNECTOR: there is no connector FILS\n  hint: did you mean FILES?"
    assert error_of("carrier-pigeon", "sink") == (
        "UNKNOWN_CONNECTOR: there is no connector carrier-pigeon\n"
        f"  hint: known connectors: {SINKS.replace(' or', ',')}"
    )


@pytest.mark.parametrize("kind", ["mysql", "Iceberg"])
def test_planned_connectors_have_their_own_error(kind: str) -> None:
    name = kind.upper().replace("-", "_")
    assert error_of(kind) == (f"NOT_SUPPORTED: connector {name} is not built in yet\n  hint: a source can be {SOURCES}")
    assert error_of(kind, "sink").endswith(f"a sink can be {SINKS}")


@pytest.mark.parametrize(
    ("role", "kind", "options"),
    [
        ("source", "DATAGEN", {}),
        ("sink", "SSE", {}),
        ("sink", "WEBHOOK", {"url": "http://a"}),
        ("sink", "REDIS", {"url": "redis://a", "stream": "a"}),
        ("sink", "POSTGRES", {"url": "postgresql://a/b", "table": "c", "mode": "changelog"}),
    ],
)
def test_a_connector_without_formats_says_so(role: str, kind: str, options: dict[str, str]) -> None:
    assert error_of(kind, role, **options, format="csv") == (
        f"UNKNOWN_FORMAT: {kind} has no formats\n  hint: leave FORMAT out"
    )


def test_a_source_of_events_has_no_formats() -> None:
    with pytest.raises(Error, match="WEBHOOK has no formats"):
        registry.source("WEBHOOK", "hooks", (), [], format="csv")


def test_a_source_is_not_a_sink() -> None:
    assert error_of("STDOUT") == f"NOT_SUPPORTED: STDOUT cannot be a source\n  hint: a source can be {SOURCES}"
    assert error_of("DATAGEN", "sink") == (f"NOT_SUPPORTED: DATAGEN cannot be a sink\n  hint: a sink can be {SINKS}")


def test_connector_names_of_other_systems_are_accepted() -> None:
    assert registry.canonical("filesystem") == "FILES" and registry.canonical("print") == "STDOUT"
