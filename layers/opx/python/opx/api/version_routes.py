"""The routes of versions of documents."""

from __future__ import annotations

from opx.api.declarations import Function, Route, TokenScope
from opx.api.fields import Field, Kind

_MOST = 10**9


def _version(name: str, about: str) -> Field:
    return Field(name, Kind.WHOLE, about, minimum=1, maximum=_MOST)


VERSIONS = (
    Route(
        name="document_diff",
        method="GET",
        path="/documents/{documentId}/diff",
        function=Function.RETRIEVE,
        about="How two versions of a document differ: in their metadata, and line by line.",
        query=(
            _version("from", "The version to compare with; left out, the one that was replaced by the other."),
            _version("to", "The version to look at; left out, the one with this document id."),
        ),
    ),
    Route(
        name="restore_document",
        method="POST",
        path="/documents/{documentId}/restore",
        function=Function.MANAGE,
        about="Put an old version of a document of the caller's own back. It becomes a new version, afterwards.",
        body=(_version("version", "Which one; left out, the one with this document id."),),
        scopes=(TokenScope.WRITE, TokenScope.ADMIN),
        status=202,
    ),
)
