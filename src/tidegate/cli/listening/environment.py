"""`${NAME}` in the values of a file: environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.cli.listening.config import Origin

_REFERENCE = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<bad>\$\{[^}]*\}?)")
_BRACES = re.compile(r"\$\{[^{}\n]*\}")
_HIDDEN = str.maketrans("{}", "\ue000\ue001")
_SHOWN = str.maketrans("\ue000\ue001", "{}")


def hide_braces(text: str) -> str:
    """Hide the braces of `${NAME}` from YAML, which reads braces as a map. Positions stay."""
    return _BRACES.sub(lambda match: match[0].translate(_HIDDEN), text)


def show_braces(text: str) -> str:
    return text.translate(_SHOWN)


def expand(text: str, environment: Mapping[str, str], origin: Origin) -> str:
    """Replace `${NAME}` and `${NAME:-default}`. `$$` is a dollar sign, and so is a `$` before any other character."""

    def value(match: re.Match[str]) -> str:
        if match["bad"] is not None:
            hint = "write ${NAME} or ${NAME:-default}, and $$ for a dollar"
            raise origin.error("INVALID_OPTION", f"{match['bad']} does not name an environment variable", hint)
        return _variable(match, environment, origin) if match["name"] else "$"

    return _REFERENCE.sub(value, text)


def _variable(match: re.Match[str], environment: Mapping[str, str], origin: Origin) -> str:
    name, default = match["name"], match["default"]
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise missing(name, origin, f"export {name}=..., or give a default: ${{{name}:-...}}")
    return value


def missing(name: str, origin: Origin, hint: str) -> Exception:
    return origin.error("MISSING_OPTION", f"the environment variable {name} is not set", hint)
