"""`secrets.json` beside the catalog: the secrets that statements had literally, under the names that stand for them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.core.references import secret_reference, store_secret
from tidegate.storage.documents import Document
from tidegate.storage.folder import Folder

NAME = "secrets.json"
_REFERENCE = re.compile(r"\$\{secret:([0-9a-f]+)\}")


@dataclass(frozen=True)
class SecretsRecord:
    """The content of the file. `key`: with it, the name of a secret follows from its text, and from nothing else."""

    key: str
    texts: Mapping[str, str]


class Secrets:
    """The literal secrets of a folder. They are stored with `save`, before the statement that refers to them."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._document = document(folder)
        self._record = self._document.read() if self._document.exists() else None
        self._added: dict[str, str] = {}
        for name, text in self._texts.items():
            store_secret(name, text)

    @property
    def _texts(self) -> Mapping[str, str]:
        return {} if self._record is None else self._record.texts

    def reference(self, text: str) -> str:
        """What stands for a secret in a statement: the same for the same text."""
        if self._record is None:
            self._record = SecretsRecord(secrets.token_hex(32), {})
        key = bytes.fromhex(self._record.key)
        name = hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:24]
        if name not in self._texts:
            self._added[name] = text
            store_secret(name, text)
        return secret_reference(name)

    def save(self) -> None:
        """Store the secrets that were added, durably, and only for the owner of the folder."""
        if self._record is None or not self._added:
            return
        self._record = SecretsRecord(self._record.key, {**self._record.texts, **self._added})
        self._document.write(self._record)
        self._added = {}

    def remove_unused(self) -> None:
        """Remove the secrets that nothing in the folder refers to any more. The key stays: with it, a script that runs
        again is recognised."""
        if self._record is None:
            return
        used = set(self._used())
        kept = {name: text for name, text in self._record.texts.items() if name in used}
        if kept != self._record.texts:
            self._record = SecretsRecord(self._record.key, kept)
            self._document.write(self._record)

    def _used(self) -> Iterator[str]:
        root = self._folder.root
        for path in (self._folder.catalog, *self._folder.generations.glob("*/*.json"), root / "ledger.json"):
            if path.is_file():
                yield from _REFERENCE.findall(path.read_text(encoding="utf-8", errors="replace"))
        for text in self._texts.values():
            yield from _REFERENCE.findall(text)


def document(folder: Folder) -> Document[SecretsRecord]:
    return Document(folder.storage, NAME, "secrets", SecretsRecord)
