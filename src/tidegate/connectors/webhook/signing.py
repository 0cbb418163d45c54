"""Signatures of bodies (HMAC-SHA256)."""

from __future__ import annotations

import hashlib
import hmac

SIGNATURE = "X-Tidegate-Signature"
TIMESTAMP = "X-Tidegate-Timestamp"


def signature(secret: str, body: bytes, timestamp: str | None = None) -> str:
    """Return `sha256=<hex>`, as GitHub's webhooks have it too: of the body, or of `timestamp.body`."""
    content = body if timestamp is None else timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def is_signed(secret: str, body: bytes, signature_sent: str | None, timestamp: str | None = None) -> bool:
    return signature_sent is not None and hmac.compare_digest(
        signature(secret, body, timestamp).encode(), signature_sent.strip().encode()
    )
