"""The catalog: one namespace of relations. Every change gives a new catalog; the old one stays as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.catalog.bus import BUS, EVENTS
from tidegate.catalog.relation import Relation
from tidegate.catalog.system import PREFIX, SYSTEM
from tidegate.errors import Span, did_you_mean, enumerated, make, nearest


def _listed(relations: Iterable[Relation]) -> str:
    return enumerated((relation.name for relation in relations), last="and")


@dataclass(frozen=True)
class Catalog:
    """Relations in order of creation, so that whatever one reads stands before it. Lookup ignores case."""

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
        found = self.find(name)
        if found is None:
            raise make("UNKNOWN_RELATION", name=name, span=span, hint=self._suggestion(name))
        return found

    def readable(self, name: str, span: Span | None = None) -> Relation:
        """A relation that a query can read, which a sink is not."""
        found = self.get(name, span)
        if not found.readable:
            hint = f"read what it reads: {_listed(self.reads(found))}" if found.dependencies else None
            raise make("NOT_SUPPORTED", message=f"{name} is a sink, it has no rows to read", hint=hint, span=span)
        if not found.columns:
            message = f"{found.name} has no columns: what it captures are events of {BUS}"
            hint = f"read FROM {BUS} WHERE source = '{found.name}'"
            raise make("NOT_SUPPORTED", message=message, hint=hint, span=span)
        return found

    def of_kind(self, *kinds: str) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.kind in kinds)

    def reads(self, relation: Relation) -> tuple[Relation, ...]:
        """What a relation reads directly."""
        return tuple(self.get(name) for name in relation.dependencies)

    def upstream(self, relation: Relation) -> tuple[Relation, ...]:
        """What a relation reads, directly or not, each once, nearest first."""
        found: dict[str, Relation] = {}
        waiting = list(self.reads(relation))
        while waiting:
            below = waiting.pop(0)
            if below.name not in found:
                found[below.name] = below
                waiting += self.reads(below)
        return tuple(found.values())

    def dependents(self, name: str) -> tuple[Relation, ...]:
        """What reads a relation directly."""
        folded = name.casefold()
        return tuple(
            relation for relation in self.relations if folded in (each.casefold() for each in relation.dependencies)
        )

    def downstream(self, name: str) -> tuple[Relation, ...]:
        """What reads a relation, directly or not, in order of creation."""
        reached = {name.casefold()}
        for relation in self.relations:
            if reached & {each.casefold() for each in relation.dependencies}:
                reached.add(relation.name.casefold())
        return tuple(each for each in self.relations if each.name.casefold() in reached - {name.casefold()})

    def create(self, relation: Relation, span: Span | None = None) -> Catalog:
        """Adds a relation; ALREADY_EXISTS if its name is taken."""
        if relation.name.casefold().startswith(PREFIX):
            raise make("NOT_SUPPORTED", message=f"names that begin with {PREFIX} are reserved", span=span)
        existing = self.find(relation.name)
        if existing is not None:
            raise make("ALREADY_EXISTS", name=existing.name, kind=existing.described, span=span)
        return Catalog((*self.relations, relation))

    def replace(self, relation: Relation, span: Span | None = None) -> Catalog:
        """Adds a relation or puts it in the place of the one that has its name. What others read keeps its columns."""
        existing = self.find(relation.name)
        if existing is None:
            return self.create(relation, span)
        self._refuse_system(existing, span)
        self._refuse_cycle(relation, span)
        self._refuse_replacement(existing, relation, span)
        others = tuple(each for each in self.relations if each is not existing)
        below = {each.name for each in self.downstream(existing.name)}
        kept = tuple(each for each in others if each.name not in below)
        return Catalog((*kept, relation, *(each for each in others if each.name in below)))

    def drop(self, name: str, *, cascade: bool = False, span: Span | None = None) -> Catalog:
        """Removes a relation; what reads it goes too (`cascade`) or forbids it (HAS_DEPENDENTS)."""
        relation = self.get(name, span)
        self._refuse_system(relation, span)
        dependents = self.dependents(name)
        if dependents and not cascade:
            raise make("HAS_DEPENDENTS", name=relation.name, dependents=_listed(dependents), span=span)
        gone = {relation.name, *(each.name for each in self.downstream(name))} if cascade else {relation.name}
        return Catalog(tuple(each for each in self.relations if each.name not in gone))

    def _refuse_system(self, relation: Relation, span: Span | None) -> None:
        if relation.name.startswith(PREFIX) or relation is EVENTS:
            raise make("NOT_SUPPORTED", message=f"{relation.name} belongs to every database", span=span)

    def _refuse_replacement(self, old: Relation, new: Relation, span: Span | None) -> None:
        dependents = self.dependents(old.name)
        if not dependents or (old.columns == new.columns and old.kind == new.kind):
            return
        raise make(
            "HAS_DEPENDENTS",
            message=f"{old.name} cannot change its columns: it is read by {_listed(dependents)}",
            detail=f"its columns are ({_columns(old)}), they would be ({_columns(new)})",
            hint="drop those first, or keep the columns",
            span=span,
        )

    def _refuse_cycle(self, new: Relation, span: Span | None) -> None:
        below = {each.name.casefold() for each in self.downstream(new.name)}
        loop = [name for name in new.dependencies if name.casefold() in below or name.casefold() == new.name.casefold()]
        if loop:
            other = "itself" if loop[0].casefold() == new.name.casefold() else f"{loop[0]}, which reads it"
            hint = "give the new view another name"
            raise make("NOT_SUPPORTED", message=f"{new.name} cannot read {other}", hint=hint, span=span)

    def _suggestion(self, name: str) -> str | None:
        known = SYSTEM if name.casefold().startswith(PREFIX) else self.relations
        names = [relation.name for relation in known]
        return did_you_mean(name, [*names, BUS] if nearest(name, [BUS]) else names, what="relations")


def _columns(relation: Relation) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in relation.columns)
