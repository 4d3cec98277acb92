"""A random key of this installation, so that hashes of what can be guessed tell nothing to who hasn't got it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable

from opx.errors import ConditionFailedError
from opx.ports import Absent, Table

_KEY = {"scopeKey": "#installation", "gapId": "key"}
"""In the table of gaps: who may read the audit log alone can't try questions until a hash fits. No scope has that key."""

_BYTES = 32


class InstallationKey:
    """Keyed hashes. The key is made by the first who needs it, and read once a process."""

    def __init__(self, gaps: Table, new_key: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._table = gaps
        self._new_key = new_key
        self._key = b""

    def hash(self, *parts: str) -> str:
        """32 hex digits of a HMAC-SHA256 of the texts. Raises `StoreUnavailableError`."""
        self._key = self._key or self._stored()
        message = "\0".join(f"{len(part)}:{part}" for part in parts)
        digest = hmac.new(self._key, message.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return digest.hexdigest()[:32]

    def _stored(self) -> bytes:
        item = self._table.get(_KEY)
        if item is None:
            item = {**_KEY, "key": self._new_key(_BYTES)}
            try:
                self._table.put(item, condition=Absent())
            except ConditionFailedError:  # another process was quicker
                item = self._table.get(_KEY) or item
        return bytes(item["key"])
