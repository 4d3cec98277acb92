"""The composition root: `bootstrap` builds a system from the adapters that settings select, `connect` finds a deployed
one, and `command` starts the `opx` command on either."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from opx import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from opx.adapters.chosen import Given
    from opx.edges.client import RemoteClient
    from opx.edges.doctor import ExaminedSystem
    from opx.operations.system import System
    from opx.ports import Clock
    from opx.settings import Settings

__all__ = ["System", "bootstrap", "command", "connect"]


def __getattr__(name: str) -> Any:
    """`System`, imported on first access: the command needn't load it to show its help."""
    if name != "System":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from opx.operations.system import System

    return System


def bootstrap(settings: Settings, *, clock: Clock = time.time, **given: Unpack[Given]) -> System:
    """The system of the settings; ports that are `given` replace those of the settings. Nothing is opened yet. Raises
    `TypeError` for a port that doesn't exist."""
    from opx.adapters.chosen import Given, Ports
    from opx.operations.system import System
    from opx.runtime.knowledge_file import Installation

    unknown = given.keys() - Given.__annotations__.keys()
    if unknown:
        raise TypeError(f"bootstrap() has no port {', '.join(sorted(unknown))}")
    installation = Installation(settings, clock)
    return System(installation, Ports(installation, given), None if given else bootstrap)


def connect(settings: Settings) -> RemoteClient:
    """A client of the operations of the deployed system that the settings name. The caller closes it.

    Its address is `api_url`, or the output of its stack in the AWS account of the profile; the caller is the owner of the
    token or of the profile's credentials. Raises `InvalidInputError`, `AccessDeniedError`, and `OpxError` if there is no
    such system.
    """
    from opx.adapters.connections import Connections
    from opx.edges.client import RemoteClient, bearer, token_for

    token = token_for(settings)
    if settings.api_url and token:  # AWS is not needed
        return RemoteClient(settings.api_url, bearer(token), Connections())
    from opx.adapters.vendors import vendor

    account = vendor("aws")(settings, time.time, {}).account()
    endpoint = settings.api_url or account.api_url(settings.environment)
    authorize = bearer(token) if token else account.signed
    return RemoteClient(endpoint, authorize, Connections(certificates=account.certificates))


def examined(settings: Settings, connect: Callable[[], RemoteClient]) -> ExaminedSystem:
    """An operator's access to the deployed system that the settings name; `connect` makes a client of its HTTP API. Raises
    `InvalidInputError` for an unknown profile."""
    from opx.adapters.vendors import vendor

    system: ExaminedSystem = vendor("aws")(settings, time.time, {}).operator(connect)
    return system


def command() -> None:
    """The `opx` command, as a console script. Its version alone needs none of its imports."""
    from opx.edges.cli.standard_streams import print_quietly, replace_closed_streams

    arguments = sys.argv[1:]
    replace_closed_streams(arguments)
    if arguments == ["--version"]:
        print_quietly(f"opx, version {__version__}\n")
        return
    from opx.edges.cli.forwarding import forwarded
    from opx.runtime.machine import collect_seldom

    collect_seldom()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported: waiting threads of BLAS spin
    code = forwarded(arguments, os.environ)
    if code is not None:
        sys.exit(code)
    from opx.edges.cli.main import main

    main(bootstrap, connect, examined)
