"""`tidegate listen` with flags: the SQL that they become, and what is rejected."""

from __future__ import annotations

import pytest

from tests.cli.listen_command import CAPTURE, QUERY, URL, rejection, sql


def test_tables_to_the_terminal() -> None:
    assert sql(*CAPTURE, "--table", "sales.items", "--stdout") == [
        "CREATE SOURCE `postgres` FROM POSTGRES"
        " (url = 'postgresql://app:******@db.example/shop', tables = 'orders, sales.items');",
        "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT (format = 'json', channels = '*');",
    ]


def test_with_views_the_adapters_get_their_results() -> None:
    _, view, sink = sql(*CAPTURE, "--view-query", f"order_stats:{QUERY}", "--stdout")
    assert view == f"CREATE MATERIALIZED VIEW `order_stats` AS {QUERY};"
    assert sink == "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT (format = 'json', channels = 'pgcdc:_view:*');"


def test_channels_can_be_chosen() -> None:
    found = sql(
        *CAPTURE, "--view-query", f"a:{QUERY}", "--stdout", "--channel", "pgcdc:orders", "--channel", "*:_view:*"
    )
    assert found[-1].endswith("channels = 'pgcdc:orders, *:_view:*');")


def test_how_views_emit() -> None:
    views = ("--view-query", f"a:{QUERY}", "--view-query", "b: SELECT COUNT(*) AS n FROM pgcdc_events ; ")
    found = sql(*CAPTURE, *views, "--view-emit", "batch", "--view-max-groups", "500")
    assert found[1:] == [
        f"CREATE MATERIALIZED VIEW `a` WITH (emit = 'batch', max_groups = '500') AS {QUERY};",
        "CREATE MATERIALIZED VIEW `b` WITH (emit = 'batch', max_groups = '500')"
        " AS SELECT COUNT(*) AS n FROM pgcdc_events;",
    ]


def test_a_query_may_have_colons() -> None:
    query = "SELECT COUNT(*) AS n FROM pgcdc_events WHERE channel = 'pgcdc:orders'"
    assert sql(*CAPTURE, "--view-query", f"n:{query}")[1] == f"CREATE MATERIALIZED VIEW `n` AS {query};"


def test_a_comment_at_the_end_of_a_query_does_not_swallow_the_semicolon() -> None:
    assert sql(*CAPTURE, "--view-query", "n:SELECT COUNT(*) AS n FROM pgcdc_events -- all")[1:] == [
        "CREATE MATERIALIZED VIEW `n` AS SELECT COUNT(*) AS n FROM pgcdc_events -- all",
        ";",
    ]


def test_all_sources() -> None:
    found = sql(
        *(*CAPTURE, "--publication", "pub", "--slot", "slot_1", "--snapshot", "initial"),
        *("--notify", "jobs", "--notify", "mail", "--outbox", "outbox"),
        *("--webhook-source", "8081", "--webhook-source-secret-env", "HOOK"),
        *("--kafka-source", "broker:9092", "--kafka-source-topic", "events", "--stdout"),
        env={"HOOK": "h00k"},
    )
    hidden = "url = 'postgresql://app:******@db.example/shop'"
    assert found[:-1] == [
        f"CREATE SOURCE `postgres` FROM POSTGRES ({hidden}, tables = 'orders', publication = 'pub', slot = 'slot_1',"
        " snapshot = 'initial');",
        f"CREATE SOURCE `notify` FROM NOTIFY (channels = 'jobs, mail', {hidden});",
        f"CREATE SOURCE `outbox` FROM OUTBOX (table = 'outbox', {hidden});",
        "CREATE SOURCE `webhook` FROM WEBHOOK (port = '8081', secret = '${HOOK}');",
        "CREATE SOURCE `kafka` FROM KAFKA (bootstrap_servers = 'broker:9092', topic = 'events');",
    ]


