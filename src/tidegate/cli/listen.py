"""`tidegate listen`: change data capture in one command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.guard import guard

if TYPE_CHECKING:
    from tidegate.cli.listening.config import Config

SOURCE, VIEW, ADAPTER, RUN = "Sources", "Views", "Adapters", "Running"


def _option(flag: str, panel: str, metavar: str | None, help: str) -> Any:
    return typer.Option(flag, metavar=metavar, rich_help_panel=panel, help=help)


Text = str | None
Texts = list[str] | None


def listen(
    context: typer.Context,
    postgres: Annotated[Text, _option("--postgres", SOURCE, "URL", "postgresql://user:password@host/database")] = None,
    table: Annotated[Texts, _option("--table", SOURCE, "NAME", "Table to capture. Repeatable; '*' for all.")] = None,
    publication: Annotated[Text, _option("--publication", SOURCE, "NAME", "Default: created automatically.")] = None,
    slot: Annotated[Text, _option("--slot", SOURCE, "NAME", "Default: created automatically.")] = None,
    snapshot: Annotated[
        Text, _option("--snapshot", SOURCE, "initial|never", "initial: existing rows come first.")
    ] = None,
    notify: Annotated[Texts, _option("--notify", SOURCE, "CHANNEL", "LISTEN to it at --postgres. Repeatable.")] = None,
    outbox: Annotated[Text, _option("--outbox", SOURCE, "TABLE", "An outbox table at --postgres.")] = None,
    webhook_source: Annotated[
        Text, _option("--webhook-source", SOURCE, "PORT", "Accept POSTs at /hooks on this port.")
    ] = None,
    webhook_source_secret_env: Annotated[
        Text, _option("--webhook-source-secret-env", SOURCE, "NAME", "Environment variable with the signing key.")
    ] = None,
    kafka_source: Annotated[Text, _option("--kafka-source", SOURCE, "BROKERS", "Reads a topic of Kafka.")] = None,
    kafka_source_topic: Annotated[
        Text, _option("--kafka-source-topic", SOURCE, "TOPIC", "Which topic to read.")
    ] = None,
    view_query: Annotated[Texts, _option("--view-query", VIEW, "NAME:SELECT ...", "A view. Repeatable.")] = None,
    view_emit: Annotated[Text, _option("--view-emit", VIEW, "row|batch", "One event per group or per window.")] = None,
    view_max_groups: Annotated[
        int | None, _option("--view-max-groups", VIEW, "N", "Maximum groups per view; the rest is counted.")
    ] = None,
    channel: Annotated[
        Texts, _option("--channel", ADAPTER, "PATTERN", "Default: results of views; without views, all. Repeatable.")
    ] = None,
    stdout: Annotated[
        bool, _option("--stdout", ADAPTER, "", "JSON lines on stdout; everything else goes to stderr.")
    ] = False,
    file: Annotated[Text, _option("--file", ADAPTER, "PATH", "JSON lines in a file that is rotated.")] = None,
    webhook: Annotated[Text, _option("--webhook", ADAPTER, "URL", "POSTs each event.")] = None,
    webhook_secret_env: Annotated[
        Text, _option("--webhook-secret-env", ADAPTER, "NAME", "Environment variable with the signing key.")
    ] = None,
    sse: Annotated[Text, _option("--sse", ADAPTER, "PORT", "Server-sent events at /events of this machine.")] = None,
    sse_token_env: Annotated[
        Text, _option("--sse-token-env", ADAPTER, "NAME", "Environment variable with the clients' token.")
    ] = None,
    kafka: Annotated[Text, _option("--kafka", ADAPTER, "BROKERS", "Write to a Kafka topic.")] = None,
    kafka_topic: Annotated[Text, _option("--kafka-topic", ADAPTER, "TOPIC", "Which topic.")] = None,
    postgres_sink: Annotated[Text, _option("--postgres-sink", ADAPTER, "URL", "Write to a PostgreSQL table.")] = None,
    postgres_sink_table: Annotated[Text, _option("--postgres-sink-table", ADAPTER, "NAME", "Which table.")] = None,
    redis: Annotated[Text, _option("--redis", ADAPTER, "URL", "Write to a Redis stream.")] = None,
    redis_stream: Annotated[Text, _option("--redis-stream", ADAPTER, "NAME", "Which stream.")] = None,
    config: Annotated[Path | None, _option("--config", RUN, "FILE.yaml", "YAML file; flags take precedence.")] = None,
    data: Annotated[
        Path | None, _option("--data", RUN, "DIR", "Data folder. Default: created in ~/.local/state/tidegate.")
    ] = None,
    temporary: Annotated[bool, _option("--temporary", RUN, "", "Keep no state between runs.")] = False,
    once: Annotated[bool, _option("--once", RUN, "", "Process available input, then stop.")] = False,
    print_sql: Annotated[bool, _option("--print-sql", RUN, "", "Print the SQL that would run, and exit.")] = False,
    metrics_port: Annotated[int | None, _option("--metrics-port", RUN, "N", "Prometheus metrics at /metrics.")] = None,
    metrics_host: Annotated[Text, _option("--metrics-host", RUN, "HOST", "Default: 127.0.0.1.")] = None,
    master: Annotated[Text, _option("--master", RUN, "URL", "Spark master, e.g. spark://host:7077.")] = None,
    as_json: Annotated[bool, _option("--json", RUN, "", "Print JSON, for programs.")] = False,
    debug: Annotated[bool, _option("--debug", RUN, "", "Show a traceback when something fails.")] = False,
) -> None:
    """Capture changes, keep SQL views of them, and send what comes of it wherever it should go. Ctrl-C ends it.

    tidegate listen --postgres postgresql://app:secret@localhost/shop --table orders --stdout
    --view-query 'sales:SELECT COUNT(*) AS n FROM pgcdc_events TUMBLING WINDOW 1m'
    """
    with guard(debug, as_json):
        from tidegate.cli.listening.flags import FLAGS, flag_config

        flag_values = {name: context.params[name.removeprefix("--").replace("-", "_")] for name in FLAGS}
        flags = flag_config(
            {name: _text(value) for name, value in flag_values.items() if value or value == ""},
            view_query or (),
            os.environ,
            channels=channel or (),
            emit=view_emit,
            max_groups=view_max_groups,
            data=data,
            temporary=temporary,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            master=master,
        )
        _run(config, flags, once=once, print_sql=print_sql, as_json=as_json)


def _text(value: str | bool | Sequence[str]) -> str:
    return str(value) if isinstance(value, str | bool) else ", ".join(value)


def _run(file: Path | None, flags: Config, *, once: bool, print_sql: bool, as_json: bool) -> None:
    from tidegate.cli.listening.declaring import check
    from tidegate.cli.listening.merging import complete_config, merge
    from tidegate.cli.listening.run import listen_to
    from tidegate.cli.listening.statements import definitions, script

    config = complete_config(merge(_read(file), flags))
    statements = definitions(config)
    check(statements)
    if print_sql:
        print(script(statements))
    else:
        listen_to(config, statements, once=once, as_json=as_json)


def _read(file: Path | None) -> Config:
    from tidegate.cli.listening.config import Config
    from tidegate.cli.listening.sections import read_config
    from tidegate.cli.opening import read_script

    return Config() if file is None else read_config(file, read_script(file).removeprefix("\ufeff"), os.environ)
