"""A system that tests of the HTTP API write to, and a signer that records its uploads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lambdas.manage_knowledge.handler import make_handler
from opx.operations.system import System
from opx.ports import SignedUpload
from tests.support.agent_calls import CORPUS, a_system
from tests.support.api_requests import Handler
from tests.support.fakes import function_logs

VAULT = "clients/acme/documents/runbooks/vault.md"
POST = "clients/acme/projects/blog/documents/post.md"
BROKEN = "clients/acme/documents/runbooks/empty.md"
PROCEDURES = {"tier": "internal", "category": "runbooks/procedures"}
TEXT = "# Rotate keys\n\nMake a new key, then remove the old one."
HASH = hashlib.sha256(TEXT.encode()).hexdigest()
UPLOAD = {"source": "docs/keys.md", "sha256": HASH, "size": len(TEXT)}
"""A request for the address of an upload."""


@dataclass
class NotedSigner:
    """An `UploadSigner` that records signed uploads. `stored` has digests by key."""

    signed: dict[str, dict[str, Any]] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedUpload:
        self.signed[key] = {"size": size, "sha256": sha256, "metadata": dict(metadata or {}), "seconds": seconds}
        return SignedUpload(f"https://corpus.example/{key}", {"content-length": str(size)})

    def sha256_of(self, key: str) -> str:
        return self.stored.get(key, "")


def keys(services: System, prefix: str = "") -> list[str]:
    return [info.key for info in services.store.list(prefix) if "/chunks/" not in f"/{info.key}"]


@contextmanager
def a_writable_system(folder: Path, signer: NotedSigner) -> Iterator[System]:
    """A system with a file that fails, whose logs are those of functions."""
    with function_logs(), a_system(folder, {**CORPUS, BROKEN: ""}, upload_signer=signer) as system:
        yield system


@contextmanager
def a_refusing_handler(kept: System) -> Iterator[Handler]:
    """The handler of a system. Afterwards, asserts that nothing was written."""
    before = keys(kept)
    with function_logs():
        yield make_handler(lambda: kept)
    assert keys(kept) == before
    assert kept.corpus.upload_signer.signed == {}  # type: ignore[union-attr]


@contextmanager
def a_kept_system(folder: Path) -> Iterator[System]:
    """A system for tests that write nothing."""
    corpus = {**CORPUS, BROKEN: "", POST: "# Write a post\n\nOnce a week."}
    with a_system(folder, corpus, upload_signer=NotedSigner()) as system:
        yield system
