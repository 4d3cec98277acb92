"""The operations that write, for one caller, and to the caller's own scope alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opx import wire
from opx.api.baselines import BaselineWriting
from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.graph import GraphWriting
from opx.api.http_events import Caller
from opx.api.learning import LearningWriting
from opx.api.sources import SourceOperations
from opx.api.uploads import Uploads
from opx.api.versions import VersionWriting
from opx.errors import DocumentNotFoundError
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.operations.forms import put_form
from opx.operations.requests import RequestError
from opx.runtime.metrics import Report

if TYPE_CHECKING:
    from opx.services import Services


class WritingApi(SourceOperations, BaselineWriting, GraphWriting, LearningWriting, VersionWriting):
    """Documents in and out of the caller's scope. A method a route."""

    def __init__(self, services: Services, caller: Caller, report: Report) -> None:  # noqa: ARG002 - as all operations
        self._services = services
        self._base = LocalKnowledgeBase(services, caller.identity)

    def ingest(self, call: Call) -> Json:
        manager, body = self._base.manager, call.body
        category = manager.category_of_tier(call.path["tier"], call.path["category"])
        if call.files is not None:
            accepted, unread = put_form(manager, category, call.files, body)
            return {
                "accepted": [{"objectKey": key} for key in accepted],
                "refused": [{"index": index, "reason": reason} for index, reason in unread],
            }
        if ("document" in body) == ("documents" in body):
            raise RequestError("give either document, with its metadata, or documents")
        if "document" in body:
            _refuse(body, "dedupe", "documents")
            key = manager.put_document(category, body["document"], body.get("metadata", {}))
            return {"accepted": [{"objectKey": key}], "refused": []}
        _refuse(body, "metadata", "document")
        if not body["documents"]:
            raise RequestError("documents is empty")
        put = manager.put_batch(category, body["documents"], dedupe=body.get("dedupe", True))
        keys = dict.fromkeys(one for one in put if isinstance(one, str))
        refused = [{"index": index, "reason": str(one)} for index, one in enumerate(put) if not isinstance(one, str)]
        return {"accepted": [{"objectKey": key} for key in keys], "refused": refused}

    def put_evidence(self, call: Call) -> Json:
        return {"objectKey": self._base.put_evidence(call.body)}

    def upload(self, call: Call) -> Json:
        return Uploads(self._services, self._base).prepare(call.body)

    def object_states(self, call: Call) -> Json:
        states = self._base.object_states(_object_keys(call))
        return {"states": [wire.state_to_json(state) for state in states]}

    def delete_objects(self, call: Call) -> Json:
        keys = _object_keys(call)
        self._base.delete_objects(keys)
        return {"deleted": len(keys)}

    def delete_document(self, call: Call) -> Json:
        """Nothing is deleted for a document that no longer is current: who got no reply may ask again."""
        document_id = call.path["documentId"].lower()
        try:
            deleted = self._base.delete(document_id)
        except DocumentNotFoundError:
            if not self._was_own(document_id):
                raise
            deleted = ()
        return {"deleted": [wire.document_to_json(document) for document in deleted]}

    def _was_own(self, document_id: str) -> bool:
        return any(found.key.scope == self._base.scope for found in self._services.catalog.find(document_id))

    def retry_failures(self, call: Call) -> Json:
        ids, everything = call.body.get("failureIds"), call.body.get("all", False)
        if bool(ids) == everything:
            raise RequestError("give either failureIds, or all as true")
        sent = self._base.retry(ids or [failure.failure_id for failure in self._base.failures().items])
        return {"sent": len(sent), "objectKeys": list(sent)}


def _object_keys(call: Call) -> tuple[str, ...]:
    """Each once. Raises `RequestError` for what no object can be called, such as a way out of a folder."""
    keys = tuple(dict.fromkeys(call.body["objectKeys"]))
    for key in keys:
        if {"", ".", ".."} & set(key.split("/")):
            raise RequestError(f"{key[:100]!r} is no object key: a part of it is empty, `.` or `..`")
    return keys


def _refuse(body: dict[str, Any], name: str, only_with: str) -> None:
    if name in body:
        raise RequestError(f"{name} goes with {only_with} only")
