"""A double of an OpenSearch Serverless vector collection: HTTP in, documented behaviour out.

Sources: the developer guide's list of supported operations, the OpenSearch documentation, and answers of the service
quoted in public issues: 404 without a body for operations it lacks, "true refresh policy is not supported.",
"Document ID is not supported in create/index operation request", "Field parameter 'engine' is not supported".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.doubles.http_double import HttpDouble, Request, Response, ServiceFailure
from tests.doubles.opensearch_search import Searcher, only
from tests.doubles.opensearch_store import StoredIndex, error_of, failure

MAX_REQUEST_BYTES = 10 * 1024 * 1024


@dataclass(slots=True)
class _ItemFailure:
    status: int
    reason: str
    left: int
    operation: str


class OpenSearchDouble(HttpDouble):
    """`generation` is `nextgen` or `classic`. `visible_after` seconds of `clock` pass before a write is found; None: at
    `refresh` only. `index_after` seconds pass before a new index is there.

    `granted_after` seconds pass before a data access policy is effective: until then everything is forbidden, again after
    each `change_policy`. `assigns_ids`: own ids are refused; None: by a classic collection only, on which AWS's documents
    agree. `compresses`: vectors are stored with a byte a number, so that scores are approximate.
    """

    def __init__(
        self,
        generation: str = "nextgen",
        *,
        visible_after: float | None = 0.0,
        index_after: float = 0.0,
        granted_after: float = 0.0,
        assigns_ids: bool | None = None,
        compresses: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("aoss")
        self._generation = generation
        self._visible_after = visible_after
        self._index_after = index_after
        self._granted_after = granted_after
        self._granted_at = clock() + granted_after
        self._assigns_ids = generation == "classic" if assigns_ids is None else assigns_ids
        self._compresses = compresses
        self._clock = clock
        self._indexes: dict[str, StoredIndex] = {}
        self._appears: dict[str, float] = {}
        self._assigned = 0
        self._item_failures: list[_ItemFailure] = []
        self._leg_failures: list[tuple[str, dict[str, Any]]] = []

    # -- what tests do to it ---------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Make all writes visible."""
        for index in self._indexes.values():
            index.refresh()

    def change_policy(self) -> None:
        """Change the data access policy, which takes time to be effective."""
        self._granted_at = self._clock() + self._granted_after

    def fail_items(self, status: int, times: int = 1, *, reason: str = "injected", operation: str = "") -> None:
        """Let the next `times` bulk items (of this operation) fail."""
        self._item_failures.append(_ItemFailure(status, reason, times, operation))

    def fail_leg(self, word: str, answer: dict[str, Any]) -> None:
        """Let the next search whose body has this word as a key of its query or body get this answer."""
        self._leg_failures.append((word, answer))

    def requests_to(self, operation: str) -> list[Request]:
        return [request for request in self.requests if request.path.endswith("/" + operation)]

    # -- what the service does -------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Response:
        name, _, operation = request.path.lstrip("/").partition("/")
        handlers = {
            ("PUT", ""): self._create,
            ("DELETE", ""): self._delete,
            ("HEAD", ""): self._describe,
            ("GET", "_mapping"): self._describe,
            ("PUT", "_mapping"): self._add_fields,
            ("POST", "_bulk"): self._bulk,
            ("POST", "_msearch"): self._msearch,
            ("POST", "_search"): self._search,
            ("POST", "_count"): self._count,
        }
        handler = handlers.get((request.method, operation))
        if not name or name.startswith("_") or handler is None:
            raise ServiceFailure(Response(404))
        if self._clock() < self._granted_at:
            reason = "User does not have permissions for the requested resource"
            raise failure(403, "authorization_exception", reason)
        if "refresh" in request.parameters:
            raise failure(400, "status_exception", f"{request.parameters['refresh']} refresh policy is not supported.")
        if request.parameters.keys() - ({"timeout"} if operation == "_bulk" else set()):
            raise failure(400, "illegal_argument_exception", f"unrecognized parameters {sorted(request.parameters)}")
        if len(request.body) > MAX_REQUEST_BYTES:
            raise ServiceFailure(Response(413))
        return Response(200, handler(name, request))

    def _index(self, name: str) -> StoredIndex:
        if name not in self._indexes or self._clock() < self._appears[name]:
            raise failure(404, "index_not_found_exception", f"no such index [{name}]")
        return self._indexes[name]

    def _create(self, name: str, request: Request) -> dict[str, Any]:
        if name in self._indexes:
            raise failure(400, "resource_already_exists_exception", f"index [{name}] already exists")
        self._indexes[name] = StoredIndex(
            request.json(),
            generation=self._generation,
            clock=self._clock,
            delay=self._visible_after,
            compresses=self._compresses,
        )
        self._appears[name] = self._clock() + self._index_after
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def _delete(self, name: str, request: Request) -> dict[str, Any]:
        self._index(name)
        del self._indexes[name]
        return {"acknowledged": True}

    def _describe(self, name: str, request: Request) -> dict[str, Any]:
        return {name: {"mappings": self._index(name).mappings}}

    def _add_fields(self, name: str, request: Request) -> dict[str, Any]:
        only(request.json(), {"properties"}, "mapping")
        self._index(name).add_fields(request.json()["properties"])
        return {"acknowledged": True}

    def _search(self, name: str, request: Request) -> dict[str, Any]:
        return Searcher(self._index(name)).search(request.json())

    def _count(self, name: str, request: Request) -> dict[str, Any]:
        return {"count": Searcher(self._index(name)).count(request.json()), "_shards": {"total": 1, "failed": 0}}

    def _msearch(self, name: str, request: Request) -> dict[str, Any]:
        lines = request.json_lines()
        return {
            "took": 1,
            "responses": [self._one_of_many(name, *pair) for pair in zip(*[iter(lines)] * 2, strict=True)],
        }

    def _one_of_many(self, name: str, header: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        only(header, {"index"}, "msearch header")
        for position, (word, answer) in enumerate(self._leg_failures):
            if word in body or word in body["query"]:
                del self._leg_failures[position]
                return answer
        try:
            return {**Searcher(self._index(name)).search(body), "status": 200}
        except ServiceFailure as refusal:
            return error_of(refusal)

    def _bulk(self, name: str, request: Request) -> dict[str, Any]:
        """An index that isn't there fails each item, not the request."""
        lines = iter(request.json_lines())
        items = []
        for line in lines:
            ((operation, target),) = line.items()
            only(target, {"_id"}, "bulk action")
            source = next(lines) if operation in ("index", "create") else None
            items.append({operation: {"_index": name, **self._item(name, operation, target.get("_id", ""), source)}})
        failed = any("error" in result for item in items for result in item.values())
        return {"took": 1, "errors": failed, "items": items}

    def _item(self, name: str, operation: str, document_id: str, source: dict[str, Any] | None) -> dict[str, Any]:
        try:
            index = self._index(name)
            self._fail_item(operation)
            if operation == "delete":
                return self._remove(index, document_id)
            if operation not in ("index", "create") or source is None:
                raise failure(400, "illegal_argument_exception", f"Malformed action/metadata line, found [{operation}]")
            return self._put(index, operation, document_id, source)
        except ServiceFailure as refusal:
            error = {part: value for part, value in error_of(refusal)["error"].items() if part != "root_cause"}
            return {"_id": document_id or None, "status": refusal.response.status, "error": error}

    def _fail_item(self, operation: str) -> None:
        for planned in self._item_failures:
            if planned.left and planned.operation in ("", operation):
                planned.left -= 1
                raise failure(planned.status, "status_exception", planned.reason)

    def _remove(self, index: StoredIndex, document_id: str) -> dict[str, Any]:
        if document_id not in index:
            return {"_id": document_id, "status": 404, "result": "not_found"}
        index.remove(document_id)
        return {"_id": document_id, "status": 200, "result": "deleted"}

    def _put(self, index: StoredIndex, operation: str, document_id: str, source: dict[str, Any]) -> dict[str, Any]:
        if document_id and self._assigns_ids:
            reason = "Document ID is not supported in create/index operation request"
            raise failure(400, "illegal_argument_exception", reason)
        if operation == "create" and document_id in index:
            raise failure(409, "version_conflict_engine_exception", f"[{document_id}]: version conflict")
        if not document_id:
            self._assigned += 1
            document_id = f"1%3A0%3A{self._assigned:08}"
        created = document_id not in index
        index.put(document_id, source)
        return {"_id": document_id, "status": 201 if created else 200, "result": "created" if created else "updated"}
