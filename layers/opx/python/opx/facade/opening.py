"""Opens the knowledge at an address: a folder of this machine, or the API of a deployed system."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient, OperationClient
from opx.edges.loading import Loader, LocalLoader, RemoteLoader
from opx.errors import InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.runtime.machine import user_of_process
from opx.settings import Settings
from opx.system import bootstrap, connect

_ADDRESSES = ("https://", "http://")


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts of opened knowledge; `context` is None for an address. `closing` releases files and connections."""

    client: OperationClient
    loader: Loader
    context: Context | None = None
    closing: ExitStack = field(default_factory=ExitStack)


def opened(address: str, *, client_id: str, project_id: str, token: str) -> Opened:
    """See `Knowledge.open`."""
    settings = Settings.of_process()
    if address.startswith(_ADDRESSES):
        if client_id or project_id:
            raise InvalidInputError("a deployed system knows client and project from the credentials: leave them out")
        return remote(replace(settings, api_url=address.rstrip("/"), api_token=token or settings.api_token))
    if "://" in address:
        raise InvalidInputError(f"{address!r} is neither a folder nor an https:// address")
    if token:
        raise InvalidInputError("a token is for the address of a deployed system")
    if not address and (settings.api_url or settings.aws_profile or settings.environment):
        return remote(settings)
    given = {"home": address, "client_id": client_id, "project_id": project_id}
    return of_system(bootstrap(replace(settings, **{name: value for name, value in given.items() if value})))


def remote(settings: Settings) -> Opened:
    """The knowledge of the deployed system that the settings name."""
    client = connect(settings)
    closing = ExitStack()
    closing.callback(client.close)
    return Opened(client, RemoteLoader(client), closing=closing)


def of_system(system: System, identity: Identity | None = None) -> Opened:
    """The knowledge of a system of this process, for the identity that it is configured for, or another one. Closing it
    closes the system."""
    own = Identity(system.settings.client_id, system.settings.project_id, user_of_process())
    context = Context(system, Caller(identity or own, owns_system=True))
    closing = ExitStack()
    closing.callback(system.close)
    return Opened(LocalClient(context), LocalLoader(context), context, closing)
