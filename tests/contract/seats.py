"""Callers' places at a system, in this process and over HTTP: both call operations, and put files in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from opx.adapters.remote.uploads import Uploads
from opx.adapters.remote.waiting import Waiting

from opx.adapters.remote.connections import Connections
from opx.adapters.remote.http import ApiClient, bearer
from opx.domain.scopes import Identity
from opx.edges.calling import Client, LocalClient
from opx.edges.client import RemoteClient
from opx.errors import InvalidInputError
from opx.ingestion.failures import Failure
from opx.ingestion.files import FileToIngest
from opx.ingestion.outcomes import Outcome, Result
from opx.ingestion.states import ObjectState
from opx.operations.context import Caller, Context
from opx.operations.corpus import (
    GetObjectStates,
    ListFailures,
    get_object_states,
    list_failures,
    manager_of,
    object_key,
)
from opx.operations.registry import REGISTRY, Run
from opx.operations.requests import Request, read_request
from opx.services import Services
from tests.doubles.api_gateway import DeployedSystem

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")

TOKEN = "token"


class Seat(Protocol):
    """Calls operations for one caller. Files go in past the operations: on this machine straight into the store, to a
    deployed system by the addresses that it gives."""

    @property
    def client(self) -> Client: ...

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation."""

    def put_files(
        self, files: Sequence[FileToIngest], metadata: Mapping[str, object]
    ) -> list[tuple[str, Outcome | None]]:
        """For each file its object key, and an outcome if there is nothing more to do."""

    def work(self, sent: Collection[str]) -> list[Outcome]:
        """Have what waits ingested: all of it on this machine, or `sent` by the workers of a deployed system."""


class LocalSeat:
    """At a system in this process."""

    def __init__(self, services: Services, identity: Identity, *, owns_system: bool = False) -> None:
        self._context = Context(services, Caller(identity, owns_system=owns_system))
        self.client = LocalClient(self._context)

    def call(self, run: Run[Q, R], request: Q) -> R:
        return self.client.call(run, request)

    def put_files(
        self, files: Sequence[FileToIngest], metadata: Mapping[str, object]
    ) -> list[tuple[str, Outcome | None]]:
        return [(object_key(self._context, file.source), self._put(file, metadata)) for file in files]

    def _put(self, file: FileToIngest, metadata: Mapping[str, object]) -> Outcome | None:
        try:
            return manager_of(self._context).put_file(file, metadata)
        except InvalidInputError as exc:
            return Outcome(Result.FAILED, str(file.path), str(exc), error=exc)

    def work(self, sent: Collection[str]) -> list[Outcome]:
        drain = self._context.system.drain
        return [] if drain is None else list(drain.run())


class RemoteSeat:
    """At a deployed system."""

    def __init__(self, endpoint: str, token: str = TOKEN) -> None:
        self._connections = Connections()
        self.client = RemoteClient(endpoint, bearer(token), self._connections, pause=_at_once)
        self._uploads = Uploads(
            ApiClient(endpoint, bearer(token), self._connections, pause=_at_once), self._connections, pause=_at_once
        )
        self._failed: dict[str, str] | None = None

    def close(self) -> None:
        self._connections.close()

    def call(self, run: Run[Q, R], request: Q) -> R:
        """What failed before anything is changed is told from what fails afterwards."""
        operation = REGISTRY.of(run)
        if operation.route is not None and operation.route.method != "GET" and run is not get_object_states:
            self._note_failures()
        return self.client.call(run, request)

    def put_files(
        self, files: Sequence[FileToIngest], metadata: Mapping[str, object]
    ) -> list[tuple[str, Outcome | None]]:
        self._note_failures()
        return [(put.object_key, put.outcome) for put in self._uploads.put_files(files, metadata)]

    def work(self, sent: Collection[str]) -> list[Outcome]:
        try:
            return list(Waiting(self._states, pause=_at_once).outcomes(sent, self._failed or {}))
        finally:
            self._failed = None

    def _states(self, object_keys: Sequence[str]) -> list[ObjectState]:
        return list(self.client.call(get_object_states, GetObjectStates(object_keys=tuple(object_keys))).states)

    def _note_failures(self) -> None:
        if self._failed is None:
            self._failed = {failure.object_key: failure.mark for failure in every_failure(self)}


@contextmanager
def remote_seat(services: Services, claims: Mapping[str, Any]) -> Iterator[RemoteSeat]:
    """At a system that is deployed on this machine, for a caller with these claims."""
    with DeployedSystem(services, tokens={TOKEN: claims}) as system, open_seat(system) as seat:
        yield seat


@contextmanager
def open_seat(system: DeployedSystem, token: str = TOKEN) -> Iterator[RemoteSeat]:
    seat = RemoteSeat(system.endpoint, token)
    try:
        yield seat
    finally:
        seat.close()


def given(seat: Seat, run: Run[Q, R], **fields: object) -> R:
    """The reply to a request of these fields, named as in JSON. Raises `RequestError` for those that can't be."""
    return seat.call(run, read_request(REGISTRY.of(run).request, fields))


def every_failure(seat: Seat) -> list[Failure]:
    """What could not be ingested, of all pages."""
    found: list[Failure] = []
    page = seat.call(list_failures, ListFailures())
    found += page.failures
    while page.next:
        page = seat.call(list_failures, ListFailures(after=page.next))
        found += page.failures
    return found


def _at_once(_seconds: float) -> None:
    """No pause between attempts."""
