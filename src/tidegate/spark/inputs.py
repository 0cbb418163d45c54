"""The inputs of a query as one streaming frame of blocks: the feed and every connector."""

from __future__ import annotations

import json
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.contract import ParquetFiles, SourceContext, StreamSource
from tidegate.core.schema import Schema
from tidegate.spark.feed import Feed
from tidegate.spark.generation import Generation, PipelineDefinition
from tidegate.spark.lowering import Lowering
from tidegate.spark.unreadable_files import UnreadableFiles
from tidegate.spark.wide_frame import wide_schema
from tidegate.storage.folder import Folder


class InputFrames:
    """Builds the inputs of a generation's query."""

    def __init__(
        self, spark: SparkSession, folder: Folder, partitions: int, wall: bool, unreadable: UnreadableFiles
    ) -> None:
        self._spark, self._folder, self._partitions, self._wall = spark, folder, partitions, wall
        self._unreadable = unreadable
        spark.dataSource.register(Feed)

    def blocks(
        self, generation: Generation, definition: PipelineDefinition, lowering: Lowering, once: bool
    ) -> DataFrame:
        """All inputs of a generation as one streaming frame of blocks."""
        frames = [self._feed(generation, lowering, once)]
        for relation, source in definition.sources.items():
            context = SourceContext(
                self._folder.root, once, generation.positions.get(relation), self._unreadable.of(relation)
            )
            frames.append(self._packed(source, relation, context, lowering))
        return reduce(DataFrame.unionByName, frames)

    def _packed(self, source: StreamSource, relation: str, context: SourceContext, lowering: Lowering) -> DataFrame:
        """A connector's rows as blocks: through Spark SQL, or read by the workers where no expression is needed."""
        if isinstance(source, ParquetFiles):
            reading = lowering.reading(relation, source.spec.columns)
            files = None if reading is None else source.new_files(self._spark, context)
            if reading is not None and files is not None:
                return lowering.pack_files(files, reading)
        return lowering.pack_source(source.stream(self._spark, context), relation)

    def _feed(self, generation: Generation, lowering: Lowering, once: bool) -> DataFrame:
        circuit = generation.circuit
        fed = generation.definition.fed
        producers: dict[str, Schema] = {item.producer: item.columns for item in circuit.inputs if item.relation in fed}
        timed = [op for op in circuit.ops if op.timed]
        replayed = {consumer.branch.producer for consumer in lowering.replays.consumers}
        spec = {
            "log": str(self._folder.inserts),
            "clock": str(self._folder.clock),
            "relations": dict(fed),
            "timed": lowering.addresses(timed),
            "replay": lowering.addresses(op for op in circuit.ops if op.id in replayed),
            "start": generation.start,
            "parallelism": self._partitions,
            "wall": self._wall,
            "alone": not generation.definition.sources and self._wall and not once,
        }
        frame = (
            self._spark.readStream.format(Feed.name())
            .option("wide", wide_schema(producers, ordered=True).json())
            .option("spec", json.dumps(spec))
            .load()
        )
        return lowering.pack_feed(frame, producers)
