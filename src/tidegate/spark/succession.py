"""How one generation follows another: the source positions, state and content that it takes over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from tidegate.connectors.contract import FileStream
from tidegate.core.columns import content_input
from tidegate.core.schema import Schema
from tidegate.core.types import arrow_type, nullable_schema
from tidegate.spark.generation import (
    FEED_START,
    Generation,
    Generations,
    PipelineDefinition,
    backfilled,
    feed_offset,
    outputs_read,
)
from tidegate.spark.processing_clock import ProcessingClock
from tidegate.spark.unreadable_files import UnreadableFiles
from tidegate.storage.checkpoint import NO_OFFSET
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.step_log import StepLog


class Succession:
    """Begins generations. `settle` runs a step of a generation that is logged but not committed to its end."""

    def __init__(
        self,
        generations: Generations,
        log: StepLog,
        inserts: InsertLog,
        clock: ProcessingClock,
        settle: Callable[[Generation], None],
        unreadable: UnreadableFiles,
    ) -> None:
        self._generations, self._log, self._inserts = generations, log, inserts
        self._clock, self._settle, self._unreadable = clock, settle, unreadable

    def generation_for(self, definition: PipelineDefinition, anew: bool = False) -> Generation:
        """The newest generation if it runs this definition; otherwise, or if it should begin anew, the next one."""
        current = self._generations.current()
        if current is None:
            return self._begin(self._first(definition))
        unchanged = current.fingerprint == definition.fingerprint
        if unchanged and not anew and not self._generations.checkpoint(current.number).has_state():
            self._announce(current)
            return current
        return self._begin(self._with_content(self._next(current, definition)))

    def _with_content(self, generation: Generation) -> Generation:
        """Append the content of relations that only the step log stores to the insert log, for their new readers."""
        # The name is new in every attempt: a process may have died after it had appended the content.
        name = partial(content_input, generation=generation.number, entry=self._inserts.head())
        definition, names = backfilled(generation.definition, generation, name)
        if not names:
            return generation
        inputs = {item.relation: item.columns for item in definition.circuit.inputs}
        content = {each: self._content(each, inputs[names[each]], generation.base_step) for each in names}
        self._inserts.append([(names[table], rows, 1) for table, rows in content.items()])
        self._clock.release_own()
        return replace(generation, definition=definition)

    def _content(self, relation: str, columns: Schema, step: int) -> pa.Table:
        """The content of a relation after a step; hidden columns are NULL, since the step log does not have them."""
        visible = tuple(column for column in columns if not column.name.startswith("__"))
        rows = self._log.content(relation, nullable_schema(visible), step)
        for column in columns:
            if column.name.startswith("__"):
                rows = rows.append_column(column.name, pa.nulls(rows.num_rows, arrow_type(column.type)))
        return rows.select([column.name for column in columns])

    def _first(self, definition: PipelineDefinition) -> Generation:
        return Generation(
            number=self._generations.next_number(),
            base_step=self._log.last(),
            definition=definition,
            start={**FEED_START, "tick": self._clock.read()["tick"]},
        )

    def _next(self, old: Generation, definition: PipelineDefinition) -> Generation:
        """The generation after `old`, with its source positions and the state of the ops that both have."""
        self._settle(old)
        number = self._generations.next_number()
        ops = {op.id for op in definition.circuit.ops}
        checkpoint = self._generations.checkpoint(old.number)
        batch = checkpoint.committed()
        if batch is None:
            return self._inherit(old, definition, number)
        carried = ops & {op.id for op in old.circuit.ops}
        offsets = checkpoint.batch(batch).offsets
        self._log.truncate(old.base_step + batch + 1)
        return Generation(
            number=number,
            base_step=old.base_step + batch + 1,
            definition=definition,
            start={**feed_offset(offsets[0]), "tick": self._clock.read()["tick"]},
            positions=self._positions(old, definition, offsets[1:]),
            carried=frozenset(carried),
            known_outputs=outputs_read(old.definition),
        )

    def _inherit(self, old: Generation, definition: PipelineDefinition, number: int) -> Generation:
        """`old` never finished a step: the next one begins where it would have begun."""
        ops = {op.id for op in definition.circuit.ops}
        return Generation(
            number=number,
            base_step=old.base_step,
            definition=definition,
            start={**old.start, "tick": self._clock.read()["tick"]},
            positions=old.positions,
            carried=old.carried & ops,
            known_outputs=old.known_outputs,
        )

    def _positions(self, old: Generation, definition: PipelineDefinition, offsets: Sequence[str]) -> dict[str, Any]:
        positions = {}
        for index, (relation, offset) in enumerate(zip(old.definition.sources, offsets, strict=True), start=1):
            source = definition.sources.get(relation)
            if source is not None:
                logs = self._generations.checkpoint(old.number).source_log(index)
                last_offset = None if offset == NO_OFFSET else offset
                position = source.position(last_offset, logs, old.positions.get(relation))
                if isinstance(source, FileStream):
                    position = source.forgetting(position, self._unreadable.of(relation))
                positions[relation] = position
        return positions

    def _begin(self, generation: Generation) -> Generation:
        self._generations.begin(generation)
        self._announce(generation)
        return generation

    def _announce(self, generation: Generation) -> None:
        """Moves the clock if it stands where the generation begins: replays happen in the first batch of a generation,
        and that must be one with a tick. The process may have died before it got there."""
        if self._clock.read()["tick"] == generation.start["tick"]:
            self._clock.tick()
