"""Options: taken out of a bag, checked, shown without their secrets; connectors found by name."""

from __future__ import annotations

import pytest

from tests.connectors.streams import ITEMS, given
from tidegate.connectors import registry
from tidegate.core.options import Bag, options_shown, parse_size
from tidegate.core.secrets import is_secret, mask_sql, masked
from tidegate.errors import Error, Span


def refusal(kind: str, role: str = "source", **options: str) -> str:
    with pytest.raises(Error) as refused:
        build = registry.source if role == "source" else registry.sink
        build(kind, "items", ITEMS, given(**options), span=Span(1, 2))
    assert refused.value.span is not None
    return str(refused.value)


@pytest.mark.parametrize(("text", "size"), [("1024", 1024), ("64kb", 65536), ("2 MB", 2 << 20), ("1GiB", 1 << 30)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_options_are_the_same_in_any_case_and_with_hyphens() -> None:
    bag = Bag("X", given(**{"Max-Rows": "1_000", "HEADER": "True"}))
    assert (bag.integer("max_rows"), bag.boolean("header")) == (1000, True)
    bag.finish()


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(Error) as refused:
        Bag("X", [("a", "1", None), ("A", "2", Span(4, 5))])
    assert str(refused.value) == "INVALID_OPTION: option 'A' is given twice\n  hint: leave one out"
    assert refused.value.span == Span(4, 5)


def test_what_is_left_over_is_refused_with_what_there_is() -> None:
    bag = Bag("X", [("hedaer", "1", Span(4, 9))])
    bag.text("header")
    bag.text("path")
    with pytest.raises(Error) as refused:
        bag.finish()
    assert refused.value.span == Span(4, 9)
    assert str(refused.value) == (
        "UNKNOWN_OPTION: X has no option 'hedaer'\n  detail: options of X: header, path\n  hint: did you mean header?"
    )


def test_a_wrong_value_is_refused_with_what_is_expected() -> None:
    bag = Bag("X", given(wait="soon", size="big", mode="fast"))
    for take, text in [
        (
            lambda: bag.duration("wait"),
            "cannot be 'soon'\n  hint: expected a duration such as '10s', '5 min' or '1h30m'",
        ),
        (lambda: bag.size("size"), "cannot be 'big'\n  hint: expected a size in bytes such as '64mb'"),
        (lambda: bag.choice("mode", ("a", "b")), "cannot be 'fast'\n  hint: expected 'a' or 'b'"),
    ]:
        with pytest.raises(Error) as refused:
            take()
        assert text in str(refused.value)


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
def test_secrets_are_starred_out(key: str) -> None:
    assert is_secret(key) and masked(key, "hunter2") == "***"


@pytest.mark.parametrize(
    "key",
    ["path", "format", "key", "primary_key", "key.format", "key_columns", "fields.token.kind", "tokenizer", "monkey"],
)
def test_other_options_are_shown(key: str) -> None:
    assert masked(key, "hunter2") == "hunter2"


def test_passwords_in_urls_are_starred_out() -> None:
    assert options_shown({"url": "postgres://me:hunter2@db/x"}) == {"url": "postgres://me:***@db/x"}


def test_errors_do_not_show_secrets() -> None:
    bag = Bag("X", given(password="hunter2"))
    with pytest.raises(Error) as refused:
        bag.integer("password")
    assert "hunter2" not in str(refused.value) and "'***'" in str(refused.value)


def test_statements_keep_their_length_when_masked() -> None:
    sql = "CREATE SINK s FROM v INTO POSTGRES (url = 'pg://me:pw@h', \"api-key\"='it''s', 'password' = 'x', a = 'b')"
    hidden = mask_sql(sql)
    assert len(hidden) == len(sql)
    assert hidden == (
        "CREATE SINK s FROM v INTO POSTGRES (url = 'pg://me:**@h', \"api-key\"='*****', 'password' = '*', a = 'b')"
    )


SOURCES = "DATAGEN, FILES, KAFKA, NOTIFY, OUTBOX, POSTGRES or WEBHOOK"
SINKS = "FILE, FILES, KAFKA, POSTGRES, REDIS, SSE, STDOUT or WEBHOOK"


def test_unknown_connectors_are_refused_with_the_nearest() -> None:
    assert refusal("FILS") == "UNKNOWN_CONNECTOR: there is no connector FILS\n  hint: did you mean FILES?"
    assert refusal("carrier-pigeon", "sink") == (
        "UNKNOWN_CONNECTOR: there is no connector carrier-pigeon\n"
        f"  hint: known connectors: {SINKS.replace(' or', ',')}"
    )


@pytest.mark.parametrize("kind", ["mysql", "Iceberg"])
def test_connectors_that_are_not_there_yet_say_so(kind: str) -> None:
    name = kind.upper().replace("-", "_")
    assert refusal(kind) == (f"NOT_SUPPORTED: connector {name} is not built in yet\n  hint: a source can be {SOURCES}")
    assert refusal(kind, "sink").endswith(f"a sink can be {SINKS}")


def test_a_source_is_not_a_sink() -> None:
    assert refusal("STDOUT") == f"NOT_SUPPORTED: STDOUT cannot be a source\n  hint: a source can be {SOURCES}"
    assert refusal("DATAGEN", "sink") == (f"NOT_SUPPORTED: DATAGEN cannot be a sink\n  hint: a sink can be {SINKS}")


def test_names_of_other_systems_are_known() -> None:
    assert registry.canonical("filesystem") == "FILES" and registry.canonical("print") == "STDOUT"
