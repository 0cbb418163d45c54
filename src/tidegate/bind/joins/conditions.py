"""ON, taken apart: what one side must equal of the other, what is compared, and what concerns one side only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.bind.joins.bounds import Bound, bound_of

EQUALITIES = (exp.EQ, exp.NullSafeEQ)
OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Compared:
    """`left op right`, an expression of either side, as in `tree`."""

    left: exp.Expr
    op: str
    right: exp.Expr
    tree: exp.Expr

    @property
    def equality(self) -> bool:
        return self.op in ("=", "<=>")


@dataclass
class Conditions:
    """What ON says. `left` and `right` concern one side; `mixed` cannot be taken apart. A time bound is in `bounds`,
    with the same as `Compared` beside it (None if it cannot be taken apart)."""

    compared: list[Compared] = field(default_factory=list)
    bounds: list[tuple[Bound, Compared | None, exp.Expr]] = field(default_factory=list)
    left: list[exp.Expr] = field(default_factory=list)
    right: list[exp.Expr] = field(default_factory=list)
    mixed: list[exp.Expr] = field(default_factory=list)

    @property
    def equalities(self) -> list[Compared]:
        return [each for each in self.compared if each.equality]

    def compare_bounds(self) -> None:
        """Bounds that are no bounds of an interval are comparisons like others."""
        for _, compared, tree in self.bounds:
            if compared is None:
                self.mixed.append(tree)
            else:
                self.compared.append(compared)
        self.bounds = []


def taken_apart(trees: Iterable[exp.Expr], left: frozenset[str], right: frozenset[str]) -> Conditions:
    """The parts of conditions over the columns of both sides."""
    found = Conditions()
    for tree in trees:
        for part in _conjuncts(tree):
            _put(part, left, right, found)
    return found


def _put(part: exp.Expr, left: frozenset[str], right: frozenset[str], found: Conditions) -> None:
    columns = columns_of(part)
    if isinstance(part, exp.Boolean) and part.this:
        return
    if columns <= left:
        found.left.append(part)
    elif columns <= right:
        found.right.append(part)
    else:
        compared, bound = _compared(part, left, right), bound_of(part, left, right)
        if bound is not None:
            found.bounds.append((bound, compared, part))
        elif compared is not None:
            found.compared.append(compared)
        else:
            found.mixed.append(part)


def columns_of(tree: exp.Expr) -> frozenset[str]:
    return frozenset(each.name for each in tree.find_all(exp.Column))


def _compared(part: exp.Expr, left: frozenset[str], right: frozenset[str]) -> Compared | None:
    op = OPERATORS.get(type(part))
    if op is None:
        return None
    one, other = part.this, part.expression
    if columns_of(one) <= left and columns_of(other) <= right:
        return Compared(one, op, other, part)
    if columns_of(one) <= right and columns_of(other) <= left:
        return Compared(other, MIRRORED[op], one, part)
    return None


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """What AND connects; BETWEEN is two comparisons."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    elif isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        yield exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        yield exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
    else:
        yield tree
