"""The operations on versions of documents."""

from __future__ import annotations

from opx.api.calls import Call
from opx.api.fields import Json
from opx.local_knowledge_base import LocalKnowledgeBase


class VersionReading:
    """How versions differ."""

    _base: LocalKnowledgeBase

    def document_diff(self, call: Call) -> Json:
        asked = call.query
        wanted = call.path["documentId"]
        return self._base.version_diff(wanted, before=asked.get("from", 0), after=asked.get("to", 0)).to_json()


class VersionWriting:
    """Old versions, put back."""

    _base: LocalKnowledgeBase

    def restore_document(self, call: Call) -> Json:
        return self._base.restore(call.path["documentId"], call.body.get("version", 0)).to_json()
