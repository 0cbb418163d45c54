"""What one client gets: everything behind its place, in order, then what comes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tidegate.connectors.sse.hub import Behind, Hub, Item, Place

RETRY_MILLISECONDS = 1000
AT_ONCE = 500

Replay = Callable[[int], Iterator[tuple[int, Sequence[Item]]]]
"""The events of the steps after a step, once more, as far as they are kept: (step, events)."""


@dataclass
class ClientStream:
    """The text for one client, piece by piece. `wanted` matches the names of the events it asks for; None: all."""

    hub: Hub
    replay: Replay
    heartbeat: float
    wanted: re.Pattern[str] | None
    place: Place

    def pieces(self) -> Iterator[str]:
        """Begins with the place where the client is, so that one that is cut off before its first event comes back to
        just there."""
        yield f"retry: {RETRY_MILLISECONDS}\n"
        if self.place.step > self.hub.last.step:
            yield self._gap(self.hub.last)
        yield f"id: {self.place}\n\n"
        told = self.place
        while not self.hub.closed:
            try:
                items = self.hub.after(self.place, AT_ONCE, self.heartbeat)
            except Behind:
                yield from self._missed(self.hub.floor)
                continue
            if text := self._text(items):
                told = self.place
                yield text
            elif not items and not self.hub.closed:
                yield ": \n\n" if told == self.place else f"id: {self.place}\n\n"
                told = self.place

    def _missed(self, target: Place) -> Iterator[str]:
        """What is older than what the hub has, up to a place, from the step log. If that no longer has the step of the
        client's last event, others may be gone as well."""
        is_first = True
        for step, items in self.replay(self.place.step - 1):
            if step > target.step:
                break
            if is_first and 0 < self.place.step < step:
                yield self._gap(Place.behind(step - 1))
            is_first = False
            yield from self._of_step(items)
        if is_first:
            yield self._gap(target)
        self.place = max(self.place, target)

    def _of_step(self, items: Sequence[Item]) -> Iterator[str]:
        left = (item for item in items if item.place > self.place)
        while part := list(islice(left, AT_ONCE)):
            if text := self._text(part):
                yield text

    def _text(self, items: Sequence[Item]) -> str:
        if items:
            self.place = items[-1].place
        return "".join(map(said, (item for item in items if self._wants(item))))

    def _wants(self, item: Item) -> bool:
        return self.wanted is None or self.wanted.fullmatch(item.name) is not None

    def _gap(self, target: Place) -> str:
        """Tells that events may be missing, and where it goes on."""
        text = json.dumps({"after": str(self.place), "goes_on_after": str(target)})
        self.place = target
        return said(Item(target, "gap", text))


def said(item: Item) -> str:
    """`id: 12-0`, `event: pgcdc:orders`, `data: {...}`: each is a line."""
    return f"id: {item.place}\nevent: {_line(item.name)}\ndata: {_line(item.text)}\n\n"


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def pattern(channels: str) -> re.Pattern[str]:
    """`pgcdc:orders*, hooks`: `*` stands for any text, `?` for one character."""
    signs = {"*": ".*", "?": "."}
    parts = [part.strip() for part in channels.split(",") if part.strip()]
    every = ("".join(signs.get(sign) or re.escape(sign) for sign in part) for part in parts)
    return re.compile("|".join(every), re.DOTALL)
