"""Files that `tidegate listen --config` rejects, with a caret into the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.listen_command import HEAD, QUERY, rejection


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "listen.yaml"


@pytest.mark.parametrize(
    ("text", "expected"),
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
            "INVALID_OPTION: listen.yaml:2: this ${ begins no reference\n"
            "  line 2:  url: ${1x}\n"
            "                ^^^^^\n"
            "  hint: write ${NAME}, ${NAME:-default} or ${file:/path}, and $$ for a dollar\n",
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
def test_files_that_are_rejected(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    assert rejection("--config", str(file)) == expected


@pytest.mark.parametrize("style", ["|", "|-", "|2"])
def test_the_caret_is_in_the_query_of_the_file(file: Path, style: str) -> None:
    indent = "      " if style == "|2" else "    "
    lines = ["SELECT channel,", "", "  COUNT(*) AS n", "FROM pgcdc_events", "GRUP BY channel"]
    query = "".join(f"{indent}{line}\n" for line in lines)
    file.write_text(f"{HEAD}# why\nviews:\n  a:\n    query: {style}\n{query}".replace("    query", "   query"))
    assert rejection("--config", str(file)) == (
        "SYNTAX_ERROR: listen.yaml:10: view a: unexpected BY\n"
        "  line 10:  GRUP BY channel\n"
        "                 ^^\n"
        "  hint: did you mean GROUP for GRUP?\n"
    )


def test_a_file_that_is_not_there() -> None:
    assert rejection("--config", "none.yaml") == "INVALID_OPTION: cannot read none.yaml: No such file or directory\n"
