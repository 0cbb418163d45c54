"""`${NAME}` in the values of a file: what the environment says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.cli.listening.config import Origin

_REFERENCE = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<bad>\$\{[^}]*\}?)")
_BRACES = re.compile(r"\$\{[^{}\n]*\}")
_HIDDEN = str.maketrans("{}", "\ue000\ue001")
_SHOWN = str.maketrans("\ue000\ue001", "{}")


def hide_braces(text: str) -> str:
    """Makes `${NAME}` readable for YAML between { and } too, where braces have a meaning. Nothing moves."""
    return _BRACES.sub(lambda found: found[0].translate(_HIDDEN), text)


def show_braces(text: str) -> str:
    return text.translate(_SHOWN)


def expanded(text: str, environment: Mapping[str, str], origin: Origin) -> str:
    """`${NAME}` and `${NAME:-default}` replaced; `$$` is a dollar, and so is one before anything else."""

    def value(found: re.Match[str]) -> str:
        if found["bad"] is not None:
            hint = "write ${NAME} or ${NAME:-default}, and $$ for a dollar"
            raise origin.error("INVALID_OPTION", f"{found['bad']} does not name an environment variable", hint)
        return _variable(found, environment, origin) if found["name"] else "$"

    return _REFERENCE.sub(value, text)


def _variable(found: re.Match[str], environment: Mapping[str, str], origin: Origin) -> str:
    name, default = found["name"], found["default"]
    said = environment.get(name)
    if default is not None:
        return said or default
    if said is None:
        raise missing(name, origin, f"export {name}=..., or give a default: ${{{name}:-...}}")
    return said


def missing(name: str, origin: Origin, hint: str) -> Exception:
    return origin.error("MISSING_OPTION", f"the environment variable {name} is not set", hint)
