"""A body's signature: who knows the secret wrote it, and nobody changed it since."""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, body: bytes) -> str:
    """`sha256=<hex>`, as GitHub's webhooks have it too."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed(secret: str, body: bytes, said: str | None) -> bool:
    return said is not None and hmac.compare_digest(signature(secret, body).encode(), said.strip().encode("utf-8"))
