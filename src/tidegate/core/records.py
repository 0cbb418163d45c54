"""Dataclasses as JSON with an explicit schema: written by stable names, read strictly.

A class that is registered under a name (a *kind*) is written with that name, and without the fields that have their
default value: renaming a Python class or adding a field with a default changes nothing on disk. A class that is not
registered is a plain record: every field is written and every field is required. A named tuple is a list, without the
last fields that have their default value.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

KIND, VERSION = "@kind", "@version"
"""The keys of a document that hold its kind and the version of that kind. No field can have such a name."""

T = TypeVar("T")


class Malformed(ValueError):
    """A JSON document that does not have the expected shape."""


class Codec:
    """Encodes and decodes dataclasses. `kinds`: the registered classes by name; `versions`: the version of some kinds,
    which is part of what is written."""

    def __init__(self, kinds: Mapping[str, type] | None = None, versions: Mapping[str, int] | None = None) -> None:
        self._kinds, self._versions = dict(kinds or {}), dict(versions or {})
        self._names = {each: name for name, each in self._kinds.items()}

    def encode(self, value: object) -> Any:
        """The JSON document of a value."""
        match value:
            case None | bool() | int():
                return value
            case str():
                return str(value)
            case float() if value == value and abs(value) != float("inf"):
                return value
            case Mapping():
                return {_key(key): self.encode(item) for key, item in value.items()}
            case tuple() if hasattr(value, "_field_defaults"):
                return [self.encode(item) for item in _without_defaults(value)]
            case tuple() | list():
                return [self.encode(item) for item in value]
            case set() | frozenset():
                return sorted((self.encode(item) for item in value), key=canonical)
        if is_dataclass(value):
            return self._encode_fields(value)
        raise TypeError(f"{value!r} cannot be written as JSON")

    def _encode_fields(self, value: Any) -> dict[str, Any]:
        name = self._names.get(type(value))
        stored = [each for each in fields(value) if name is None or not _is_default(each, getattr(value, each.name))]
        tag: dict[str, Any] = {} if name is None else {KIND: name}
        if name in self._versions:
            tag[VERSION] = self._versions[name]
        return {**tag, **{each.name: self.encode(getattr(value, each.name)) for each in stored}}

    def decode(self, expected: type[T], document: object) -> T:
        """The value of a document; Malformed unless it is exactly what `expected` describes."""
        decoded: T = self._decode(expected, document, expected.__name__)
        return decoded

    def _decode(self, hint: Any, document: Any, path: str) -> Any:
        if hint is Any:
            return document
        if hint in SCALARS:
            return _scalar(hint, document, path)
        origin = get_origin(hint)
        if origin in (Union, types.UnionType):
            return self._decode_union(get_args(hint), document, path)
        if origin is Literal:
            return _checked(document in get_args(hint), document, hint, path)
        if origin is not None:
            return self._decode_container(origin, get_args(hint), document, path)
        if issubclass(hint, str):
            return hint(_scalar(str, document, path))
        if issubclass(hint, tuple) and hasattr(hint, "_fields"):
            return self._decode_named_tuple(hint, document, path)
        return self._decode_dataclass(hint, document, path)

    def _decode_union(self, members: tuple[Any, ...], document: Any, path: str) -> Any:
        if document is None and types.NoneType in members:
            return None
        problem = Malformed(f"{path}: unexpected {_excerpt(document)}")
        for member in members:
            if member is not types.NoneType:
                try:
                    return self._decode(member, document, path)
                except Malformed as found:
                    problem = found
        raise problem

    def _decode_container(self, origin: Any, arguments: tuple[Any, ...], document: Any, path: str) -> Any:
        if issubclass(origin, Mapping):
            _checked(isinstance(document, dict), document, "an object", path)
            return {key: self._decode(arguments[1], item, f"{path}.{key}") for key, item in document.items()}
        _checked(isinstance(document, list), document, "a list", path)
        if origin is tuple and arguments[-1:] != (...,):
            _checked(len(document) == len(arguments), document, f"a list of {len(arguments)}", path)
            pairs = zip(arguments, document, strict=True)
            return tuple(self._decode(hint, item, f"{path}[{index}]") for index, (hint, item) in enumerate(pairs))
        items = (self._decode(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(document))
        return (list if issubclass(origin, list) else frozenset if issubclass(origin, frozenset) else tuple)(items)

    def _decode_named_tuple(self, hint: Any, document: Any, path: str) -> Any:
        hints = tuple(_hints(hint).values())
        required = len(hints) - len(hint._field_defaults)
        given = max(required, len(document)) if isinstance(document, list) else len(hints)
        return hint(*self._decode_container(tuple, hints[:given], document, path))

    def _decode_dataclass(self, hint: type, document: Any, path: str) -> Any:
        _checked(isinstance(document, dict), document, "an object", path)
        actual = self._class_of(hint, document, path)
        name = self._names.get(actual)
        stored = {key: item for key, item in document.items() if name is None or key not in (KIND, VERSION)}
        if name in self._versions:
            _checked(document.get(VERSION) in range(1, self._versions[name] + 1), document, "a known version", path)
        declared = {each.name: each for each in fields(actual) if each.init}
        if unknown := stored.keys() - declared.keys():
            raise Malformed(f"{path}: unknown field {min(unknown)}")
        if missing := {each for each in declared if each not in stored and (name is None or _required(declared[each]))}:
            raise Malformed(f"{path}: field {min(missing)} is missing")
        hints = _hints(actual)
        return actual(**{key: self._decode(hints[key], item, f"{path}.{key}") for key, item in stored.items()})

    def _class_of(self, hint: type, document: Mapping[str, Any], path: str) -> Any:
        """The class that a document is of: the expected one, or a registered subclass of it."""
        registered = [each for each in self._names if issubclass(each, hint)]
        if not registered:
            return hint
        actual = self._kinds.get(str(document.get(KIND)))
        if actual not in registered:
            raise Malformed(f"{path}: unknown kind {_excerpt(document.get(KIND))}")
        return actual


SCALARS: tuple[Any, ...] = (bool, int, float, str, types.NoneType)


def canonical(document: Any) -> str:
    """The one text of a JSON document: sorted keys, no blanks."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _without_defaults(value: Any) -> list[Any]:
    """The fields of a named tuple without the last ones that have their default value."""
    items = list(value)
    defaults = value._field_defaults
    for name in reversed(value._fields):
        if name not in defaults or defaults[name] != items[-1]:
            break
        items.pop()
    return items


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r} is not a name")
    return key


def _is_default(field: Field[Any], value: object) -> bool:
    factory: Callable[[], Any] | Any = field.default_factory
    default = field.default if factory is MISSING else factory()
    return default is not MISSING and type(default) is type(value) and bool(default == value)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _scalar(hint: Any, document: Any, path: str) -> Any:
    if hint is float and type(document) is int:
        return float(document)
    return _checked(type(document) is hint, document, hint.__name__, path)


def _checked(valid: bool, document: Any, expected: object, path: str) -> Any:
    if not valid:
        raise Malformed(f"{path}: expected {expected}, found {_excerpt(document)}")
    return document


def _excerpt(document: object) -> str:
    text = repr(document)
    return text if len(text) <= 60 else f"{text[:57]}..."
