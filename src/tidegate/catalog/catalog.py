"""The catalog: one namespace of relations, immutable. Every change returns a new catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.catalog.bus import BUS, EVENTS
from tidegate.catalog.relation import Relation
from tidegate.catalog.system import PREFIX, SYSTEM
from tidegate.errors import Span, did_you_mean, enumerated, make, nearest


def _name_list(relations: Iterable[Relation]) -> str:
    return enumerated((relation.name for relation in relations), last="and")


@dataclass(frozen=True)
class Catalog:
    """Relations in order of creation: a relation comes after those that it reads. Lookup ignores case."""

    relations: tuple[Relation, ...] = ()
    _index: dict[str, Relation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        everything = (*SYSTEM, EVENTS, *self.relations)
        object.__setattr__(self, "_index", {relation.name.casefold(): relation for relation in everything})

    def __iter__(self) -> Iterator[Relation]:
        return iter(self.relations)

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._index

    def find(self, name: str) -> Relation | None:
        return self._index.get(name.casefold())

    def get(self, name: str, span: Span | None = None) -> Relation:
        """The relation of that name; UNKNOWN_RELATION with the nearest names if there is none."""
        relation = self.find(name)
        if relation is None:
            raise make("UNKNOWN_RELATION", name=name, span=span, hint=self._hint(name))
        return relation

    def readable(self, name: str, span: Span | None = None) -> Relation:
        """The relation of that name; NOT_SUPPORTED if a query cannot read it, such as a sink."""
        relation = self.get(name, span)
        if not relation.readable:
            hint = f"read what it reads: {_name_list(self.reads(relation))}" if relation.dependencies else None
            raise make("NOT_SUPPORTED", message=f"{name} is a sink, it has no rows to read", hint=hint, span=span)
        if not relation.columns:
            message = f"{relation.name} has no columns: what it captures are events of {BUS}"
            hint = f"read FROM {BUS} WHERE source = '{relation.name}'"
            raise make("NOT_SUPPORTED", message=message, hint=hint, span=span)
        return relation

    def of_kind(self, *kinds: str) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.kind in kinds)

    def reads(self, relation: Relation) -> tuple[Relation, ...]:
        """The relations that a relation reads directly."""
        return tuple(self.get(name) for name in relation.dependencies)

    def upstream(self, relation: Relation) -> tuple[Relation, ...]:
        """The relations that a relation reads, directly or not, each once, nearest first."""
        reached: dict[str, Relation] = {}
        waiting = list(self.reads(relation))
        while waiting:
            below = waiting.pop(0)
            if below.name not in reached:
                reached[below.name] = below
                waiting += self.reads(below)
        return tuple(reached.values())

    def dependents(self, name: str) -> tuple[Relation, ...]:
        """The relations that read a relation directly."""
        folded = name.casefold()
        return tuple(
            relation for relation in self.relations if folded in (each.casefold() for each in relation.dependencies)
        )

    def downstream(self, name: str) -> tuple[Relation, ...]:
        """The relations that read a relation, directly or not, in order of creation."""
        reached = {name.casefold()}
        for relation in self.relations:
            if reached & {each.casefold() for each in relation.dependencies}:
                reached.add(relation.name.casefold())
        return tuple(each for each in self.relations if each.name.casefold() in reached - {name.casefold()})

    def create(self, relation: Relation, span: Span | None = None) -> Catalog:
        """Add a relation; ALREADY_EXISTS if its name is taken."""
        if relation.name.casefold().startswith(PREFIX):
            raise make("NOT_SUPPORTED", message=f"names that begin with {PREFIX} are reserved", span=span)
        existing = self.find(relation.name)
        if existing is not None:
            raise make("ALREADY_EXISTS", name=existing.name, kind=existing.described, span=span)
        return Catalog((*self.relations, relation))

    def replace(self, relation: Relation, span: Span | None = None) -> Catalog:
        """Add a relation or replace the one of its name. A relation that others read must keep its columns."""
        existing = self.find(relation.name)
        if existing is None:
            return self.create(relation, span)
        self._check_not_system(existing, span)
        self._check_cycle(relation, span)
        self._check_dependents(existing, relation, span)
        others = tuple(each for each in self.relations if each is not existing)
        below = {each.name for each in self.downstream(existing.name)}
        before = tuple(each for each in others if each.name not in below)
        return Catalog((*before, relation, *(each for each in others if each.name in below)))

    def drop(self, name: str, *, cascade: bool = False, span: Span | None = None) -> Catalog:
        """Remove a relation. Its dependents are removed too (`cascade`), or are an error (HAS_DEPENDENTS)."""
        relation = self.get(name, span)
        self._check_not_system(relation, span)
        dependents = self.dependents(name)
        if dependents and not cascade:
            raise make("HAS_DEPENDENTS", name=relation.name, dependents=_name_list(dependents), span=span)
        dropped = {relation.name, *(each.name for each in self.downstream(name))} if cascade else {relation.name}
        return Catalog(tuple(each for each in self.relations if each.name not in dropped))

    def _check_not_system(self, relation: Relation, span: Span | None) -> None:
        if relation.name.startswith(PREFIX) or relation is EVENTS:
            raise make("NOT_SUPPORTED", message=f"{relation.name} belongs to every database", span=span)

    def _check_dependents(self, old: Relation, new: Relation, span: Span | None) -> None:
        dependents = self.dependents(old.name)
        if not dependents or (old.columns == new.columns and old.kind == new.kind):
            return
        raise make(
            "HAS_DEPENDENTS",
            message=f"{old.name} cannot change its columns: it is read by {_name_list(dependents)}",
            detail=f"its columns are ({_columns(old)}), they would be ({_columns(new)})",
            hint="drop those first, or keep the columns",
            span=span,
        )

    def _check_cycle(self, new: Relation, span: Span | None) -> None:
        below = {each.name.casefold() for each in self.downstream(new.name)}
        loop = [name for name in new.dependencies if name.casefold() in below or name.casefold() == new.name.casefold()]
        if loop:
            other = "itself" if loop[0].casefold() == new.name.casefold() else f"{loop[0]}, which reads it"
            hint = "give the new view another name"
            raise make("NOT_SUPPORTED", message=f"{new.name} cannot read {other}", hint=hint, span=span)

    def _hint(self, name: str) -> str | None:
        known = SYSTEM if name.casefold().startswith(PREFIX) else self.relations
        names = [relation.name for relation in known]
        return did_you_mean(name, [*names, BUS] if nearest(name, [BUS]) else names, what="relations")


def _columns(relation: Relation) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in relation.columns)
