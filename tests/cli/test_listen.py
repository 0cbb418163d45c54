"""`tidegate listen`: flags and YAML become one config, and that becomes SQL. What is wrong is said at its place."""

from __future__ import annotations

import json
import re
import shlex
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tidegate.cli.listening.config import Config
from tidegate.cli.listening.flags import flag_config
from tidegate.cli.listening.merging import completed, merged
from tidegate.cli.listening.notice import notice, notice_lines
from tidegate.cli.listening.page import metrics_page
from tidegate.cli.listening.run import default_folder
from tidegate.cli.listening.sections import read_config
from tidegate.cli.main import app

runner = CliRunner()
URL = "postgresql://app:s3cret@db.example/shop"
QUERY = "SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 1m"
CAPTURE = ("--postgres", URL, "--table", "orders")


def listen(*arguments: str, env: Mapping[str, str] | None = None) -> Result:
    return runner.invoke(app, ["listen", *arguments], env=dict(env or {}))


def sql(*arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
    """What would run."""
    found = listen(*arguments, "--print-sql", env=env)
    assert (found.exit_code, found.stderr) == (0, "")
    return found.stdout.splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "listen.yaml"


def of_file(file: Path, text: str, *arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
    file.write_text(text)
    return sql("--config", str(file), *arguments, env=env)


def refusal(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    return refused_run(*arguments, "--print-sql", env=env)


def refused_run(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    found = listen(*arguments, env=env)
    assert (found.exit_code, found.stdout) == (2, "")
    return found.stderr


# From flags


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
        "CREATE SOURCE `webhook` FROM WEBHOOK (port = '8081', secret = '****');",
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
        " (url = 'https://example.org/hook', secret = '****', channels = '*');",
        "CREATE SINK `sse` FROM pgcdc_events INTO SSE (port = '8080', token = '*****', channels = '*');",
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


# From a file

WHOLE = """\
postgres: {url: ${DATABASE_URL}, tables: [orders, sales.items], slot: mine, publication: pub, snapshot: initial}
views:
  order_stats:
    query: |
      SELECT channel, COUNT(*) as cnt
      FROM pgcdc_events
      GROUP BY channel
      TUMBLING WINDOW 1m
    emit: row
    max_groups: 10_000
adapters:
  stdout: true
  webhook: {url: https://example.org/hook, secret: ${HOOK_SECRET}, headers: {X-Team: shop}}
  sse: {port: 8080, token: "${SSE_TOKEN:-none}"}
  file: events.jsonl
  redis: false
  alerts:
    type: webhook
    url: https://example.org/alerts
    channels: [pgcdc:_view:order_stats]
metrics_port: 9090
data: /tmp/listen-data
"""
ENV = {"DATABASE_URL": URL, "HOOK_SECRET": "h00k"}


def test_a_file_says_it_all(file: Path) -> None:
    assert of_file(file, WHOLE, env=ENV) == [
        "CREATE SOURCE `postgres` FROM POSTGRES (url = 'postgresql://app:******@db.example/shop',"
        " tables = 'orders, sales.items', slot = 'mine', publication = 'pub', snapshot = 'initial');",
        "CREATE MATERIALIZED VIEW `order_stats` WITH (emit = 'row', max_groups = '10000')"
        " AS SELECT channel, COUNT(*) as cnt",
        "FROM pgcdc_events",
        "GROUP BY channel",
        "TUMBLING WINDOW 1m;",
        "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT (format = 'json', channels = 'pgcdc:_view:*');",
        "CREATE SINK `webhook_sink` FROM pgcdc_events INTO WEBHOOK (url = 'https://example.org/hook', secret = '****',"
        " 'headers.X-Team' = 'shop', channels = 'pgcdc:_view:*');",
        "CREATE SINK `sse` FROM pgcdc_events INTO SSE (port = '8080', token = '****', channels = 'pgcdc:_view:*');",
        "CREATE SINK `file` FROM pgcdc_events INTO FILE (path = 'events.jsonl', channels = 'pgcdc:_view:*');",
        "CREATE SINK `alerts` FROM pgcdc_events INTO WEBHOOK"
        " (url = 'https://example.org/alerts', channels = 'pgcdc:_view:order_stats');",
    ]


def test_lists_in_place_of_maps(file: Path) -> None:
    text = f"""\
sources:
  - type: postgres
    url: {URL}
    table: orders
  - {{type: webhook, name: hooks, port: 8081}}
views:
  - name: order_stats
    query: {QUERY}
  - {{name: n, query: SELECT COUNT(*) AS n FROM pgcdc_events, emit: batch}}
sinks:
  - stdout
  - {{type: file, name: log, path: a.jsonl, channels: pgcdc:orders}}
channels: ["*"]
"""
    assert of_file(file, text) == [
        "CREATE SOURCE `postgres` FROM POSTGRES (url = 'postgresql://app:******@db.example/shop', tables = 'orders');",
        "CREATE SOURCE `hooks` FROM WEBHOOK (port = '8081');",
        f"CREATE MATERIALIZED VIEW `order_stats` AS {QUERY};",
        "CREATE MATERIALIZED VIEW `n` WITH (emit = 'batch') AS SELECT COUNT(*) AS n FROM pgcdc_events;",
        "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT (format = 'json', channels = '*');",
        "CREATE SINK `log` FROM pgcdc_events INTO FILE (path = 'a.jsonl', channels = 'pgcdc:orders');",
    ]


def test_flags_win(file: Path) -> None:
    text = """\
postgres: {url: postgresql://elsewhere/shop, tables: [items], slot: mine}
views: {a: SELECT 1 AS x FROM pgcdc_events, b: {query: SELECT 2 AS x FROM pgcdc_events, emit: row}}
adapters: {kafka: {brokers: one:9092, topic: events, format: debezium}}
"""
    flags = (*CAPTURE, "--view-query", f"A:{QUERY}", "--view-emit", "batch", "--kafka", "two:9092", "--channel", "x")
    assert of_file(file, text, *flags) == [
        "CREATE SOURCE `postgres` FROM POSTGRES"
        " (url = 'postgresql://app:******@db.example/shop', tables = 'orders', slot = 'mine');",
        "CREATE MATERIALIZED VIEW `b` WITH (emit = 'row') AS SELECT 2 AS x FROM pgcdc_events;",
        f"CREATE MATERIALIZED VIEW `A` WITH (emit = 'batch') AS {QUERY};",
        "CREATE SINK `kafka_sink` FROM pgcdc_events INTO KAFKA"
        " (bootstrap_servers = 'two:9092', topic = 'events', format = 'debezium', channels = 'x');",
    ]


def test_dollars(file: Path) -> None:
    text = "postgres: {url: 'postgresql://db/shop', tables: $$a$b}\nadapters: {file: '${HOME_OF_IT:-x}/${EMPTY:-y}'}\n"
    found = of_file(file, text, env={"HOME_OF_IT": "/home/it", "EMPTY": ""})
    assert "tables = '$a$b'" in found[0]
    assert "path = '/home/it/y'" in found[1]


def test_an_empty_file_says_nothing(file: Path) -> None:
    assert of_file(file, "# nothing yet\n", *CAPTURE, "--stdout") == sql(*CAPTURE, "--stdout")


# What is refused: flags


@pytest.mark.parametrize(
    ("arguments", "said"),
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
def test_flags_that_are_refused(arguments: tuple[str, ...], said: str) -> None:
    assert refusal(*arguments) == said


# What is refused: a file

HEAD = "postgres: {url: postgresql://db/shop, tables: orders}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "views:\n\ta: 1\n",
            "SYNTAX_ERROR: listen.yaml:2: this is not YAML: found character '\\t' that cannot start any token\n"
            "  hint: indent with blanks, not with tabs\n",
        ),
        (
            "postgres: {url: a\nviews: [",
            "SYNTAX_ERROR: listen.yaml:2: this is not YAML: expected ',' or '}', but got ':'\n",
        ),
        ("a: \x00\n", "SYNTAX_ERROR: listen.yaml:1: this is not YAML: character #x0000 cannot stand in it\n"),
        (
            "- postgres\n",
            "INVALID_OPTION: listen.yaml:1: the file is a list, not a map\n"
            "  line 1:  - postgres\n"
            "           ^^^^^^^^^^\n"
            "  hint: write keys such as views:\n",
        ),
        (
            f"{HEAD}viws: {{}}\n",
            "UNKNOWN_OPTION: listen.yaml:2: the file has no key 'viws'\n"
            "  line 2:  viws: {}\n"
            "           ^^^^\n"
            "  hint: did you mean views?\n",
        ),
        (
            f"{HEAD}{HEAD}",
            "INVALID_OPTION: listen.yaml:2: 'postgres' is given twice\n"
            "  line 2:  postgres: {url: postgresql://db/shop, tables: orders}\n"
            "           ^^^^^^^^\n"
            "  hint: the first one is listen.yaml:1\n",
        ),
        (
            "postgres:\n  url: ${DATABASE_URL}\n  tables: orders\n",
            "MISSING_OPTION: listen.yaml:2: the environment variable DATABASE_URL is not set\n"
            "  line 2:  url: ${DATABASE_URL}\n"
            "                ^^^^^^^^^^^^^^^\n"
            "  hint: export DATABASE_URL=..., or give a default: ${DATABASE_URL:-...}\n",
        ),
        (
            "postgres:\n  url: ${1x}\n",
            "INVALID_OPTION: listen.yaml:2: ${1x} does not name an environment variable\n"
            "  line 2:  url: ${1x}\n"
            "                ^^^^^\n"
            "  hint: write ${NAME} or ${NAME:-default}, and $$ for a dollar\n",
        ),
        (
            "postgres: {url: 'postgresql://db/shop'}\nadapters: [stdout]\n",
            "MISSING_OPTION: listen.yaml:1: the tables to capture are missing\n"
            "  line 1:  postgres: {url: 'postgresql://db/shop'}\n"
            "                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: add tables: [orders], or tables: '*' for all tables\n",
        ),
        (
            f"{HEAD}views:\n  a: {{emit: row}}\n",
            "MISSING_OPTION: listen.yaml:3: view a has no query\n"
            "  line 3:  a: {emit: row}\n"
            "           ^\n"
            "  hint: add query: SELECT ... FROM pgcdc_events ...\n",
        ),
        (
            f"{HEAD}views:\n  - query: SELECT 1\n",
            "MISSING_OPTION: listen.yaml:3: a view in the list has no name\n"
            "  line 3:  - query: SELECT 1\n"
            "             ^^^^^^^^^^^^^^^\n"
            "  hint: add name: order_stats\n",
        ),
        (
            f"{HEAD}views: {QUERY}\n",
            "INVALID_OPTION: listen.yaml:2: views must be a map or a list, not a single value\n"
            "  line 2:  views: SELECT channel, COUNT(*) as cnt FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 1m\n"
            "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: write views: {name: {query: SELECT ...}}, or a list of {name: ..., query: ...}\n",
        ),
        (
            f"{HEAD}views:\n  a: {{query: [1]}}\n",
            "INVALID_OPTION: listen.yaml:3: the query of view a must be a single value, not a list\n"
            "  line 3:  a: {query: [1]}\n"
            "                      ^^^\n"
            "  hint: write query: SELECT ... FROM pgcdc_events ...\n",
        ),
        (
            f"{HEAD}views:\n  a: {{query: SELECT 1, emits: row}}\n",
            "UNKNOWN_OPTION: listen.yaml:3: view a has no key 'emits'\n"
            "  line 3:  a: {query: SELECT 1, emits: row}\n"
            "                                ^^^^^\n"
            "  hint: did you mean emit?\n",
        ),
        (
            f"{HEAD}views:\n  a: {{query: SELECT 1, emit: often}}\n",
            "INVALID_OPTION: listen.yaml:3: emit cannot be 'often'\n"
            "  line 3:  a: {query: SELECT 1, emit: often}\n"
            "                                      ^^^^^\n"
            "  hint: expected 'row' or 'batch'\n",
        ),
        (
            f"{HEAD}views:\n  a: {{query: SELECT 1, max_groups: many}}\n",
            "INVALID_OPTION: listen.yaml:3: max_groups cannot be 'many'\n"
            "  line 3:  a: {query: SELECT 1, max_groups: many}\n"
            "                                            ^^^^\n"
            "  hint: expected a whole number from 1\n",
        ),
        (
            f"{HEAD}views:\n  - {{name: a, query: SELECT 1}}\n  - {{name: A, query: SELECT 1}}\n",
            "INVALID_OPTION: listen.yaml:4: view A is declared twice\n"
            "  line 4:  SELECT 1\n"
            "           ^^^^^^^^\n"
            "  hint: the first one is listen.yaml:3: give one of them another name\n",
        ),
        (
            f"{HEAD}views:\n  my view: SELECT 1\n",
            "INVALID_OPTION: listen.yaml:3: 'my view' cannot be the name of a view\n"
            "  line 3:  my view: SELECT 1\n"
            "           ^^^^^^^\n"
            "  hint: a name has letters, digits and _, and does not begin with a digit: my_view\n",
        ),
        (
            f"{HEAD}adapters:\n  webhok: {{url: a}}\n",
            "UNKNOWN_CONNECTOR: listen.yaml:3: there is no adapter webhok\n"
            "  line 3:  webhok: {url: a}\n"
            "           ^^^^^^\n"
            "  hint: did you mean webhook?\n",
        ),
        (
            f"{HEAD}adapters:\n  alerts: {{url: a}}\n",
            "UNKNOWN_CONNECTOR: listen.yaml:3: there is no adapter alerts\n"
            "  line 3:  alerts: {url: a}\n"
            "           ^^^^^^\n"
            "  hint: say what it is: type: stdout | file | webhook | sse | kafka | postgres | redis\n",
        ),
        (
            f"{HEAD}adapters:\n  - {{path: a}}\n",
            "MISSING_OPTION: listen.yaml:3: this adapter has no type\n"
            "  line 3:  - {path: a}\n"
            "             ^^^^^^^^^\n"
            "  hint: add type: stdout | file | webhook | sse | kafka | postgres | redis\n",
        ),
        (
            f"{HEAD}adapters:\n  - {{type: mail}}\n",
            "UNKNOWN_CONNECTOR: listen.yaml:3: there is no adapter mail\n"
            "  line 3:  - {type: mail}\n"
            "                    ^^^^\n"
            "  hint: known adapters: file, kafka, postgres, redis, sse, stdout, webhook\n",
        ),
        (
            f"{HEAD}adapters: [file, {{type: file, path: b}}]\n",
            "INVALID_OPTION: listen.yaml:2: adapter file is declared twice\n"
            "  line 2:  adapters: [file, {type: file, path: b}]\n"
            "                                   ^^^^\n"
            "  hint: the first one is listen.yaml:2: give one of them another name\n",
        ),
        (
            f"{HEAD}adapters:\n  redis: redis://a\n",
            "INVALID_OPTION: listen.yaml:3: redis must be a map of options\n"
            "  line 3:  redis: redis://a\n"
            "                  ^^^^^^^^^\n"
            "  hint: write redis: {option: value}\n",
        ),
        (
            f"{HEAD}adapters:\n  file: {{path: [[a]]}}\n",
            "INVALID_OPTION: listen.yaml:3: path must be a value or a list of values\n"
            "  line 3:  file: {path: [[a]]}\n"
            "                        ^^^^^\n"
            "  hint: write path: value, or path: [value, value]\n",
        ),
        (
            f"{HEAD}adapters:\n  webhook:\n    url: https://a.example\n    retrys: 3\n",
            "UNKNOWN_OPTION: listen.yaml:5: WEBHOOK has no option 'retrys'\n"
            "  line 5:  retrys: 3\n"
            "           ^^^^^^^^^\n"
            "  detail: options of WEBHOOK: backoff, batch, batch_rows, channels, format, headers.*, max_backoff,"
            " max_retries, secret, timeout, timestamp, url\n"
            "  hint: leave it out\n",
        ),
        (
            f"{HEAD}adapters:\n  kafka: {{topic: events}}\n",
            "MISSING_OPTION: listen.yaml:3: KAFKA needs option 'brokers'\n"
            "  line 3:  kafka: {topic: events}\n"
            "           ^^^^^\n"
            "  hint: add brokers: localhost:9092\n",
        ),
        (
            f"{HEAD}metrics_port: 70000\n",
            "INVALID_OPTION: listen.yaml:2: metrics_port cannot be '70000'\n"
            "  line 2:  metrics_port: 70000\n"
            "                         ^^^^^\n"
            "  hint: expected a port from 0 to 65535; 0 takes a free one\n",
        ),
        (
            f"{HEAD}temporary: perhaps\n",
            "INVALID_OPTION: listen.yaml:2: temporary cannot be 'perhaps'\n"
            "  line 2:  temporary: perhaps\n"
            "                      ^^^^^^^\n"
            "  hint: expected true or false\n",
        ),
        (
            f"{HEAD}data: [a]\n",
            "INVALID_OPTION: listen.yaml:2: data must be a single value, not a list\n"
            "  line 2:  data: [a]\n"
            "                 ^^^\n"
            "  hint: write data: /var/lib/tidegate/shop\n",
        ),
        (
            "postgres: &a\n  url: *a\n",
            "SYNTAX_ERROR: listen.yaml:1: this value contains itself\n"
            "  line 1:  postgres: &a\n"
            "                     ^^\n"
            "  hint: write it out, without the alias\n",
        ),
    ],
)
def test_files_that_are_refused(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    assert refusal("--config", str(file)) == said


@pytest.mark.parametrize("style", ["|", "|-", "|2"])
def test_the_caret_is_in_the_query_of_the_file(file: Path, style: str) -> None:
    indent = "      " if style == "|2" else "    "
    lines = ["SELECT channel,", "", "  COUNT(*) AS n", "FROM pgcdc_events", "GRUP BY channel"]
    query = "".join(f"{indent}{line}\n" for line in lines)
    file.write_text(f"{HEAD}# why\nviews:\n  a:\n    query: {style}\n{query}".replace("    query", "   query"))
    assert refusal("--config", str(file)) == (
        "SYNTAX_ERROR: listen.yaml:10: view a: unexpected BY\n"
        "  line 10:  GRUP BY channel\n"
        "                 ^^\n"
        "  hint: did you mean GROUP for GRUP?\n"
    )


def test_a_file_that_is_not_there() -> None:
    assert refusal("--config", "none.yaml") == "INVALID_OPTION: cannot read none.yaml: No such file or directory\n"


def test_a_port_for_metrics_that_is_taken_is_told_before_anything_starts(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refused_run(*CAPTURE, "--stdout", "--temporary", "--metrics-port", str(port)) == (
            f"INVALID_OPTION: --metrics-port: port {port} of 127.0.0.1 is in use\n"
            "  hint: choose another port, or stop who listens on it\n"
        )
        file.write_text(f"{HEAD}adapters: {{stdout: true}}\ntemporary: true\nmetrics_port: {port}\n")
        assert refused_run("--config", str(file)) == (
            f"INVALID_OPTION: listen.yaml:4: port {port} of 127.0.0.1 is in use\n"
            f"  line 4:  metrics_port: {port}\n"
            f"                         {'^' * len(str(port))}\n"
            "  hint: choose another port, or stop who listens on it\n"
        )


def test_metrics_while_there_is_no_pipeline_yet() -> None:
    with metrics_page(Config(metrics_port=0)) as page:
        assert page.address is not None and page.address.startswith("http://127.0.0.1:")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(page.address, timeout=30)
        with refused.value as answer:
            assert answer.code == 503
            assert json.loads(answer.read()) == {"error": "the pipeline is starting or ending"}
    with metrics_page(Config()) as page:
        assert page.address is None


def test_an_error_for_programs(file: Path) -> None:
    file.write_text(f"{HEAD}viws: 1\n")
    assert json.loads(refusal("--config", str(file), "--json")) == {
        "error": {
            "code": "UNKNOWN_OPTION",
            "message": "listen.yaml:2: the file has no key 'viws'",
            "line": 2,
            "column": 1,
            "hint": "did you mean views?",
        }
    }


def test_errors_do_not_show_secrets(file: Path) -> None:
    secrets = "{url: 'https://a', secret: h00k, token: [t0ken], retrys: 3}"
    file.write_text(f"postgres: {{url: {URL}, tables: orders}}\nadapters: {{webhook: {secrets}}}\n")
    said = refusal("--config", str(file))
    assert "secret: ****, token: [*****], retrys: 3" in said
    file.write_text(f"postgres: {{url: {URL}, tabels: orders, tables: orders}}\nadapters: [stdout]\n")
    assert "s3cret" not in refusal("--config", str(file))


# Where data is, and what is said


def whole(given: Mapping[str, str], text: str = "", file: str = "listen.yaml") -> Config:
    from_file = read_config(Path(file), text, {}) if text else Config()
    flags = flag_config({"--stdout": "true", **given}, [f"a:{QUERY}"], {})
    return completed(merged(from_file, flags))


def test_the_folder_is_known_by_what_is_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    one = default_folder(whole({"--postgres": URL, "--table": "orders"}))
    assert one.parent == Path("/state/tidegate/listen")
    assert one.name.startswith("shop-")
    assert default_folder(whole({"--postgres": URL.replace("s3cret", "new"), "--table": "items"})) == one
    assert default_folder(whole({"--postgres": URL.replace("db.", "other."), "--table": "orders"})) != one
    files = [default_folder(whole({}, HEAD, name)) for name in ("a.yaml", "b.yaml", "a.yaml")]
    assert files[0] == files[2] != files[1]


def test_what_is_said_when_it_listens() -> None:
    config = whole({"--postgres": URL, "--table": "orders, items", "--webhook": "https://u:pass@a.example/hook"})
    assert list(notice_lines(config, Path("/data"), "http://127.0.0.1:9090/metrics")) == [
        "listening to postgres (orders, items)",
        "  views: a",
        "  to stdout: pgcdc:_view:*",
        "  to webhook_sink (https://u:***@a.example/hook): pgcdc:_view:*",
        "  data: /data",
        "  metrics: http://127.0.0.1:9090/metrics",
        "  Ctrl-C ends it",
    ]
    assert notice(config, None, None)["sources"] == {
        "postgres": {"type": "postgres", "url": "postgresql://app:***@db.example/shop", "tables": "orders, items"}
    }


def test_a_folder_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    found = listen(*CAPTURE, "--stdout", "--data", str(tmp_path))
    assert found.exit_code == 2
    assert found.stderr == (
        f"INVALID_OPTION: {tmp_path} has other files in it\n  hint: name a folder for the pipeline: --data DIR\n"
    )


# The page


def block(language: str, containing: str) -> str:
    page = (Path(__file__).parents[2] / "docs" / "listen.md").read_text(encoding="utf-8")
    found = [
        body for body in re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if containing in body
    ]
    assert len(found) == 1
    return found[0]


def test_the_command_of_the_page() -> None:
    program, *arguments = shlex.split(block("sh", "--stdout").replace("\\\n", " "))
    assert program == "tidegate"
    found = runner.invoke(app, [*arguments, "--print-sql"])
    assert found.stdout == block("text", "CREATE SOURCE")


def test_the_file_of_the_page(file: Path) -> None:
    env = {"DATABASE_URL": URL, "SSE_TOKEN": "t0ken", "HOOK_SECRET": "h00k"}
    text = block("yaml", "order_stats")
    assert [line.split(" (")[0] for line in of_file(file, text, env=env) if line.startswith("CREATE SINK")] == [
        "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT",
        "CREATE SINK `sse` FROM pgcdc_events INTO SSE",
        "CREATE SINK `file` FROM pgcdc_events INTO FILE",
        "CREATE SINK `alerts` FROM pgcdc_events INTO WEBHOOK",
    ]
    file.write_text(text.replace("secret: ${HOOK_SECRET}", "retrys: 3"))
    assert refusal("--config", str(file), env=env) == block("text", "retrys")
    file.write_text(text.replace("GROUP BY channel", "GRUP BY channel"))
    assert refusal("--config", str(file), env=env) == block("text", "GRUP")


def test_the_page_names_every_flag() -> None:
    page = (Path(__file__).parents[2] / "docs" / "listen.md").read_text(encoding="utf-8")
    flags = re.findall(r"--[a-z\-]+", re.sub(r"\x1b\[[0-9;]*m", "", listen("--help").stdout))
    assert [flag for flag in set(flags) - {"--help", "--debug", "--json"} if f"{flag}" not in page] == []
