"""From the catalog to what Spark maintains: the circuit, and the pipeline that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import circuit, compile
from tidegate.catalog import Catalog
from tidegate.catalog.bus import BUS, DEFAULT_IDLE, OF_VIEW, RESULTS
from tidegate.catalog.maintained import event_views
from tidegate.circuit.model import Circuit
from tidegate.connectors.contract import StreamSource
from tidegate.core.durations import parse_micros
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.event_results import ReturningView
from tidegate.runtime.sources import source_of
from tidegate.spark.connection import SparkConnection
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_log import StepLog
from tidegate.traits.watermark import DeclaredWatermark, walk

if TYPE_CHECKING:
    from tidegate.spark.generation import PipelineDefinition


class Definitions:
    """Compiles the catalog into a circuit, again whenever the catalog or the use of the event bus has changed."""

    def __init__(self, catalog: CurrentCatalog, ledger: Ledger, log: StepLog, spark: SparkConnection) -> None:
        self._catalog, self._ledger, self._log, self._spark = catalog, ledger, log, spark
        self._built: tuple[Catalog, bool, Circuit] | None = None

    def circuit(self) -> Circuit:
        """The circuit of everything that is maintained."""
        start_steps, catalog = self._ledger.start_steps(), self._catalog.value
        if self._built is None or self._built[0] is not catalog or self._built[1] != (BUS in start_steps):
            self._built = (catalog, BUS in start_steps, compile.build(catalog, self._spark.analyzer, start_steps))
        return self._built[2]

    def pipeline(self) -> PipelineDefinition | None:
        """The pipeline to run; None if nothing is maintained."""
        built = self.circuit()
        if not built.outputs and not built.ops:
            return None
        return _definition(built, self._catalog.value, self._ledger)

    def returning_views(self) -> list[ReturningView]:
        """The views whose results return to the event bus."""
        views = event_views(self._catalog.value)
        if not views:
            return []
        keys = {output.relation: output.key for output in self.circuit().outputs}
        start_steps = self._ledger.start_steps()
        return [
            ReturningView(
                view, keys[RESULTS + view.name], view.option("emit") == "batch", start_steps.get(view.name, 0)
            )
            for view in views
        ]

    def group_counts(self) -> dict[str, int]:
        """The number of groups in state behind each relation."""
        built, counts = self.circuit(), self._log.header(self._log.last()).groups
        return {
            output.relation: sum(counts.get(op, 0) for op in circuit.ops_behind(built, output))
            for output in built.outputs
        }


def _definition(built: Circuit, catalog: Catalog, ledger: Ledger) -> PipelineDefinition:
    from tidegate.spark.generation import PipelineDefinition, fingerprint

    relations = [catalog.get(item.relation) for item in built.inputs]
    connected = {relation.name: source_of(relation) for relation in relations if relation.connector is not None}
    sources = {name: source for name, source in connected.items() if isinstance(source, StreamSource)}
    first = ledger.first_entries()
    fed = {relation.name: first.get(relation.name, 0) for relation in relations if relation.name not in sources}
    start_steps = {
        name: step
        for name, step in ledger.start_steps().items()
        if any(name == each.relation for each in built.outputs)
    }
    logged = frozenset(each.name for each in relations if each.kind == "table" and each.append_only and not each.key)
    idle = {each.name: parse_micros(option) or 0 for each in relations if (option := each.option("idle_timeout"))}
    idle |= _idle_views(built, catalog)
    return PipelineDefinition(
        built, sources, fed, fingerprint(built, sources, fed, start_steps), logged, start_steps, idle
    )


def _idle_views(built: Circuit, catalog: Catalog) -> dict[str, int]:
    """The idle timeout of each view over events that has an event time of its own."""
    timeouts = {}
    for line in walk(built.watermarks):
        if isinstance(line, DeclaredWatermark) and line.relation.endswith(OF_VIEW):
            view = catalog.find(line.relation.removesuffix(OF_VIEW))
            option = view.option("idle_timeout") if view is not None else None
            timeouts[line.relation] = parse_micros(option or DEFAULT_IDLE) or 0
    return timeouts
