"""The relations that the oracle follows: inputs, views, and which view reads which relation from which row on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.sql.statements import Query
from tidegate.testing.oracle.amounts import Amount
from tidegate.testing.oracle.emit import Emit
from tidegate.testing.oracle.inference import Evaluate
from tidegate.testing.oracle.inputs import Input, InputSource
from tidegate.testing.oracle.view import Source, ViewModel


@dataclass
class View:
    """The definition of a view. `starts`: how many rows each source had when the view was created."""

    name: str
    query: Query
    materialized: bool
    reads: tuple[str, ...]
    emit: Emit = field(default_factory=Emit)
    aliases: tuple[str, ...] = ()
    starts: dict[str, int] = field(default_factory=dict)


class Graph:
    """Inputs, views and their models, all by name in lower case.

    A view that is not materialized has one model per reader, because it reads sources from the start of its reader."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self.inputs: dict[str, Input] = {}
        self.views: dict[str, View] = {}
        self.models: dict[str, ViewModel] = {}
        self.sources: dict[tuple[str, int], InputSource] = {}
        self._lateness: dict[str, dict[str, Amount]] = {}
        self._plain: dict[tuple[object, ...], ViewModel] = {}

    def add_view(self, view: View, clock: int) -> ViewModel:
        """Add or replace a view. Its readers read the new one."""
        self.views[view.name] = view
        # A query of a view that is not maintained reads all rows of its sources, whenever the view was created.
        sources = self._sources_of(view.reads) if view.materialized else ()
        view.starts = {source: len(self.inputs[source].rows) for source in sources}
        model = self.models[view.name] = self._make(view, view.starts, clock)
        changed = {view.name}
        for reader in self.views.values():
            if reader.name != view.name and changed & set(reader.reads):
                changed.add(reader.name)
                self.models[reader.name] = self._make(reader, reader.starts, clock)
        return model

    def drop(self, name: str) -> None:
        """Remove a relation and all views that read it."""
        for view in [each.name for each in self.views.values() if name in each.reads]:
            self.drop(view)
        self.views.pop(name, None)
        self.models.pop(name, None)
        self._plain = {key: each for key, each in self._plain.items() if each.name != name}
        if self.inputs.pop(name, None) is not None:
            self.sources = {key: each for key, each in self.sources.items() if key[0] != name}

    def declare_lateness(self, view: str, column: str, delay: Amount) -> None:
        self._lateness.setdefault(view, {})[column] = delay
        for model in self.maintained():
            if model.name == view:
                model.lateness.delays[column] = delay

    def maintained(self) -> list[ViewModel]:
        """The models that go through every micro-batch."""
        materialized = [model for name, model in self.models.items() if self.views[name].materialized]
        return [*self._plain.values(), *materialized]

    def source(self, name: str, start: int) -> InputSource:
        """An input, read from its row number `start` on."""
        if (name, start) not in self.sources:
            self.sources[name, start] = InputSource(self.inputs[name], start)
        return self.sources[name, start]

    def inputs_of(self, name: str) -> list[Input]:
        """The inputs that a relation is computed from, directly or through views."""
        if name in self.inputs:
            return [self.inputs[name]]
        view = self.views.get(name)
        return [] if view is None else [each for below in view.reads for each in self.inputs_of(below)]

    def declares_lateness(self, name: str) -> bool:
        """True if a view, or one below it, has LATENESS of its own."""
        view = self.views.get(name)
        return name in self._lateness or (view is not None and any(map(self.declares_lateness, view.reads)))

    def _make(self, view: View, starts: dict[str, int], clock: int) -> ViewModel:
        sources: dict[str, Source] = {}
        for name in view.reads:
            if name in self.inputs:
                sources[name] = self.source(name, starts.get(name, 0))
            elif name in self.views and self.views[name].materialized:
                sources[name] = self.models[name]
            elif name in self.views:
                sources[name] = self._plain_model(self.views[name], starts, clock)
        model = ViewModel(view.name, view.query, view.emit, sources, self._evaluate, clock, view.aliases)
        model.lateness.delays.update(self._lateness.get(view.name, {}) if view.materialized else {})
        return model

    def _plain_model(self, view: View, starts: dict[str, int], clock: int) -> ViewModel:
        """The model of a view that is not materialized, for a reader with these starts."""
        used = {name: starts[name] for name in self._sources_of(view.reads) if name in starts}
        model = self._make(view, used, clock)
        model.lateness.delays.update(self._lateness.get(view.name, {}))
        key = (view.name, tuple(sorted(used.items())), id(model) if model.timed else 0)
        return self._plain.setdefault(key, model)

    def _sources_of(self, names: Iterable[str]) -> set[str]:
        """The sources that are read directly or through views that are not materialized."""
        sources: set[str] = set()
        for name in names:
            if name in self.inputs and self.inputs[name].source:
                sources.add(name)
            elif name in self.views and not self.views[name].materialized:
                sources |= self._sources_of(self.views[name].reads)
        return sources
