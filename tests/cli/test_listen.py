"""`tidegate listen`: ports, secrets, the folder, the notice, and the page that documents it."""

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

from tests.cli.listen_command import CAPTURE, HEAD, QUERY, URL, listen, of_file, rejected_run, rejection
from tidegate.cli.listening.config import Config
from tidegate.cli.listening.flags import flag_config
from tidegate.cli.listening.merging import complete_config, merge
from tidegate.cli.listening.notice import notice, notice_lines
from tidegate.cli.listening.page import metrics_page
from tidegate.cli.listening.run import default_folder
from tidegate.cli.listening.sections import read_config


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "listen.yaml"


def test_a_port_for_metrics_that_is_taken_is_reported_before_anything_starts(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert rejected_run(*CAPTURE, "--stdout", "--temporary", "--metrics-port", str(port)) == (
            f"INVALID_OPTION: --metrics-port: port {port} of 127.0.0.1 is in use\n"
            "  hint: choose another port, or stop who listens on it\n"
        )
        file.write_text(f"{HEAD}adapters: {{stdout: true}}\ntemporary: true\nmetrics_port: {port}\n")
        assert rejected_run("--config", str(file)) == (
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
    assert json.loads(rejection("--config", str(file), "--json")) == {
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
    said = rejection("--config", str(file))
    assert "secret: ****, token: [*****], retrys: 3" in said
    file.write_text(f"postgres: {{url: {URL}, tabels: orders, tables: orders}}\nadapters: [stdout]\n")
    assert "s3cret" not in rejection("--config", str(file))


def whole(given: Mapping[str, str], text: str = "", file: str = "listen.yaml") -> Config:
    from_file = read_config(Path(file), text, {}) if text else Config()
    flags = flag_config({"--stdout": "true", **given}, [f"a:{QUERY}"], {})
    return complete_config(merge(from_file, flags))


def test_the_folder_is_known_by_what_is_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    one = default_folder(whole({"--postgres": URL, "--table": "orders"}))
    assert one.parent == Path("/state/tidegate/listen")
    assert one.name.startswith("shop-")
    assert default_folder(whole({"--postgres": URL.replace("s3cret", "new"), "--table": "items"})) == one
    assert default_folder(whole({"--postgres": URL.replace("db.", "other."), "--table": "orders"})) != one
    files = [default_folder(whole({}, HEAD, name)) for name in ("a.yaml", "b.yaml", "a.yaml")]
    assert files[0] == files[2] != files[1]


def test_the_notice_names_what_it_listens_to() -> None:
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


def block(language: str, containing: str) -> str:
    page = (Path(__file__).parents[2] / "docs" / "listen.md").read_text(encoding="utf-8")
    found = [
        body for body in re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if containing in body
    ]
    assert len(found) == 1
    return found[0]


def test_the_command_of_the_page() -> None:
    program, command, *arguments = shlex.split(block("sh", "--stdout").replace("\\\n", " "))
    assert (program, command) == ("tidegate", "listen")
    found = listen(*arguments, "--print-sql")
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
    assert rejection("--config", str(file), env=env) == block("text", "retrys")
    file.write_text(text.replace("GROUP BY channel", "GRUP BY channel"))
    assert rejection("--config", str(file), env=env) == block("text", "GRUP")


def test_the_page_names_every_flag() -> None:
    page = (Path(__file__).parents[2] / "docs" / "listen.md").read_text(encoding="utf-8")
    flags = re.findall(r"--[a-z\-]+", re.sub(r"\x1b\[[0-9;]*m", "", listen("--help").stdout))
    assert [flag for flag in set(flags) - {"--help", "--debug", "--json"} if f"{flag}" not in page] == []
