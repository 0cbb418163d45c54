"""References such as `${NAME}` in the values of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from tidegate.cli.listening.config import Origin
from tidegate.core import references

_BRACES = re.compile(r"\$\{[^{}\n]*\}")
_HIDDEN = str.maketrans("{}", "\ue000\ue001")
_SHOWN = str.maketrans("\ue000\ue001", "{}")


def hide_braces(text: str) -> str:
    """Hide the braces of `${NAME}` from YAML, which reads braces as a map. Positions stay."""
    return _BRACES.sub(lambda match: match[0].translate(_HIDDEN), text)


def show_braces(text: str) -> str:
    return text.translate(_SHOWN)


def expand(text: str, environment: Mapping[str, str], origin: Origin) -> str:
    """Replace references by the rule of options in SQL; errors point to where the text was written."""
    return references.expand(text, environment, cast(references.Fail, origin.error))


def missing(name: str, origin: Origin, hint: str) -> Exception:
    return origin.error("MISSING_OPTION", f"the environment variable {name} is not set", hint)
