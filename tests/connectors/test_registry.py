"""Looking up connectors: the built-in ones, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.connectors.streams import ITEMS, option_list
from tidegate.connectors import registry
from tidegate.connectors.contract import CapturedSource, PolledSource, Sink, SinkAbilities
from tidegate.errors import Error

MODULE = """
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidegate.connectors.contract import Connector, PolledSource, Sink, SinkAbilities


@dataclass(frozen=True)
class Greetings(PolledSource):
    word: str

    def content(self, spark):
        rows = {"id": [1, 2], "word": [self.word, None], "__w": [1, 1], "__seq": [0, 1]}
        problems = {"__error": [None, "no word"], "__raw": [None, "2,"]}
        texts = {name: pa.array(values, pa.string()) for name, values in problems.items()}
        return pa.table({**rows, **texts})


@dataclass
class Pigeons(Sink):
    path: Path
    step: int | None = None

    @property
    def abilities(self):
        return SinkAbilities("changelog")

    def open(self, context):
        pass

    def write(self, step, changes):
        with self.path.open("a") as file:
            file.writelines(f"{row}\\n" for row in changes.drop(["op", "weight", "step"]).to_pylist())
        self.step = step

    def last_step(self):
        return self.step

    def close(self):
        pass


GREETING = Connector(source=lambda spec, bag: Greetings(spec, bag.required("word", "hello")))
PIGEON = Connector(sink=lambda spec, bag: Pigeons(spec, Path(bag.required("path", "out.txt"))))
NONSENSE = 42
"""
ENTRY_POINTS = """
[tidegate.connectors]
greeting = tidegate_pigeons:GREETING
carrier-pigeon = tidegate_pigeons:PIGEON
nonsense = tidegate_pigeons:NONSENSE
lost = tidegate_nowhere:LOST
files = tidegate_pigeons:GREETING
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with connectors, with the files that pip writes."""
    (tmp_path / "tidegate_pigeons.py").write_text(MODULE)
    info = tmp_path / "tidegate_pigeons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-pigeons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    registry._installed.cache_clear()


@pytest.mark.parametrize("kind", registry.BUILT_IN)
def test_every_built_in_connector_can_be_loaded(kind: str) -> None:
    connector = registry.BUILT_IN[kind].load()
    assert connector.source is not None or connector.sink is not None
    assert connector.source is None or callable(connector.source)
    assert connector.sink is None or callable(connector.sink)


@pytest.mark.usefixtures("package")
def test_a_source_of_another_package() -> None:
    source = registry.source("greeting", "items", ITEMS, option_list(word="hi"))
    assert isinstance(source, PolledSource) and not isinstance(source, CapturedSource)
    assert (source.spec.kind, source.spec.relation, source.spec.options) == ("GREETING", "items", {"word": "hi"})


@pytest.mark.usefixtures("package")
def test_options_of_another_package_are_checked() -> None:
    with pytest.raises(Error) as missing:
        registry.source("GREETING", "items", ITEMS, [])
    assert missing.value.message == "GREETING needs option 'word'"
    with pytest.raises(Error) as unknown:
        registry.source("GREETING", "items", ITEMS, option_list(word="hi", wrd="x"))
    assert unknown.value.message == "GREETING has no option 'wrd'"
    with pytest.raises(Error, match="source items has no columns"):
        registry.source("GREETING", "items", (), option_list(word="hi"))


@pytest.mark.usefixtures("package")
def test_a_sink_of_another_package() -> None:
    sink = registry.sink("carrier-pigeon", "out", ITEMS, option_list(path="out.txt"))
    assert isinstance(sink, Sink) and sink.abilities == SinkAbilities("changelog")
    assert sink.spec.kind == "CARRIER_PIGEON"


@pytest.mark.usefixtures("package")
def test_connectors_of_another_package_work_in_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(spark=spark) as db:
        db.sql("CREATE TABLE greetings (id BIGINT, word STRING, PRIMARY KEY (id)) FROM GREETING (word = 'hi')")
        db.sql("CREATE VIEW loud AS SELECT id, upper(word) AS word FROM greetings EMIT CHANGES")
        db.sql(f"CREATE SINK out FROM loud INTO CARRIER_PIGEON (path = '{tmp_path}/out.txt')")
        db.step()
        assert db.query("SELECT relation, message FROM system.errors").rows() == [("greetings", "no word")]
    assert (tmp_path / "out.txt").read_text() == "{'id': 1, 'word': 'HI'}\n"


@pytest.mark.usefixtures("package")
def test_unknown_connectors_are_compared_with_those_of_other_packages() -> None:
    with pytest.raises(Error) as close:
        registry.source("greetin", "items", ITEMS, [])
    assert (close.value.code, close.value.hint) == ("UNKNOWN_CONNECTOR", "did you mean GREETING?")
    with pytest.raises(Error) as far:
        registry.sink("abc", "out", ITEMS, [])
    assert "CARRIER_PIGEON" in (far.value.hint or "")


@pytest.mark.usefixtures("package")
def test_a_source_is_not_a_sink() -> None:
    with pytest.raises(Error) as caught:
        registry.sink("greeting", "out", ITEMS, [])
    assert caught.value.message == "GREETING cannot be a sink"


@pytest.mark.usefixtures("package")
def test_a_package_cannot_replace_a_built_in_connector() -> None:
    with pytest.raises(Error, match="FILES needs option 'path'"):
        registry.source("FILES", "items", ITEMS, [])


@pytest.mark.usefixtures("package")
def test_broken_entry_points_are_errors() -> None:
    with pytest.raises(Error) as caught:
        registry.source("lost", "items", ITEMS, [])
    assert str(caught.value) == (
        "UNKNOWN_CONNECTOR: connector LOST cannot be loaded from tidegate_nowhere:LOST\n"
        "  detail: No module named 'tidegate_nowhere'\n"
        "  hint: install or update tidegate-pigeons"
    )
    with pytest.raises(Error) as nonsense:
        registry.source("nonsense", "items", ITEMS, [])
    assert nonsense.value.detail == "it is of type int, not Connector"


def test_without_the_package_there_is_no_such_connector() -> None:
    with pytest.raises(Error) as caught:
        registry.source("greeting", "items", ITEMS, [])
    assert caught.value.message == "there is no connector greeting"
