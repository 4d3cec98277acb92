"""Whether documents may be deleted by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentKey
from opx.domain.scopes import scope_of_object
from opx.ingestion.events import SIDECAR_SUFFIX

if TYPE_CHECKING:
    from opx.system import System


def check_removal(services: System, object_keys: Sequence[str]) -> None:
    """Raise `HeldError` if a legal hold is on one of these objects' documents, or on what a document was before."""
    services.lifecycle.holds.check(_documents(services, object_keys))


def _documents(services: System, object_keys: Sequence[str]) -> Iterator[tuple[DocumentKey, str]]:
    for object_key in object_keys:
        key = DocumentKey(*scope_of_object(object_key.removesuffix(SIDECAR_SUFFIX)))
        yield from ((version.key, version.category) for version in services.corpus.catalog.versions(key))
