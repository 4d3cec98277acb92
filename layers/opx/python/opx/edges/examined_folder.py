"""The system of a folder, as `opx doctor` examines it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from opx.domain.record import Json
from opx.domain.scopes import Identity
from opx.edges import failures, http, tools
from opx.edges.calling import OperationClient
from opx.edges.doctor import CheckFailedError
from opx.errors import NotApplicableError, OpxError
from opx.graph.naming import ScopeDirectory
from opx.ingestion.indexing.measuring import EmbeddingSpeed, measure_embedding
from opx.operations.registry import KNOWLEDGE, Function
from opx.operations.system import System
from opx.ports.search import SearchFilter
from opx.retrieval.waking import WAKE, wake
from opx.runtime.metrics import unreported

_REPAIR = (
    "`opx reconcile` lists what differs, `opx reconcile --repair` ingests it again. If a file is damaged, `opx repair` makes "
    "what it can from what is left; the rest is in a backup (docs/backup.md)"
)

REMEDIES: Mapping[str, str] = {
    "index": _REPAIR,
    "embedding": "see OPX_EMBEDDER: whether a model of `local:` is installed, and of another one, its access",
    "ingestion": f"see `opx failed`, and the rights on the folder. {_REPAIR}",
    "words": f"if it is a document of another client: stop the system, and report it. Else {_REPAIR}",
    "meaning": "the index may be of another embedding model: `opx reindex` builds one for the model of OPX_EMBEDDER",
    "action group": "see the section agents of knowledge.yaml, which grants the tool",
    "deletion": "delete them with `opx delete` when the cause is removed; `opx list` has them",
}


@dataclass
class SystemHere:
    """The system of a folder, called as its functions would be."""

    system: System
    title: str
    identity: Identity = field(default_factory=Identity)

    @property
    def remedies(self) -> Mapping[str, str]:
        return REMEDIES

    def invoke(self, function: Function, event: Mapping[str, Any]) -> Json:
        if event == WAKE:
            self._check_index()
            return dict(wake(self.system.indexing, unreported))
        context = SimpleNamespace(client_context=None)
        with _causes_raised():
            if http.is_http(event, context):
                return http.respond(event, function, lambda: self.system, unreported)
            return tools.respond(event, context, KNOWLEDGE, lambda: self.system, unreported)

    def _check_index(self) -> None:
        """Raises `CheckFailedError` if the index is empty, and documents were ingested into it."""
        counted = self.system.lifecycle.holdings.all(self.system.lifecycle.usage.tally())
        chunks = sum(chunks for _, chunks in counted.categories.values())
        scopes = ScopeDirectory(self.system.corpus.clients, self.system.corpus.projects).all()
        entries = self.system.index.count(SearchFilter(tuple(scope.key for scope in scopes)))
        if chunks and not entries:
            documents = sum(documents for documents, _ in counted.categories.values())
            raise CheckFailedError(
                f"the index is empty, and the catalog has {documents:,} documents with {chunks:,} chunks: none is found"
            )

    def put(self, object_key: str, text: str) -> None:
        self.system.store.put(object_key, text.encode())
        self._work()

    def delete(self, object_key: str) -> None:
        self.system.store.delete(object_key)
        self._work()

    def _work(self) -> None:
        drain = self.system.ingestion.drain
        if drain is not None:
            list(drain.run())

    def measure(self) -> EmbeddingSpeed:
        return measure_embedding(self.system)

    def api(self) -> OperationClient:
        raise NotApplicableError("a folder has no HTTP API; its requests were answered in this process")

    def ask_gateway(self, tool: str, arguments: Mapping[str, Any]) -> str:  # noqa: ARG002
        raise NotApplicableError("a folder has no gateway; agents of this machine use `opx mcp`")

    def ask_as_token_holder(self, identity: Identity, tool: str, arguments: Mapping[str, Any]) -> str:  # noqa: ARG002
        raise NotApplicableError("a folder has no gateway")

    def fire_alarm(self) -> str:
        raise NotApplicableError("a folder has no alarms")


class _Causes(logging.Handler):
    """Keeps the errors behind replies that withhold them from callers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            self.found.append(record.exc_info[1])


@contextmanager
def _causes_raised() -> Iterator[None]:
    """Raises the cause of a failed reply: replies to callers say only that it was logged."""
    causes = _Causes()
    failures.log.addHandler(causes)
    try:
        yield
    finally:
        failures.log.removeHandler(causes)
    if causes.found:
        cause = causes.found[0]
        raise cause if isinstance(cause, OpxError) else CheckFailedError(f"{type(cause).__name__}: {cause}")
