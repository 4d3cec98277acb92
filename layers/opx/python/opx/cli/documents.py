"""Documents as commands name them: by their id, or by the beginning of it."""

from __future__ import annotations

from opx.cli.operations import whole
from opx.edges.calling import Client
from opx.operations.documents import DocumentVersions, GetDocument, get_document


def find_versions(client: Client, document_id: str) -> DocumentVersions:
    """A document with all versions that the caller may see. Raises `DocumentNotFoundError`, and `InvalidInputError` for the
    beginning of several ids."""
    return whole(client, get_document, GetDocument(document_id=document_id), "versions")
