"""The notice that `tidegate listen` prints when it is ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.cli.listening.config import Config, Endpoint
from tidegate.core.options import mask_options
from tidegate.errors import enumerated

SUBJECTS = ("tables", "table", "channels", "topic", "port")
"""The options that describe a source, most specific first."""

DESTINATIONS = ("path", "url", "port", "bootstrap_servers")
"""The options that name the destination of an adapter."""


def notice(config: Config, folder: Path | None, metrics: str | None) -> dict[str, Any]:
    """The notice for programs: sources, views and adapters with their options, data folder and metrics."""
    return {
        "sources": {each.name: _options(each) for each in config.sources},
        "views": [view.name for view in config.views],
        "adapters": {each.name: _options(each) for each in config.adapters},
        "data": None if folder is None else str(folder.absolute()),
        "metrics": metrics,
    }


def notice_lines(config: Config, folder: Path | None, metrics: str | None) -> Iterator[str]:
    """
    listening to postgres (orders, sales.items)
      views: order_stats
      to stdout: pgcdc:_view:*
      data: /home/ann/.local/state/tidegate/listen/shop-1f0c9a2b7d
      Ctrl-C ends it
    """
    yield "listening to " + enumerated((_subject(each) for each in config.sources), last="and")
    if config.views:
        yield "  views: " + ", ".join(view.name for view in config.views)
    for each in config.adapters:
        yield f"  to {_destination(each)}: {each.get('channels')}"
    yield f"  data: {folder.absolute()}" if folder is not None else "  data: none is kept"
    if folder is not None and not config.adapters:
        yield f"  tidegate tail {folder} VIEW follows a view"
    if metrics is not None:
        yield f"  metrics: {metrics}"
    yield "  Ctrl-C ends it"


def _options(endpoint: Endpoint) -> dict[str, str]:
    return mask_options({"type": endpoint.kind} | {setting.key: setting.value for setting in endpoint.settings})


def _subject(source: Endpoint) -> str:
    subject = next((source.get(key) for key in SUBJECTS if source.get(key)), None)
    return source.name if subject is None else f"{source.name} ({subject})"


def _destination(adapter: Endpoint) -> str:
    options = _options(adapter)
    destination = next((options[key] for key in DESTINATIONS if key in options), None)
    return adapter.name if destination is None else f"{adapter.name} ({destination})"
