"""A YAML file as values with their positions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tidegate.cli.listening.config import ADAPTERS, SOURCES, Origin
from tidegate.cli.listening.environment import expand, hide_braces, show_braces
from tidegate.core.secrets import hide_parts, is_secret, masked
from tidegate.errors import Error, Span, make
from tidegate.errors.masking import Shown

_PLAIN = re.compile(r"[A-Za-z_][\w.\-]*")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Scalar:
    """A value as text; booleans are `true` or `false`. `own` shows the text itself rather than the file; `written` has
    references that `text` has replaced."""

    text: str = field(repr=False)
    origin: Origin
    own: Origin
    is_null: bool = False
    written: str | None = None


@dataclass(frozen=True)
class Items:
    items: tuple[Node, ...]
    origin: Origin


@dataclass(frozen=True)
class Fields:
    """Values by key. `keys`: the position of each key."""

    fields: Mapping[str, Node]
    keys: Mapping[str, Origin]
    origin: Origin

    def position(self, key: str) -> Origin:
        """The position of a key, with its value if both are on one line."""
        at, value = self.keys[key], self.fields[key].origin
        if at.label != value.label or at.span is None or value.span is None:
            return at
        return Origin(at.label, at.text, at.span.hull(value.span))


Node = Scalar | Items | Fields


def read_document(path: Path, text: str, environment: Mapping[str, str]) -> Node | None:
    """The one value of a YAML file, None if it is empty. References to the environment are replaced."""
    hidden = hide_braces(text)
    try:
        root = yaml.compose(hidden, Loader=yaml.SafeLoader)
    except yaml.YAMLError as problem:
        raise _not_yaml(path, hidden, problem) from None
    if root is None:
        return None
    return _Reader(path, _without_secrets(text, root), environment).node(root, ())


class _Reader:
    def __init__(self, path: Path, text: str, environment: Mapping[str, str]) -> None:
        self.path, self.text, self.environment = path, text, environment

    def node(self, node: yaml.Node, inside: tuple[yaml.Node, ...]) -> Node:
        origin = self.origin(node)
        if any(node is outer for outer in inside):
            raise origin.error("SYNTAX_ERROR", "this value contains itself", "write it out, without the alias")
        match node:
            case yaml.ScalarNode():
                return self.scalar(node, origin)
            case yaml.SequenceNode():
                return Items(tuple(self.node(item, (*inside, node)) for item in node.value), origin)
            case yaml.MappingNode():
                return self.fields(node, origin, inside)
            case _:
                raise origin.error("SYNTAX_ERROR", f"a {node.tag} cannot stand here")

    def scalar(self, node: yaml.ScalarNode, origin: Origin) -> Scalar:
        written = show_braces(node.value)
        text = expand(written, self.environment, origin)
        if node.tag == f"{_TAG}bool":
            text = "true" if text.casefold() in ("true", "yes", "on") else "false"
        return Scalar(
            text, origin, self.own(node, text), node.tag == f"{_TAG}null", written if "$" in written else None
        )

    def fields(self, node: yaml.MappingNode, origin: Origin, inside: tuple[yaml.Node, ...]) -> Fields:
        keys: dict[str, Origin] = {}
        values: dict[str, Node] = {}
        for key, value in node.value:
            at = self.origin(key)
            if not isinstance(key, yaml.ScalarNode):
                raise at.error("SYNTAX_ERROR", "a key must be a word")
            if key.value in keys:
                first = keys[key.value].label
                raise at.error("INVALID_OPTION", f"'{key.value}' is given twice", f"the first one is {first}")
            keys[key.value] = at
            values[key.value] = self.node(value, (*inside, node))
        return Fields(values, keys, origin)

    def origin(self, node: yaml.Node) -> Origin:
        """The position of a node; of one with several lines, the first."""
        start, end = node.start_mark.index, node.end_mark.index
        label = f"{self.path.name}:{node.start_mark.line + 1}"
        line_end = self.text.find("\n", start)
        return Origin(label, self.text, Span(start, min(end, line_end) if line_end >= start else end))

    def own(self, node: yaml.ScalarNode, text: str) -> Origin:
        """The text itself, padded with empty lines so that its line numbers are those of the file."""
        line = node.start_mark.line + (1 if node.style in ("|", ">") else 0)
        return Origin(f"{self.path.name}:{line + 1}", "\n" * line + text, Span(line, line + len(text)))


def _not_yaml(path: Path, text: str, problem: yaml.YAMLError) -> Error:
    """The error for a file that is not YAML. It shows no text, since secrets in it cannot be recognised."""
    line, reason = _explain(text, problem)
    hint = "indent with blanks, not with tabs" if "'\\t'" in reason else None
    return make("SYNTAX_ERROR", message=f"{path.name}:{line}: this is not YAML: {show_braces(reason)}", hint=hint)


def _explain(text: str, problem: yaml.YAMLError) -> tuple[int, str]:
    match problem:
        case yaml.MarkedYAMLError(problem_mark=yaml.Mark(line=line)):
            return line + 1, problem.problem or problem.context or "it cannot be read"
        case yaml.reader.ReaderError():
            return text.count("\n", 0, problem.position) + 1, f"character #x{problem.character:04x} cannot stand in it"
        case _:
            return 1, "it cannot be read"


def _without_secrets(text: str, root: yaml.Node) -> Shown:
    """The file as errors may show it: values that are secret, or have a password inside, are starred out."""
    characters, hidden = list(text), list[str]()
    waiting: list[tuple[str, yaml.Node]] = [("", root)]
    seen: set[int] = set()
    while waiting:
        key, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            unclear = bool(key) and not _is_plain(key)
            nested = "headers." if unclear or key.endswith("headers") else ""
            waiting += [(nested + str(name.value), value) for name, value in node.value]
            odd = [name for name, value in node.value if _is_odd(name, value)]
            waiting += [("secret", yaml.ScalarNode("", "", each.start_mark, each.end_mark)) for each in odd]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(key, item) for item in node.value]
        else:
            start, end = node.start_mark.index, node.end_mark.index
            value = text[start:end]
            if (key and not _is_plain(key)) or (value and masked(key, value) != value):
                hidden += [value, value.strip("'\""), str(node.value)]
                characters[start:end] = ["\n" if sign == "\n" else "*" for sign in characters[start:end]]
    shown = Shown(_COMMENT.sub(lambda comment: hide_parts(comment[0]), "".join(characters)))
    shown.hidden = tuple(hidden)
    return shown


def _is_plain(key: str) -> bool:
    """False for a key that has swallowed a value, since a colon is missing: `password hunter2`."""
    words = key.split()
    return all(map(_PLAIN.fullmatch, words)) and (len(words) == 1 or not any(map(is_secret, words)))


def _is_odd(name: yaml.Node, value: yaml.Node) -> bool:
    """True for a key that may be the value of an option: it is no name, or has no value."""
    if not isinstance(name, yaml.ScalarNode) or not _is_plain(name.value):
        return True
    return value.start_mark.index == value.end_mark.index and name.value not in (*SOURCES, *ADAPTERS)
