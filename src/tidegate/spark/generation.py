"""A generation: one circuit with its own Spark checkpoint. When the circuit changes, the next generation takes over the
positions of the inputs, and the state of every op that both have: state belongs to the step, so nothing is copied. A
new op or output over an existing op begins with the whole content of that op (a replay)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from tidegate.circuit.identity import digest
from tidegate.circuit.model import Branch, Circuit, Input
from tidegate.connectors import registry
from tidegate.connectors.contract import SourceSpec, StreamSource
from tidegate.core.columns import Producer
from tidegate.core.schema import Schema
from tidegate.spark import blocks
from tidegate.spark.consumers import Consumer, Replays, consumers
from tidegate.storage.generations import CODEC, FeedStart, GenerationFiles, GenerationRecord

FEED_START: dict[str, Any] = {"entry": 0, "tick": 0, "time": 0, "lines": {}}


@dataclass(frozen=True)
class PipelineDefinition:
    """What a pipeline should run: the circuit, the connectors of its inputs in the order of Spark's offsets, the first
    log entry that counts for each input that the insert log feeds, a text that changes when any of it does, the inputs
    that are tables although no op keeps their rows (their content is in the step log), and the step after which each
    relation was created, and the `idle_timeout` of those that have one, in microseconds."""

    circuit: Circuit
    sources: Mapping[str, StreamSource]
    fed: Mapping[str, int]
    fingerprint: str
    logged: frozenset[str] = frozenset()
    begun: Mapping[str, int] = field(default_factory=dict)
    idle: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Generation:
    """A generation, which never changes once it has begun.

    `base_step`: the last step of the generations before; `start`: the first offset of the feed; `positions`: the source
    positions at which connectors continue; `carried`: the ops whose state is taken over.
    """

    number: int
    base_step: int
    definition: PipelineDefinition
    start: dict[str, Any]
    positions: dict[str, Any] = field(default_factory=dict)
    carried: frozenset[str] = frozenset()
    known_outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def circuit(self) -> Circuit:
        return self.definition.circuit

    @property
    def fingerprint(self) -> str:
        return self.definition.fingerprint

    def replays(self) -> Replays:
        """The new consumers of carried ops."""
        of_carried = [
            consumer
            for consumer in consumers(self.circuit)
            if consumer.branch.producer in self.carried and consumer.branch.origin is None
        ]
        return Replays(tuple(consumer for consumer in of_carried if self.is_new(consumer)))

    def is_new(self, consumer: Consumer) -> bool:
        if consumer.ingress is not None:
            return False
        if consumer.op is not None:
            return consumer.op.id not in self.carried
        return consumer.address.removeprefix(blocks.OUTPUT) in self.new_outputs()

    def new_outputs(self) -> set[str]:
        """The outputs that are new, or read other rows than before."""
        return {name for name, read in outputs_read(self.definition).items() if self.known_outputs.get(name) != read}


def backfilled(
    definition: PipelineDefinition, generation: Generation, name: Callable[[str], str]
) -> tuple[PipelineDefinition, dict[str, str]]:
    """Give every new consumer of a relation whose rows no op stores a second branch, from an input that delivers the
    content of the relation once. Returns the definition, and the names of these inputs by relation."""
    circuit, names = generation.circuit, {}
    for view, columns in sorted(_views_to_backfill(generation).items()):
        names[view] = name(view)
        circuit = _with_backfill(circuit, view, names[view], columns, generation)
    for table in sorted(definition.logged):
        fresh = [
            each for each in consumers(circuit) if each.branch.producer.relation == table and generation.is_new(each)
        ]
        if fresh:
            names[table] = name(table)
            circuit = _with_second_input(circuit, table, names[table], {(each.address, each.port) for each in fresh})
    fed = {**definition.fed, **dict.fromkeys(names.values(), 0)}
    return replace(definition, circuit=circuit, fed=fed), names


def _views_to_backfill(generation: Generation) -> dict[str, Schema]:
    """The existing views with a new reader whose op does not store the rows that it has emitted."""
    return {
        each.branch.origin.view: each.branch.origin.columns
        for each in consumers(generation.circuit)
        if each.branch.origin is not None
        and each.branch.producer in generation.carried
        and each.branch.origin.view in generation.known_outputs
        and generation.is_new(each)
    }


def _with_backfill(circuit: Circuit, view: str, name: str, columns: Schema, generation: Generation) -> Circuit:
    """The circuit in which new readers of a view also read its content, from an input of their own."""
    new = {
        (each.address, each.port)
        for each in consumers(circuit)
        if each.branch.origin is not None and each.branch.origin.view == view and generation.is_new(each)
    }

    def widened(branches: tuple[Branch, ...], address: str, port: int) -> tuple[Branch, ...]:
        own = [each for each in branches if each.origin is not None and each.origin.view == view]
        if (address, port) not in new or not own:
            return branches
        origin = own[0].origin
        assert origin is not None
        second = Branch(Producer.of_input(name), own[0].steps[origin.steps :], own[0].columns)
        return (*branches, second)

    return _with_branches(replace(circuit, inputs=(*circuit.inputs, Input(name, columns))), widened)


def _with_branches(circuit: Circuit, changed: Callable[[tuple[Branch, ...], str, int], tuple[Branch, ...]]) -> Circuit:
    """The circuit with `changed` applied to the branches of every port and output."""
    ops = tuple(
        replace(
            op,
            ports=tuple(
                replace(port, branches=changed(port.branches, op.id, number)) for number, port in enumerate(op.ports)
            ),
        )
        for op in circuit.ops
    )
    outputs = tuple(
        replace(output, branches=changed(output.branches, blocks.OUTPUT + output.relation, 0))
        for output in circuit.outputs
    )
    return replace(circuit, ops=ops, outputs=outputs)


def _with_second_input(circuit: Circuit, table: str, name: str, targets: set[tuple[str, int]]) -> Circuit:
    columns = next(item.columns for item in circuit.inputs if item.relation == table)

    def widened(branches: tuple[Branch, ...], address: str, port: int) -> tuple[Branch, ...]:
        if (address, port) not in targets:
            return branches
        own = [branch for branch in branches if branch.producer.relation == table]
        return branches + tuple(replace(branch, producer=Producer.of_input(name)) for branch in own)

    return _with_branches(replace(circuit, inputs=(*circuit.inputs, Input(name, columns))), widened)


def outputs_read(definition: PipelineDefinition) -> dict[str, str]:
    """A hash of each output's creation and branches: an output with the same hash is the same output."""
    return {
        output.relation: digest(
            [definition.begun.get(output.relation, 0)]
            + [(each.producer, each.steps) for each in output.branches if not each.producer.is_content]
        )
        for output in definition.circuit.outputs
    }


