"""Defines the session of a command: its settings, and the knowledge base, opened on first use and closed at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.decorators import pass_meta_key

from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.edges.cli.output import warn
from opx.errors import InvalidInputError, OpxError
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.domain.requests import Request
    from opx.edges.calling import OperationClient
    from opx.edges.cli.intake import WorkingFolder
    from opx.edges.client import RemoteClient
    from opx.edges.doctor import ExaminedSystem
    from opx.edges.loading import Loader
    from opx.operations.context import Context, Progress
    from opx.operations.registry import Run
    from opx.operations.system import StartSystem, System

# -- the target: a folder of this machine, or a deployed system

_REMOTE = ("api_url", "aws_profile", "environment")
OPTIONS = {
    "api_url": "--api",
    "aws_profile": "--profile",
    "environment": "--environment",
    "home": "--home",
    "aws_region": "--region",
    "client_id": "--client",
    "project_id": "--project",
}
"""Options of all commands that are settings."""


def is_remote(settings: Settings) -> bool:
    """True if the settings select a deployed system."""
    return any(getattr(settings, name) for name in _REMOTE)


def local_if_home_is_given(given: dict[str, str]) -> dict[str, str]:
    """Options of the command line; `--home` also overrides environment variables that select a deployed system.

    Raises `InvalidInputError` if the command line selects both.
    """
    remote = [name for name in _REMOTE if name in given]
    if "home" not in given:
        return given
    if remote:
        option = OPTIONS[remote[0]]
        raise InvalidInputError(f"--home is a folder of this machine and {option} a deployed system: give one of them")
    return {**given, **dict.fromkeys(_REMOTE, "")}


def check(settings: Settings, given: Collection[str]) -> None:
    """Raises `InvalidInputError` for settings that a deployed system can't have."""
    if not is_remote(settings):
        return
    for name in ("client_id", "project_id"):
        if getattr(settings, name):
            source = OPTIONS[name] if name in given else f"OPX_{name.upper()}"
            raise InvalidInputError(
                f"{source} is for a folder of this machine: a deployed system knows who you are from your credentials"
            )
    if settings.home != Settings().home and not any(name in given for name in _REMOTE):
        names = " and ".join(f"OPX_{name.upper()}" for name in ("home", *_REMOTE) if getattr(settings, name))
        raise InvalidInputError(f"{names} contradict each other: unset one, or choose with --home or --profile")


# -- the session

