"""`INTO POSTGRES`: the changes of each step in one transaction, in a table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.postgres.client import Unreachable
from tidegate.connectors.postgres.options import Server, server_options, table_name
from tidegate.connectors.postgres.sink_table import Table, definition, fields, found, looked_at, quoted, with_key
from tidegate.connectors.postgres.sink_writer import Appending, Replacing, understood, writing
from tidegate.connectors.rows import no_key, reject_clash
from tidegate.core.options import Bag
from tidegate.errors import Error, enumerated, make
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
    """Take a sink's options out of the bag."""
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
        reject_clash(spec.columns, mode_at)
    steps = bag.take("steps_table", table_name, _NAME) or (*table[:-1], STEPS)
    if steps == table:
        message = f"{'.'.join(table)} cannot hold both the rows and the numbers of steps"
        raise make("INVALID_OPTION", message=message, hint="choose another table", span=table_at)
    return WriteOptions(server, table, mode, steps, bag.boolean("create", True))


_MAKING = 0x71DE6A7E
"""The lock under which tables are made, so that two sinks that begin at once do not make the same one."""

_STEPS = ("SELECT", "INSERT", "UPDATE")
_NEEDED = {
    "append": ("INSERT",),
    "changelog": ("INSERT",),
    "upsert": ("SELECT", "INSERT", "UPDATE", "DELETE"),
}


class Session:
    """After a failure it is closed, and a new one begins: that looks at the tables again, which may have been mended,
    and knows what was committed."""

    def __init__(self, spec: SinkSpec, options: WriteOptions, owner: str) -> None:
        self._spec, self._options, self._owner = spec, options, owner
        self._name, self._steps = quoted(*options.table), quoted(*options.steps)
        self._shown = ".".join(options.table)
        self._fields = fields(spec, options.mode == "changelog")
        self._connection = writing(options.server)
        self.last: int | None = None
        try:
            self._writer = self._prepared()
        except BaseException:
            self.close()
            raise

    def write(self, step: int, changes: pa.Table) -> None:
        """All of it or nothing. A step that is on record already is left out, whoever wrote it."""
        with understood(self._options.server, f"step {step}", self._grants()), self._connection.transaction():
            noted = self._connection.execute(
                f"INSERT INTO {self._steps} AS t (owner, step) VALUES (%s, %s) ON CONFLICT (owner)"
                " DO UPDATE SET step = EXCLUDED.step WHERE t.step < EXCLUDED.step RETURNING step",
                [self._owner, step],
            ).fetchone()
            if noted is not None:
                self._writer.write(self._connection, changes)
        self.last = step

    def close(self) -> None:
        self._connection.close()

    def _prepared(self) -> Appending | Replacing:
        what = f"sink {self._spec.name}"
        with understood(self._options.server, what, self._grants()), self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING])
            self.last = self._noted()
            table = self._table()
        if self._options.mode != "upsert":
            return Appending(table, self._fields, self._spec, self._options.mode == "changelog")
        writer, info = Replacing(table, self._fields, self._spec), self._connection.info
        rights = f"GRANT TEMPORARY ON DATABASE {quoted(info.dbname)} TO {quoted(info.user)}"
        with understood(self._options.server, what, rights):
            writer.prepare(self._connection)
        return writer

    def _noted(self) -> int | None:
        """The number of the last step, by the table that has those of all sinks."""
        oid = found(self._connection, self._steps)
        if oid is None:
            self._make(self._steps, f"CREATE TABLE {self._steps} (owner text PRIMARY KEY, step bigint NOT NULL)")
        else:
            self._check_rights(oid, ".".join(self._options.steps), _STEPS)
        asked = self._connection.execute(f"SELECT step FROM {self._steps} WHERE owner = %s", [self._owner])
        row = asked.fetchone()
        return None if row is None else int(row[0])

    def _table(self) -> Table:
        keyed = self._options.mode == "upsert"
        oid = found(self._connection, self._name)
        if oid is None:
            if self.last is not None:
                raise self._gone(self.last)
            version = self._connection.info.server_version
            self._make(self._name, definition(self._name, self._fields, self._spec, keyed, version))
            oid = found(self._connection, self._name)
        assert oid is not None
        self._check_rights(oid, self._shown, _NEEDED[self._options.mode])
        table = looked_at(self._connection, oid, self._options.table, self._fields)
        if not keyed:
            return table
        named = dict(zip((field.name for field in self._fields), table.names, strict=True))
        return with_key(self._connection, oid, table, [named[part] for part in self._spec.key], self._spec)

    def _make(self, name: str, statement: str) -> None:
        if not self._options.create:
            raise make("INVALID_OPTION", message=f"there is no table {name}", hint=statement)
        with understood(self._options.server, f"sink {self._spec.name}", f"as a user who may: {statement}"):
            self._connection.execute(statement)

    def _check_rights(self, oid: int, shown: str, needed: tuple[str, ...]) -> None:
        asked = ", ".join(f"has_table_privilege({oid}::oid, '{right}')" for right in needed)
        there = self._connection.execute(f"SELECT {asked}").fetchone()
        lacking = [right for right, has in zip(needed, there, strict=True) if not has]
        if lacking:
            user = self._connection.info.user
            message = f"user {user} has no right to {enumerated(lacking, 'and')} in table {shown}"
            raise make("PIPELINE_FAILED", message=message, hint=self._grants())

    def _gone(self, last: int) -> Error:
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
        if spec.format is not None:
            raise make("UNKNOWN_FORMAT", message="POSTGRES has no formats", hint="leave FORMAT out", span=bag.span)
        return cls(spec, write_options(spec, bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities(self.options.mode, needs_key=self.options.mode == "upsert")

    def open(self, context: SinkContext) -> None:
        self.close()
        self._owner = context.owner
        self._begun()

    def write(self, step: int, changes: pa.Table) -> None:
        """Servers end sessions that rest for long: what fails in one that is not new is tried once more at once."""
        rested = self._session is not None
        try:
            self._apply(step, changes)
        except Unreachable:
            if not rested:
                raise
            self._apply(step, changes)

    def last_step(self) -> int | None:
        return self._last

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _apply(self, step: int, changes: pa.Table) -> None:
        session = self._session or self._begun()
        if not changes.num_rows or (self._last is not None and step <= self._last):
            return
        try:
            session.write(step, changes)
        except BaseException:
            self.close()
            raise
        self._last = session.last

    def _begun(self) -> Session:
        self._session = Session(self.spec, self.options, self._owner)
        self._last = self._session.last
        return self._session
