"""The commands and their options. Bodies are imported when they run, so that `--help` answers at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.guard import guard
from tidegate.cli.listen import listen
from tidegate.cli.restarts import RestartPolicy
from tidegate.core.durations import EXPECTED, SECOND, parse_micros

app = typer.Typer(
    name="tidegate",
    help="Streaming SQL on Apache Spark that lets you say when results leave.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class QueryFormat(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    arrow = "arrow"


class ChangeFormat(StrEnum):
    ops = "ops"
    debezium = "debezium"
    json = "json"


class Stage(StrEnum):
    parsed = "parsed"
    bound = "bound"
    rewritten = "rewritten"
    circuit = "circuit"


Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark master, e.g. spark://host:7077.")]
Files = Annotated[list[Path], typer.Argument(metavar="FILE.sql", help="SQL files, run in this order.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The data folder of a pipeline.")]


def seconds(text: str) -> float:
    """A duration, or a bare number of seconds."""
    try:
        return float(text)
    except ValueError:
        pass
    micros = parse_micros(text)
    if micros is None:
        raise typer.BadParameter(f"'{text}' is not {EXPECTED}")
    return micros / SECOND


def _version(show: bool) -> None:
    if show:
        from importlib.metadata import version

        typer.echo(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Streaming SQL on Apache Spark that lets you say when results leave."""
    from tidegate.cli.logging import install

    install()


@app.command()
def run(
    files: Files,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Default: ./<stem of FILE>.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Run until bounded inputs end, then stop.")] = False,
    master: Master = None,
    show: Annotated[bool, typer.Option("--show", help="Print the content of the views at the end.")] = False,
    skip_poison: Annotated[
        bool,
        typer.Option("--skip-poison", help="Views with on_error = 'stop' record rows that fail, and go on."),
    ] = False,
    restart: Annotated[
        RestartPolicy, typer.Option("--restart", help="Whether a pipeline that fails is started again.")
    ] = RestartPolicy.on_failure,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline, with a live table of what it does. Ctrl-C ends it cleanly."""
    with guard(debug, as_json):
        from tidegate.cli.run import run_pipeline

        run_pipeline(
            files,
            data=data,
            once=once,
            master=master,
            show=show,
            skip_poison=skip_poison,
            restart=restart,
            as_json=as_json,
        )


@app.command()
def test(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Spec files, or folders of them.")],
    restarts: Annotated[bool, typer.Option("--restarts", help="Run each again, restarting between steps.")] = False,
    word: Annotated[
        str | None, typer.Option("-k", metavar="WORD", help="Only files with WORD in name or title.")
    ] = None,
    jobs: Annotated[int, typer.Option("-j", metavar="N", min=1, help="Number of parallel processes.")] = 1,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run spec files: pipelines with rows in and rows out, in virtual time."""
    with guard(debug, as_json):
        from tidegate.cli.specs import run_specs

        raise typer.Exit(run_specs(paths, restarts=restarts, word=word, jobs=jobs, as_json=as_json))


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE.sql")],
    view: Annotated[str | None, typer.Argument(metavar="VIEW", help="Default: every view of the file.")] = None,
    stage: Annotated[Stage, typer.Option("--stage", help="Compilation stage to print.")] = Stage.circuit,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the plan of a view, with its traits on every line."""
    with guard(debug, as_json):
        from tidegate.cli.explain import explain_file

        explain_file(file, view, stage.value, as_json=as_json)


@app.command()
def query(
    folder: Folder,
    sql: Annotated[str, typer.Argument(metavar="SELECT", help='The query, e.g. "SELECT * FROM revenue".')],
    as_of: Annotated[int | None, typer.Option("--as-of", metavar="STEP", help="Content as of that step.")] = None,
    format: Annotated[QueryFormat, typer.Option("--format", help="Output format.")] = QueryFormat.table,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run an ad-hoc query, also while the pipeline runs elsewhere."""
    with guard(debug, as_json):
        from tidegate.cli.query import query_folder

        query_folder(folder, sql, as_of, "json" if as_json else format.value)


@app.command()
def tail(
    folder: Folder,
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    start: Annotated[int | None, typer.Option("--from", metavar="STEP", help="Start at that step.")] = None,
    format: Annotated[ChangeFormat, typer.Option("--format", help="Output format.")] = ChangeFormat.ops,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="TIME", parser=seconds, help="Stop after an idle time: 10, 10s, 5 min."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print existing changes, then stop.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Follow the changes of a view, until Ctrl-C."""
    with guard(debug, as_json):
        from tidegate.cli.tail import follow

        follow(folder, view, start, "json" if as_json else format.value, 0.0 if once else timeout)


@app.command()
def sql(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="Default: a temporary one.")] = None,
    master: Master = None,
    debug: Debug = False,
) -> None:
    """Open an interactive shell. Statements may also come by a pipe."""
    with guard(debug):
        from tidegate.cli.shell import open_shell

        open_shell(folder, master)


app.command()(listen)


@app.command()
def doctor(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to check.")] = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check Java, Python, PySpark and a folder, and say what to do."""
    with guard(debug, as_json):
        from tidegate.cli.doctor import examine

        raise typer.Exit(0 if examine(folder, as_json=as_json) else 1)


def main() -> None:
    """The entry point of the `tidegate` program."""
    app()