Q = TypeVar("Q", bound="Request")
R = TypeVar("R")
Connect = Callable[[Settings], "RemoteClient"]
Examine = Callable[[Settings, Callable[[], "RemoteClient"]], "ExaminedSystem"]
SESSION = "opx.session"
GIVEN = "opx.given"
"""Key of a command's environment and of the settings that its options gave."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Session:
    """One run of the command, on a folder or on a deployed system."""

    def __init__(
        self,
        settings: Settings,
        start: StartSystem,
        connect: Connect,
        context: click.Context,
        examine: Examine | None = None,
        *,
        closes: bool = True,
    ) -> None:
        self._closes = closes
        self.settings = settings
        self.start = start
        self._connect = connect
        self._context = context
        self._examine = examine
        self.group = ""

    @property
    def is_remote(self) -> bool:
        return is_remote(self.settings)

    @cached_property
    def client(self) -> OperationClient:
        """Calls operations: of the system in this process for the configured identity, or of a deployed one."""
        if self.is_remote:
            return self.remote_client
        from opx.edges.calling import LocalClient

        if self._closes:
            record = self.context.system.defer_gaps()
            self._context.call_on_close(lambda: warn(*record()))
        return LocalClient(self.context)

    @cached_property
    def context(self) -> Context:
        """Context of calls by the user of this machine. Raises `InvalidInputError` for a deployed system."""
        from opx.operations.context import Caller, Context

        identity = Identity(self.settings.client_id, self.settings.project_id, self.user)
        return Context(self.services, Caller(identity, owns_system=True), group_id=self.group)

    def put_into_group(self, group: str) -> None:
        """Has documents of this command belong to a group of the client, which all of its projects see. Raises
        `InvalidInputError` for a deployed system, and with a project."""
        self.require_local(
            "--group works on a knowledge base of this machine; in a deployed system, upload the files to "
            f"clients/CLIENT/groups/{group}/documents/ of the bucket"
        )
        if not self.settings.client_id or self.settings.project_id:
            raise InvalidInputError(
                "--group needs --client, and no --project: the group's projects all see its documents"
            )
        self.group = group

    def watched_client(self, progress: Progress) -> OperationClient:
        """`client` that reports the progress of long operations in this process."""
        if self.is_remote:
            return self.remote_client
        from opx.edges.calling import LocalClient

        return LocalClient(replace(self.context, progress=progress))

    @cached_property
    def remote_client(self) -> RemoteClient:
        client = self._connect(self.settings)
        self._context.call_on_close(client.close)
        return client

    @property
    def examined(self) -> ExaminedSystem:
        """The system for `opx doctor`. Raises `InvalidInputError` for one that is known by the address of its API alone."""
        if not self.is_remote:
            from opx.edges.examined_folder import SystemHere

            identity = Identity(self.settings.client_id, self.settings.project_id)
            return SystemHere(self.services, f"the folder {self.location}", identity)
        if self._examine is None or self.settings.api_url:
            raise InvalidInputError(
                "a deployed system is examined by its --environment, with an operator's credentials"
            )
        return self._examine(self.settings, lambda: self.remote_client)

    def call(self, run: Run[Q, R], request: Q) -> R:
        """The reply of an operation on existing knowledge. Raises `OpxError` instead of creating a folder."""
        self.require_knowledge()
        return self.client.call(run, request)

    def require_local(self, problem: str) -> None:
        """Raises `InvalidInputError` with this message for a deployed system."""
        if self.is_remote:
            raise InvalidInputError(problem)

    def require_knowledge(self) -> None:
        """Raises `OpxError` if nothing was ever ingested."""
        if not self.has_knowledge:
            home = self.settings.home_path
            raise OpxError(f"no knowledge in {home}: run `opx ingest PATH...` first, or give --home or OPX_HOME")

    @cached_property
    def loader(self) -> Loader:
        """Loads files into the knowledge that the command works on."""
        from opx.edges.loading import LocalLoader, RemoteLoader

        return RemoteLoader(self.remote_client) if self.is_remote else LocalLoader(self.context)

    @property
    def user(self) -> str:
        """Name of the user of this machine, for the audit log; "" if unknown."""
        from opx.runtime.machine import user_of_process

        return user_of_process()

    @property
    def location(self) -> str:
        """Location of the knowledge: a folder, or the address of an API."""
        return self.remote_client.endpoint if self.is_remote else str(self.settings.home_path)

    @property
    def working_folder(self) -> WorkingFolder:
        """The folder that source names of files are relative to."""
        from opx.edges.cli.intake import WorkingFolder

        if self.is_remote:
            return WorkingFolder(Path.cwd().resolve())
        home = self.settings.home_path.resolve()
        return WorkingFolder(home.parent, home)

    @cached_property
    def services(self) -> System:
        """The parts of the system in this process. Raises `InvalidInputError` for a deployed one."""
        self.require_local("this command works on a folder of this machine: omit --profile and --api")
        services = self.start(self.settings)
        self._context.call_on_close(lambda: warn(*services.ports.remarks))  # nobody reads the log of a command
        if self._closes:
            self._context.call_on_close(services.close)
        return services

    def connect_to(self, address: str) -> RemoteClient:
        """A client of the deployed system at this address. The caller closes it. Raises `InvalidInputError`."""
        return self._connect(replace(self.settings, api_url=address))

    def at_home(self, home: Path) -> Session:
        """The same session with its knowledge in another folder."""
        return Session(replace(self.settings, home=str(home)), self.start, self._connect, self._context, self._examine)

    def of_environment(self, environment: str) -> Session:
        """The same session on a deployed system. Raises `InvalidInputError` for options that it can't have."""
        settings = replace(self.settings, environment=environment)
        check(settings, ("environment",))
        return Session(settings, self.start, self._connect, self._context, self._examine)

    @property
    def has_knowledge(self) -> bool:
        """False if nothing was ever ingested here. On AWS the stacks exist before the first document does."""
        return self.is_remote or self.settings.backend != "embedded" or self.settings.home_path.exists()


pass_session = pass_meta_key(SESSION)


def home_option(settings: Settings) -> str:
    """The `--home` option with which `opx` finds this home from the current folder; "" if it is the default."""
    return "" if settings.home_path == Settings().home_path else f"--home {settings.home_path} "


def verbose_logging(context: click.Context, verbose: int) -> None:
    """Logs to stderr until the command ends; without `-v` nothing is logged: commands print what matters themselves."""
    logger = logging.getLogger("opx")
    handler: logging.Handler = logging.StreamHandler() if verbose else logging.NullHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    previous = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)

    def restore() -> None:
        logger.removeHandler(handler)
        logger.setLevel(previous)

    context.call_on_close(restore)
