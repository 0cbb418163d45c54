"""`tidegate listen --config FILE`: the SQL that a file becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.listen_command import CAPTURE, QUERY, URL, of_file, sql


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "listen.yaml"


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


def test_a_file_with_every_key(file: Path) -> None:
    assert of_file(file, WHOLE, env=ENV) == [
        "CREATE SOURCE `postgres` FROM POSTGRES (url = '${DATABASE_URL}',"
        " tables = 'orders, sales.items', slot = 'mine', publication = 'pub', snapshot = 'initial');",
        "CREATE MATERIALIZED VIEW `order_stats` WITH (emit = 'row', max_groups = '10000')"
        " AS SELECT channel, COUNT(*) as cnt",
        "FROM pgcdc_events",
        "GROUP BY channel",
        "TUMBLING WINDOW 1m;",
        "CREATE SINK `stdout` FROM pgcdc_events INTO STDOUT (format = 'json', channels = 'pgcdc:_view:*');",
        "CREATE SINK `webhook_sink` FROM pgcdc_events INTO WEBHOOK (url = 'https://example.org/hook',"
        " secret = '${HOOK_SECRET}', 'headers.X-Team' = '****', channels = 'pgcdc:_view:*');",
        "CREATE SINK `sse` FROM pgcdc_events INTO SSE (port = '8080', token = '******************',"
        " channels = 'pgcdc:_view:*');",
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
    assert "tables = '$$a$b'" in found[0]
    assert "path = '${HOME_OF_IT:-x}/${EMPTY:-y}'" in found[1]


def test_an_empty_file_adds_nothing(file: Path) -> None:
    assert of_file(file, "# nothing yet\n", *CAPTURE, "--stdout") == sql(*CAPTURE, "--stdout")