def test_all_adapters() -> None:
    found = sql(
        *(*CAPTURE, "--file", "it's.jsonl"),
        *("--webhook", "https://example.org/hook", "--webhook-secret-env", "HOOK"),
        *("--sse", "8080", "--sse-token-env", "TOKEN", "--kafka", "broker:9092", "--kafka-topic", "events"),
        *("--postgres-sink", URL, "--postgres-sink-table", "events"),
        *("--redis", "redis://127.0.0.1:6379/0", "--redis-stream", "events"),
        env={"HOOK": "h00k", "TOKEN": "t0ken"},
    )
    assert found[1:] == [
        "CREATE SINK `file` FROM pgcdc_events INTO FILE (path = 'it''s.jsonl', channels = '*');",
        "CREATE SINK `webhook_sink` FROM pgcdc_events INTO WEBHOOK"
        " (url = 'https://example.org/hook', secret = '${HOOK}', channels = '*');",
        "CREATE SINK `sse` FROM pgcdc_events INTO SSE (port = '8080', token = '${TOKEN}', channels = '*');",
        "CREATE SINK `kafka_sink` FROM pgcdc_events INTO KAFKA"
        " (bootstrap_servers = 'broker:9092', topic = 'events', format = 'json', channels = '*');",
        "CREATE SINK `postgres_sink` FROM pgcdc_events INTO POSTGRES"
        " (url = 'postgresql://app:******@db.example/shop', table = 'events', channels = '*');",
        "CREATE SINK `redis` FROM pgcdc_events INTO REDIS"
        " (url = 'redis://127.0.0.1:6379/0', stream = 'events', channels = '*');",
    ]


