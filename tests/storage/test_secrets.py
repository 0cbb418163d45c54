"""Secrets that statements have literally, and references to secrets, in a data folder."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.core.files import seal, unseal
from tidegate.database import runtime_of
from tidegate.errors import Error, render
from tidegate.runtime.sources import source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKER = "Zq7MARKERx9"
HOOK = f"CREATE SOURCE hook FROM WEBHOOK (port = '0', secret = '{MARKER}');"
STREAM = f'CREATE SINK e FROM pgcdc_events INTO SSE (port = \'0\', "token" = "{MARKER}" /* was token = {MARKER} */);'
BASE = f"""CREATE SOURCE p FROM POSTGRES (
  url = 'postgresql://app:{MARKER}%40x@localhost:1/shop',  -- password={MARKER}
  tables = '*');"""
SCRIPT = "\n".join((HOOK, STREAM, BASE))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "db"


def open_folder(root: Path, spark: SparkSession, read_only: bool = False) -> tidegate.Database:
    return tidegate.connect(root, spark=spark, read_only=read_only)


def files_with(root: Path, text: str) -> list[str]:
    """The files below a folder that contain a text."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [str(path.relative_to(root)) for path in files if text.encode() in path.read_bytes()]


def test_literal_secrets_are_in_a_file_of_their_own(root: Path, spark: SparkSession) -> None:
    with open_folder(root, spark) as db:
        db.run_script(SCRIPT)
        shown = [str(db.sql(f"SHOW CREATE {what}").rows()) for what in ("SOURCE hook", "SINK e", "SOURCE p")]
    assert files_with(root, MARKER) == ["secrets.json"]
    assert stat.S_IMODE((root / "secrets.json").stat().st_mode) == 0o600
    assert all("${secret:" in each and MARKER not in each for each in shown)


def test_a_folder_that_is_opened_again_has_them(root: Path, spark: SparkSession) -> None:
    with open_folder(root, spark) as db:
        db.run_script(SCRIPT)
    with open_folder(root, spark) as db:
        catalog = runtime_of(db).catalog.value
        assert source_of(catalog.get("hook")).options.secret == MARKER  # type: ignore[union-attr]
        assert source_of(catalog.get("p")).server.password == f"{MARKER}@x"  # type: ignore[union-attr]
        before = catalog
        db.run_script(SCRIPT)
        assert runtime_of(db).catalog.value is before


def test_another_secret_is_another_definition(root: Path, spark: SparkSession) -> None:
    with open_folder(root, spark) as db:
        db.run_script(HOOK)
        with pytest.raises(Error) as caught:
            db.run_script(HOOK.replace(MARKER, "another-secret"))
        assert caught.value.code == "PIPELINE_CHANGED"
        assert MARKER not in render(caught.value) and "another-secret" not in render(caught.value)
        db.sql(HOOK.replace("CREATE", "CREATE OR REPLACE").replace(MARKER, "another-secret"))
    with open_folder(root, spark) as db:
        assert files_with(root, MARKER) == []
        assert files_with(root, "another-secret") == ["secrets.json"]


def test_a_folder_of_an_earlier_version_keeps_its_meaning(root: Path, spark: SparkSession) -> None:
    text = HOOK.replace(MARKER, "pa$$${word}")
    with open_folder(root, spark) as db:
        db.sql(HOOK)
    catalog, ledger = root / "catalog.json", root / "ledger.json"
    document = json.loads(unseal("catalog", catalog.read_bytes()))
    (relation,) = document["relations"]
    relation["sql"] = text.rstrip(";")
    relation["connector"] = {
        "@kind": "connector",
        "kind": "webhook",
        "options": [["port", "0"], ["secret", "pa$$${word}"]],
    }
    catalog.write_bytes(seal("catalog", json.dumps(document).encode()))
    assert ledger.exists()
    with open_folder(root, spark) as db:
        assert source_of(runtime_of(db).catalog.value.get("hook")).options.secret == "pa$$${word}"  # type: ignore[union-attr]
        db.run_script(text)
        assert "pa$$" not in str(db.sql("SHOW CREATE SOURCE hook").rows())
        assert source_of(runtime_of(db).catalog.value.get("hook")).options.secret == "pa$$${word}"  # type: ignore[union-attr]


def test_references_are_resolved_when_the_connector_starts(
    root: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{MARKER}-file\n")
    monkeypatch.setenv("HOOK_SECRET", f"{MARKER}-env")
    with open_folder(root, spark) as db:
        db.sql("CREATE SOURCE hook FROM WEBHOOK (port = '0', secret = '${HOOK_SECRET}')")
        db.sql(f"CREATE SINK e FROM pgcdc_events INTO SSE (port = '0', token = '${{file:{tmp_path}/token}}')")
        assert db.sql("SHOW CREATE SOURCE hook").rows()[0][1].endswith("secret = '${HOOK_SECRET}')")
    assert files_with(root, MARKER) == []
    monkeypatch.setenv("HOOK_SECRET", "changed-since")
    with open_folder(root, spark) as db:
        assert source_of(runtime_of(db).catalog.value.get("hook")).options.secret == "changed-since"  # type: ignore[union-attr]
        monkeypatch.delenv("HOOK_SECRET")
        with pytest.raises(Error) as caught:
            db.step()
        assert render(caught.value) == (
            "MISSING_OPTION: source hook: option 'secret': the environment variable HOOK_SECRET is not set\n"
            "  line 1:  CREATE SOURCE hook FROM WEBHOOK (port = '0', secret = '${HOOK_SECRET}')\n"
            "                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "  hint: export HOOK_SECRET=..., or give a default: ${HOOK_SECRET:-...}"
        )
        db.sql("DROP SINK e")
        db.sql("DROP SOURCE hook")


def test_an_unset_variable_is_an_error_of_create(root: Path, spark: SparkSession) -> None:
    assert "UNSET_TOKEN" not in os.environ
    with open_folder(root, spark) as db, pytest.raises(Error) as caught:
        db.sql("CREATE SINK e FROM pgcdc_events INTO SSE (\n  port = '0',\n  token = '${UNSET_TOKEN}')")
    assert render(caught.value) == (
        "MISSING_OPTION: option 'token': the environment variable UNSET_TOKEN is not set\n"
        "  line 3:  token = '${UNSET_TOKEN}')\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: export UNSET_TOKEN=..., or give a default: ${UNSET_TOKEN:-...}"
    )


def test_a_lost_file_of_secrets_is_an_error_at_the_start(root: Path, spark: SparkSession) -> None:
    with open_folder(root, spark) as db:
        db.sql(HOOK.replace(MARKER, "lost-with-the-file"))
        relation = runtime_of(db).catalog.value.get("hook")
    assert relation.connector is not None
    name = dict(relation.connector.options)["secret"][len("${secret:") : -1]
    (root / "secrets.json").unlink()
    from tidegate.core import references

    references._stored.pop(name)
    with open_folder(root, spark) as db, pytest.raises(Error) as caught:
        db.step()
    assert caught.value.message == f"source hook: option 'secret': the data folder does not have the secret {name}"
