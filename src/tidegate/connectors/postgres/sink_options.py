"""What `INTO POSTGRES (...)` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.contract import SinkSpec
from tidegate.connectors.postgres.options import Server, server_options, table_name
from tidegate.connectors.rows import no_key, refuse_clash
from tidegate.core.options import Bag
from tidegate.errors import make
from tidegate.traits.kind import Kind

MODES: dict[str, Kind] = {"upsert": "upsert", "append": "append", "changelog": "changelog"}
STEPS = "tidegate_steps"
_NAME = "a name such as 'revenue' or 'sales.revenue'"


@dataclass(frozen=True)
class WriteOptions:
    """Where changes go and how. `table` and `steps` are the parts of a name; `steps` is the table with the number of
    the last step of each sink. `create`: tables that are not there are made."""

    server: Server
    table: tuple[str, ...]
    mode: Kind
    steps: tuple[str, ...]
    create: bool = True


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Takes a sink's options out of the bag."""
    table_at, mode_at = bag.span_of("table"), bag.span_of("mode")
    server = server_options(bag)
    table = bag.take("table", table_name, _NAME, aliases=("table_name",))
    if table is None:
        hint = f"add table = '{spec.reads or 'revenue'}'"
        raise make("MISSING_OPTION", where=bag.where, name="table", hint=hint, span=bag.span)
    mode = MODES[bag.choice("mode", tuple(MODES)) or ("upsert" if spec.key else "append")]
    if mode == "upsert" and not spec.key:
        raise no_key(spec.kind, mode, spec.reads, mode_at)
    if mode == "changelog":
        refuse_clash(spec.columns, mode_at)
    steps = bag.take("steps_table", table_name, _NAME) or (*table[:-1], STEPS)
    if steps == table:
        message = f"{'.'.join(table)} cannot hold both the rows and the numbers of steps"
        raise make("INVALID_OPTION", message=message, hint="choose another table", span=table_at)
    return WriteOptions(server, table, mode, steps, bag.boolean("create", True))