def test_a_database_that_is_only_listened_to() -> None:
    found = sql("--postgres", URL, "--notify", "jobs", "--stdout")
    assert [line.split(" (")[0] for line in found] == [
        "CREATE SOURCE `notify` FROM NOTIFY",
        "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            (),
            "MISSING_OPTION: there is nothing to listen to\n"
            "  hint: add --postgres URL --table NAME, or --config FILE.yaml\n",
        ),
        (
            CAPTURE,
            "MISSING_OPTION: there is no view and no adapter, so there would be no output\n"
            "  hint: add --stdout, or --view-query 'name:SELECT ...'\n",
        ),
        (
            ("--postgres", URL, "--stdout"),
            "MISSING_OPTION: --postgres: the tables to capture are missing\n"
            "  hint: add --table orders, or --table '*' for all tables\n",
        ),
        (("--table", "orders"), "MISSING_OPTION: --table: --postgres is missing\n  hint: add --postgres ...\n"),
        (("--outbox", "outbox"), "MISSING_OPTION: --outbox: --postgres is missing\n  hint: add --postgres ...\n"),
        (
            (*CAPTURE, "--kafka", "broker:9092"),
            "MISSING_OPTION: --kafka: --kafka-topic is missing\n  hint: add --kafka-topic ...\n",
        ),
        (
            (*CAPTURE, "--redis-stream", "events"),
            "MISSING_OPTION: --redis-stream: --redis is missing\n  hint: add --redis ...\n",
        ),
        (
            (*CAPTURE, "--webhook-secret-env", "HOOK"),
            "MISSING_OPTION: --webhook-secret-env: the environment variable HOOK is not set\n  hint: export HOOK=...\n",
        ),
        (
            ("--postgres", "", "--table", "orders"),
            "INVALID_OPTION: --postgres: its value is empty\n  hint: if it is a variable of the shell: is it set?\n",
        ),
        (
            (*CAPTURE, "--view-query", QUERY),
            "INVALID_OPTION: --view-query: 'SELECT channel, COUNT(*) as cnt FROM pgc...' has no name\n"
            "  hint: write --view-query 'name:SELECT ...'\n",
        ),
        (
            (*CAPTURE, "--view-query", f"order-stats:{QUERY}"),
            "INVALID_OPTION: --view-query: 'order-stats' cannot be the name of a view\n"
            "  hint: a name has letters, digits and _, and does not begin with a digit: order_stats\n",
        ),
        (
            (*CAPTURE, "--view-query", "a: "),
            "MISSING_OPTION: --view-query a: view a has no query\n  hint: write --view-query 'a:SELECT ...'\n",
        ),
        (
            (*CAPTURE, "--view-query", f"a:{QUERY}", "--view-query", f"A:{QUERY}"),
            "INVALID_OPTION: --view-query A: view A is declared twice\n"
            "  line 1:  SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 1m\n"
            "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: the first one is --view-query a: give one of them another name\n",
        ),
        (
            (*CAPTURE, "--view-query", f"postgres:{QUERY}"),
            "INVALID_OPTION: --view-query postgres: view postgres has the name of the source\n"
            "  line 1:  SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 1m\n"
            "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: give the view another name\n",
        ),
        (
            (*CAPTURE, "--view-query", f"pgcdc_events:{QUERY}"),
            "INVALID_OPTION: --view-query pgcdc_events: view pgcdc_events has the name of the bus\n"
            "  line 1:  SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 1m\n"
            "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: give the view another name\n",
        ),
        (
            (*CAPTURE, "--stdout", "--view-emit", "rows", "--view-query", f"a:{QUERY}"),
            "INVALID_OPTION: --view-emit: emit cannot be 'rows'\n  hint: expected 'row' or 'batch'\n",
        ),
        (
            (*CAPTURE, "--stdout", "--view-emit", "row"),
            "INVALID_OPTION: --view-emit: there is no view that it applies to\n"
            "  hint: add --view-query 'name:SELECT ...'\n",
        ),
        (
            (*CAPTURE, "--view-query", f"a:{QUERY}", "--view-max-groups", "0"),
            "INVALID_OPTION: --view-max-groups: max_groups cannot be '0'\n  hint: expected a whole number from 1\n",
        ),
        (
            (*CAPTURE, "--channel", "*", "--view-query", f"a:{QUERY}"),
            "INVALID_OPTION: --channel: there is no adapter that it applies to\n"
            "  hint: add --stdout, or another adapter\n",
        ),
        (
            (*CAPTURE, "--stdout", "--data", "a", "--temporary"),
            "INVALID_OPTION: --data and --temporary contradict each other\n  hint: leave one out\n",
        ),
        (
            (*CAPTURE, "--view-query", "a:SELECT x FROM pgcdc_events GRUP BY x"),
            "SYNTAX_ERROR: --view-query a: unexpected BY\n"
            "  line 1:  SELECT x FROM pgcdc_events GRUP BY x\n"
            "                                           ^^\n"
            "  hint: did you mean GROUP for GRUP?\n",
        ),
        (
            (*CAPTURE, "--view-query", "a:SELECT 1 AS x FROM pgcdc_events; DROP SOURCE postgres"),
            "SYNTAX_ERROR: --view-query a: a view is one query\n"
            "  line 1:  SELECT 1 AS x FROM pgcdc_events; DROP SOURCE postgres\n"
            "                                            ^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: leave out what follows the ;\n",
        ),
        (
            (*CAPTURE, "--stdout", "--metrics-port", "-1"),
            "INVALID_OPTION: --metrics-port: it cannot be '-1'\n"
            "  hint: expected a port from 0 to 65535; 0 takes a free one\n",
        ),
        (
            (*CAPTURE, "--sse", "high"),
            "INVALID_OPTION: --sse: option 'port' cannot be 'high'\n"
            "  hint: expected a port from 0 to 65535 (0: any free one)\n",
        ),
        (
            (*CAPTURE, "--webhook", "ftp://a.example"),
            "INVALID_OPTION: --webhook: the url of a webhook is not one that can be posted to\n"
            "  hint: write --webhook https://example.com/hook, with %XX for other signs than ASCII ones\n",
        ),
    ],
)
def test_flags_that_are_rejected(arguments: tuple[str, ...], expected: str) -> None:
    assert rejection(*arguments) == expected
