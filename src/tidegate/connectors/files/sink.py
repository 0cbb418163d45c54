"""`INTO FILES`: one file per step that changed something, in a folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.files.options import WriteOptions, write_options
from tidegate.connectors.files.writing import write_rows
from tidegate.core.durable import write_atomically
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.errors import Span, make

_ADDED = ("op", "weight", "step")


@dataclass
class FilesSink(Sink):
    """A file is named by its step, so a repeated step replaces its own file. The folder is the record of what was
    written; a marker in it says whose it is."""

    options: WriteOptions
    prefix: str = ""

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> FilesSink:
        at = bag.span_of("mode")
        options = write_options(spec, bag)
        if options.mode == "changelog":
            _refuse_clash(spec, at)
        return cls(spec, options)

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities(self.options.mode)

    def open(self, context: SinkContext) -> None:
        self.prefix = quote(context.name, safe="") + "-"
        self.options.path.mkdir(parents=True, exist_ok=True)
        marker = self.options.path / f"_{self.prefix}owner.json"
        if not marker.exists():
            self._refuse_leftovers(context)
            write_atomically(marker, lambda file: file.write(json.dumps({"owner": context.owner}).encode()))
        elif json.loads(marker.read_text())["owner"] != context.owner:
            raise self._not_ours(context)

    def write(self, step: int, changes: pa.Table) -> None:
        path = self.options.path / f"{self.prefix}{step:012d}.{self.options.format}"
        rows = changes if self.options.mode == "changelog" else self._appended(step, changes)
        if rows.num_rows:
            write_atomically(path, lambda file: write_rows(rows, file, self.options))
        else:
            path.unlink(missing_ok=True)

    def last_step(self) -> int | None:
        steps = [self._step_of(path) for path in self.options.path.iterdir()]
        return max((step for step in steps if step is not None), default=None)

    def close(self) -> None:
        pass

    def _step_of(self, path: Path) -> int | None:
        found = re.fullmatch(rf"{re.escape(self.prefix)}(\d+)\.{self.options.format}", path.name)
        return int(found[1]) if found else None

    def _appended(self, step: int, changes: pa.Table) -> pa.Table:
        """The view's rows, each as often as its weight says."""
        weights = changes.column(1)
        if changes.num_rows and pc.min(weights).as_py() < 0:
            message = f"sink {self.spec.name} appends rows, but step {step} takes rows back"
            raise make("SINK_CANNOT_TAKE", message=message, hint="write mode = 'changelog'")
        rows = changes.select(list(range(len(_ADDED), changes.num_columns)))
        if changes.num_rows and pc.max(weights).as_py() > 1:
            rows = rows.take([i for i, weight in enumerate(weights.to_pylist()) for _ in range(weight)])
        return rows

    def _refuse_leftovers(self, context: SinkContext) -> None:
        if self.last_step() is not None:
            raise self._not_ours(context)

    def _not_ours(self, context: SinkContext) -> Exception:
        return make(
            "INVALID_OPTION",
            message=f"folder {self.options.path} holds files of another sink named {context.name}",
            hint="choose another path, or empty the folder",
        )


def _refuse_clash(spec: SinkSpec, at: Span | None) -> None:
    clash = [name for name in names(spec.columns) if name.casefold() in _ADDED]
    if clash:
        message = f"mode 'changelog' adds the columns op, weight and step, but there is a column {clash[0]} already"
        raise make("INVALID_OPTION", message=message, hint=f"rename {clash[0]} in a view on it", span=at)
