"""References in the values of options, replaced when a connector starts: `${NAME}` and `${file:/run/secrets/name}`.

`${NAME:-default}` has a value if the environment variable is unset or empty. `$$` is a dollar sign, and so is a `$`
before any other character. `${secret:...}` stands for a secret that a statement had literally: the data folder keeps it
beside the catalog.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.errors import Error, make

_REFERENCE = re.compile(
    r"\$\$|\$\{(?:secret:(?P<secret>[0-9a-f]+)|file:(?P<file>/[^{}]*)"
    r"|(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?)\}|(?P<bad>\$\{)"
)
LONGEST_FILE = 1 << 20

_stored: dict[str, str] = {}
"""The literal secrets of the folders that are open in this process. Their names depend on a key of the folder."""

Fail = Callable[[str, str, str], Exception]


def _error(code: str, message: str, hint: str) -> Error:
    return make(code, message=message, hint=hint)


def store_secret(name: str, text: str) -> None:
    """Make `${secret:name}` stand for a text, which may itself have references."""
    _stored[name] = text


def secret_reference(name: str) -> str:
    return f"${{secret:{name}}}"


def escape(text: str) -> str:
    """A text as the value of an option that means just this text."""
    return text.replace("$", "$$") if "$$" in text or "${" in text else text


def expand(text: str, environment: Mapping[str, str] | None = None, fail: Fail = _error) -> str:
    """A text with its references replaced. `fail` makes the error for one that cannot be."""
    known = os.environ if environment is None else environment

    def value(match: re.Match[str]) -> str:
        if match["bad"]:
            hint = "write ${NAME}, ${NAME:-default} or ${file:/path}, and $$ for a dollar"
            raise fail("INVALID_OPTION", "this ${ begins no reference", hint)
        if match["secret"]:
            return expand(_stored_secret(match["secret"], fail), known, fail)
        if match["file"]:
            return _content(match["file"], fail)
        return _variable(match, known, fail) if match["name"] else "$"

    return _REFERENCE.sub(value, text)


def _variable(match: re.Match[str], environment: Mapping[str, str], fail: Fail) -> str:
    name, default = match["name"], match["default"]
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        hint = f"export {name}=..., or give a default: ${{{name}:-...}}"
        raise fail("MISSING_OPTION", f"the environment variable {name} is not set", hint)
    return value


def _content(path: str, fail: Fail) -> str:
    """The text of a file, without the line break at its end."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            text = file.read(LONGEST_FILE)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8"
        hint = "make it readable for this user, or correct the path"
        raise fail("MISSING_OPTION", f"the file {path} cannot be read: {reason}", hint) from None
    return text.removesuffix("\n").removesuffix("\r")


def _stored_secret(name: str, fail: Fail) -> str:
    if name not in _stored:
        hint = (
            "restore secrets.json from the backup that the folder is from, or write CREATE OR REPLACE with the secret"
        )
        raise fail("MISSING_OPTION", f"the data folder does not have the secret {name}", hint)
    return _stored[name]