def fingerprint(
    circuit: Circuit, sources: Mapping[str, StreamSource], fed: Mapping[str, int], begun: Mapping[str, int]
) -> str:
    """A hash of what should run: a pipeline resumes its generation as long as the hash is the same."""
    return digest((circuit, [source.spec for source in sources.values()], fed, begun), CODEC)


class StoredSources(Mapping[str, StreamSource]):
    """The connectors of a stored generation, built from their specs on first use."""

    def __init__(self, specs: tuple[SourceSpec, ...]) -> None:
        self._specs = {spec.relation: spec for spec in specs}
        self._built: dict[str, StreamSource] = {}

    def __getitem__(self, relation: str) -> StreamSource:
        if relation not in self._built:
            spec = self._specs[relation]
            options = [(name, value, None) for name, value in spec.options.items()]
            source = registry.source(
                spec.kind,
                relation,
                spec.columns,
                options,
                spec.format,
                key=spec.key,
                references=spec.references,
            )
            self._built[relation] = cast(StreamSource, source)
        return self._built[relation]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def record_of(generation: Generation) -> GenerationRecord:
    """A generation as it is stored."""
    definition = generation.definition
    return GenerationRecord(
        number=generation.number,
        base_step=generation.base_step,
        circuit=definition.circuit,
        sources=tuple(source.spec for source in definition.sources.values()),
        fed=definition.fed,
        fingerprint=definition.fingerprint,
        logged=definition.logged,
        begun=definition.begun,
        idle=definition.idle,
        start=FeedStart(**generation.start),
        positions=generation.positions,
        carried=generation.carried,
        known_outputs=generation.known_outputs,
    )


def generation_of(record: GenerationRecord) -> Generation:
    """The generation of a stored record."""
    sources = StoredSources(record.sources)
    definition = PipelineDefinition(
        record.circuit, sources, record.fed, record.fingerprint, record.logged, record.begun, record.idle
    )
    return Generation(
        number=record.number,
        base_step=record.base_step,
        definition=definition,
        start={each.name: getattr(record.start, each.name) for each in fields(record.start)},
        positions={relation: dict(position) for relation, position in record.positions.items()},
        carried=record.carried,
        known_outputs=record.known_outputs,
    )


class Generations(GenerationFiles):
    """The generations of one data folder: finds the newest, begins the next."""

    def current(self) -> Generation | None:
        """The newest generation that was begun."""
        record = self.newest()
        return None if record is None else generation_of(record)

    def begin(self, generation: Generation) -> None:
        """Make a generation the newest. Until then the one before is in force."""
        self.write(record_of(generation))


def feed_offset(text: str) -> dict[str, Any]:
    offset: dict[str, Any] = json.loads(text)
    return offset
