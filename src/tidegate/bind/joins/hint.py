"""`/*+ EARLY_FIRE('delay' = '5s', 'time_mode' = 'rowtime', 'target' = 'b') */`: pad outer rows after a delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.context import Context
from tidegate.core.durations import EXPECTED, parse_micros
from tidegate.errors import Error, Span, did_you_mean, make, warning
from tidegate.ir.joins import PROCTIME, ROWTIME, EarlyFire
from tidegate.sql import hints

NAME = "early_fire"
OPTIONS = ("delay", "time_mode", "target")
SHORTEST = 1_000


@dataclass(frozen=True)
class Hint:
    """`delay` is in microseconds; a `mode` of None follows the join; `target` names the joined relation it is for."""

    delay: int
    mode: str | None
    target: str | None
    span: Span | None

    def fire(self, proctime: bool) -> EarlyFire:
        """The setting for a join by processing time, or by event time."""
        if proctime and self.mode == ROWTIME:
            raise _invalid(
                "'time_mode' = 'rowtime' is not supported for processing-time interval joins",
                "write 'time_mode' = 'proctime', or remove this option",
                self.span,
            )
        return EarlyFire(self.delay, self.mode or (PROCTIME if proctime else ROWTIME))


def early_fire(select: exp.Select, context: Context) -> Hint | None:
    """The EARLY_FIRE of a SELECT. Warn about hints that are ignored."""
    hint = None
    for name, options, span in hints(select):
        if name == NAME and hint is None:
            hint = _parse_hint(options, span)
        else:
            known = "a SELECT has one EARLY_FIRE" if name == NAME else None
            reason = known or f"there is no hint {name.upper()}, only EARLY_FIRE"
            context.warnings.append(warning("HINT_IGNORED", reason=reason, span=span))
    return hint


def warn_ignored(hint: Hint, context: Context, reason: str) -> None:
    """Warn that the hint has no effect."""
    message = f"EARLY_FIRE has no effect here: {reason}"
    context.warnings.append(warning("HINT_IGNORED", message=message, span=hint.span))


def check_target(hint: Hint, names: Sequence[str]) -> None:
    """Reject a target that is not one of the joined relations."""
    if hint.target is not None and hint.target.casefold() not in (name.casefold() for name in names):
        problem = f"'target' = '{hint.target}' is not joined here"
        raise make("INVALID_HINT", problem=problem, hint=f"name one of {', '.join(names)}", span=hint.span)


def _parse_hint(options: dict[str, str], span: Span | None) -> Hint:
    by_name = {name.lower().replace("-", "_"): value for name, value in options.items()}
    for name in by_name:
        if name.isdigit():
            raise _invalid(f"'{by_name[name]}' has no name", "write 'delay' = '5s'", span)
        if name not in OPTIONS:
            raise _invalid(f"there is no option '{name}'", did_you_mean(name, list(OPTIONS), what="options"), span)
    if "delay" not in by_name:
        raise _invalid("'delay' is missing", "write EARLY_FIRE('delay' = '5s')", span)
    mode = by_name.get("time_mode")
    if mode is not None and mode.lower() not in (ROWTIME, PROCTIME):
        raise _invalid(f"'time_mode' cannot be '{mode}'", "write 'rowtime' or 'proctime'", span)
    return Hint(_delay(by_name["delay"], span), None if mode is None else mode.lower(), by_name.get("target"), span)


def _delay(text: str, span: Span | None) -> int:
    micros = parse_micros(text)
    if micros is None:
        raise _invalid(f"'delay' cannot be '{text}'", f"write {EXPECTED}", span)
    if micros < SHORTEST:
        raise _invalid(f"'delay' = '{text}' is too short", "the shortest delay is '1ms'", span)
    return micros


def _invalid(problem: str, hint: str | None, span: Span | None) -> Error:
    return make("INVALID_HINT", problem=problem, hint=hint, span=span)
