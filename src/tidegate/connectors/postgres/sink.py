"""`INTO POSTGRES`: the changes of each step in one transaction, in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.postgres.client import Unreachable
from tidegate.connectors.postgres.options import Server, server_options, table_name
from tidegate.connectors.postgres.sink_table import Table, check_key, check_table, definition, fields, find_oid, quoted
from tidegate.connectors.postgres.sink_writer import Appending, Replacing, connect_for_writing, translated_errors
from tidegate.connectors.rows import no_key, reject_clash
from tidegate.core.option_models import Aliases, OptionModel, Parsed, choice
from tidegate.core.options import Bag
from tidegate.errors import Error, enumerated, make
from tidegate.traits.kind import Kind

STEPS = "tidegate_steps"
_NAME = "a name such as 'revenue' or 'sales.revenue'"


class SinkOptions(OptionModel):
    """Options of `INTO POSTGRES` beside those of the server."""

    table: Annotated[tuple[str, ...], Parsed(table_name, _NAME), Aliases("table_name")] = Field(
        description="The table, spelled as in the database.", examples=["revenue"]
    )
    mode: Annotated[Kind | None, choice("upsert", "append", "changelog")] = Field(
        None, description="Rows by key, rows, or changes; by the view's key by default."
    )
    steps_table: Annotated[tuple[str, ...] | None, Parsed(table_name, _NAME)] = Field(
        None, description="Table with the last step of each sink."
    )
    create: bool = Field(True, description="Create tables that do not exist.")


@dataclass(frozen=True)
class WriteOptions:
    """Where changes are written, and how. `table` and `steps` are the parts of a name; `steps` is the table with the
    last step of each sink. `create`: tables that do not exist are created."""

    server: Server
    table: tuple[str, ...]
    mode: Kind
    steps: tuple[str, ...]
    create: bool = True


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag."""
    table_at, mode_at = bag.span_of("table"), bag.span_of("mode")
    server = server_options(bag)
    options = SinkOptions.take(bag, table=spec.reads or "revenue")
    mode: Kind = options.mode or ("upsert" if spec.key else "append")
    if mode == "upsert" and not spec.key:
        raise no_key(spec.kind, mode, spec.reads, mode_at)
    if mode == "changelog":
        reject_clash(spec.columns, mode_at)
    steps = options.steps_table or (*options.table[:-1], STEPS)
    if steps == options.table:
        message = f"{'.'.join(steps)} cannot hold both the rows and the numbers of steps"
        raise make("INVALID_OPTION", message=message, hint="choose another table", span=table_at)
    return WriteOptions(server, options.table, mode, steps, options.create)


_MAKING = 0x71DE6A7E
"""Advisory lock for creating tables, so that two sinks that start at once do not create the same one."""

_STEPS = ("SELECT", "INSERT", "UPDATE")
_NEEDED = {
    "append": ("INSERT",),
    "changelog": ("INSERT",),
    "upsert": ("SELECT", "INSERT", "UPDATE", "DELETE"),
}


