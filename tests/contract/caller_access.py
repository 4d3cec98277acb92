"""Callers of a system, in this process and over HTTP: both call operations, and load files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from opx.adapters.connections import Connections
from opx.domain.requests import Request, read_request
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient, OperationClient, all_pages
from opx.edges.client import RemoteClient, bearer
from opx.edges.loading import Loader, LocalLoader, RemoteLoader
from opx.ingestion.corpus.failures import Failure
from opx.ingestion.events import EventOutcome, PutFile
from opx.ingestion.files import FileToIngest
from opx.operations.context import Caller, Context
from opx.operations.corpus import ListFailures, list_failures
from opx.operations.registry import REGISTRY, Run
from opx.operations.system import System
from tests.doubles.api_gateway import DeployedSystem

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")

TOKEN = "token"


@dataclass(frozen=True)
class CallerAccess:
    """Calls operations for one caller, and loads files as the command does."""

    client: OperationClient
    loader: Loader

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation. Earlier failures don't count as its outcome."""
        operation = REGISTRY.of(run)
        if operation.route is not None and operation.route.method != "GET":
            self.loader.note_failures()
        return self.client.call(run, request)

    def put_files(self, files: Sequence[FileToIngest], metadata: Mapping[str, object]) -> list[PutFile]:
        return list(self.loader.put_files(files, metadata))

    def work(self, sent: Collection[str]) -> list[EventOutcome]:
        """Ingest waiting objects: all of them on this machine, or `sent` by the workers of a deployed system."""
        return list(self.loader.outcomes(sent))


def local_access(services: System, identity: Identity, *, owns_system: bool = False) -> CallerAccess:
    """A caller of a system in this process."""
    context = Context(services, Caller(identity, owns_system=owns_system))
    return CallerAccess(LocalClient(context), LocalLoader(context))


@contextmanager
def remote_access(services: System, claims: Mapping[str, Any]) -> Iterator[CallerAccess]:
    """A caller with these claims of a system that is deployed on this machine."""
    with DeployedSystem(services, tokens={TOKEN: claims}) as system, open_access(system) as access:
        yield access


@contextmanager
def open_access(system: DeployedSystem, token: str = TOKEN) -> Iterator[CallerAccess]:
    """The caller with this token."""
    client = RemoteClient(system.endpoint, bearer(token), Connections(), pause=_at_once)
    try:
        yield CallerAccess(client, RemoteLoader(client))
    finally:
        client.close()


def given(access: CallerAccess, run: Run[Q, R], **fields: object) -> R:
    """The reply to a request of these fields, named as in JSON. Raises `RequestError` for invalid ones."""
    return access.call(run, read_request(REGISTRY.of(run).request, fields))


def every_failure(access: CallerAccess) -> list[Failure]:
    """Failed items of all pages."""
    return [one for page in all_pages(access.client, list_failures, ListFailures()) for one in page.failures]


def _at_once(_seconds: float) -> None:
    """No pause between attempts."""