class Session:
    """A connection of the sink. After a failure it is closed and replaced: the new one checks the tables again, which
    may have been corrected, and reads back the last committed step."""

    def __init__(self, spec: SinkSpec, options: WriteOptions, owner: str) -> None:
        self._spec, self._options, self._owner = spec, options, owner
        self._name, self._steps = quoted(*options.table), quoted(*options.steps)
        self._shown = ".".join(options.table)
        self._fields = fields(spec, options.mode == "changelog")
        self._connection = connect_for_writing(options.server)
        self.last: int | None = None
        try:
            self._writer = self._prepare()
        except BaseException:
            self.close()
            raise

    def write(self, step: int, changes: pa.Table) -> None:
        """Write a step in one transaction, unless it is recorded already, whoever wrote it."""
        with translated_errors(self._options.server, f"step {step}", self._grants()), self._connection.transaction():
            recorded = self._connection.execute(
                f"INSERT INTO {self._steps} AS t (owner, step) VALUES (%s, %s) ON CONFLICT (owner)"
                " DO UPDATE SET step = EXCLUDED.step WHERE t.step < EXCLUDED.step RETURNING step",
                [self._owner, step],
            ).fetchone()
            if recorded is not None:
                self._writer.write(self._connection, changes)
        self.last = step

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> Appending | Replacing:
        subject = f"sink {self._spec.name}"
        with translated_errors(self._options.server, subject, self._grants()), self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING])
            self.last = self._read_last_step()
            table = self._table()
        if self._options.mode != "upsert":
            return Appending(table, self._fields, self._spec, self._options.mode == "changelog")
        writer, info = Replacing(table, self._fields, self._spec), self._connection.info
        rights = f"GRANT TEMPORARY ON DATABASE {quoted(info.dbname)} TO {quoted(info.user)}"
        with translated_errors(self._options.server, subject, rights):
            writer.prepare(self._connection)
        return writer

    def _read_last_step(self) -> int | None:
        """Read the last step from the table of steps, which is created if necessary."""
        oid = find_oid(self._connection, self._steps)
        if oid is None:
            self._create(self._steps, f"CREATE TABLE {self._steps} (owner text PRIMARY KEY, step bigint NOT NULL)")
        else:
            self._check_rights(oid, ".".join(self._options.steps), _STEPS)
        result = self._connection.execute(f"SELECT step FROM {self._steps} WHERE owner = %s", [self._owner])
        row = result.fetchone()
        return None if row is None else int(row[0])

    def _table(self) -> Table:
        keyed = self._options.mode == "upsert"
        oid = find_oid(self._connection, self._name)
        if oid is None:
            if self.last is not None:
                raise self._table_gone(self.last)
            version = self._connection.info.server_version
            self._create(self._name, definition(self._name, self._fields, self._spec, keyed, version))
            oid = find_oid(self._connection, self._name)
        assert oid is not None
        self._check_rights(oid, self._shown, _NEEDED[self._options.mode])
        table = check_table(self._connection, oid, self._options.table, self._fields)
        if not keyed:
            return table
        by_field = dict(zip((field.name for field in self._fields), table.names, strict=True))
        return check_key(self._connection, oid, table, [by_field[part] for part in self._spec.key], self._spec)

    def _create(self, name: str, statement: str) -> None:
        if not self._options.create:
            raise make("INVALID_OPTION", message=f"there is no table {name}", hint=statement)
        with translated_errors(self._options.server, f"sink {self._spec.name}", f"as a user who may: {statement}"):
            self._connection.execute(statement)

    def _check_rights(self, oid: int, shown: str, needed: tuple[str, ...]) -> None:
        checks = ", ".join(f"has_table_privilege({oid}::oid, '{right}')" for right in needed)
        granted = self._connection.execute(f"SELECT {checks}").fetchone()
        missing = [right for right, has in zip(needed, granted, strict=True) if not has]
        if missing:
            user = self._connection.info.user
            message = f"user {user} has no right to {enumerated(missing, 'and')} in table {shown}"
            raise make("PIPELINE_FAILED", message=message, hint=self._grants())

    def _table_gone(self, last: int) -> Error:
        return make(
            "PIPELINE_FAILED",
            message=f"table {self._shown} is gone, and with it the rows of the steps up to {last}",
            hint=f"bring it back, or write it anew: DROP SINK {self._spec.name}, then CREATE SINK",
        )

    def _grants(self) -> str:
        user = quoted(self._connection.info.user)
        rights = (_NEEDED[self._options.mode], self._name), (_STEPS, self._steps)
        return "; ".join(f"GRANT {', '.join(needed)} ON {name} TO {user}" for needed, name in rights)


@dataclass
class PostgresSink(Sink):
    """PostgreSQL itself records the last step, in the transaction that wrote it."""

    options: WriteOptions
    _owner: str = ""
    _session: Session | None = None
    _last: int | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> PostgresSink:
        return cls(spec, write_options(spec, bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities(self.options.mode, needs_key=self.options.mode == "upsert")

    def open(self, context: SinkContext) -> None:
        self.close()
        self._owner = context.owner
        self._open_session()

    def write(self, step: int, changes: pa.Table) -> None:
        """Apply a step. Servers close idle sessions, so a failure in an existing one is retried once, in a new one."""
        reused = self._session is not None
        try:
            self._apply(step, changes)
        except Unreachable:
            if not reused:
                raise
            self._apply(step, changes)

    def last_step(self) -> int | None:
        return self._last

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _apply(self, step: int, changes: pa.Table) -> None:
        session = self._session or self._open_session()
        if not changes.num_rows or (self._last is not None and step <= self._last):
            return
        try:
            session.write(step, changes)
        except BaseException:
            self.close()
            raise
        self._last = session.last

    def _open_session(self) -> Session:
        self._session = Session(self.spec, self.options, self._owner)
        self._last = self._session.last
        return self._session
