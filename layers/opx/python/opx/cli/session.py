"""What every command shares: settings, and services that are built when first asked for and closed at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.decorators import pass_meta_key

from opx.errors import OpxError
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.bootstrap import Services

ServicesFactory = Callable[[Settings], "Services"]
SESSION = "opx.session"

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Session:
    """One run of the command."""

    def __init__(self, settings: Settings, services_factory: ServicesFactory | None, context: click.Context) -> None:
        self.settings = settings
        self._factory = services_factory
        self._context = context

    @cached_property
    def services(self) -> Services:
        if self._factory is None:
            from opx.bootstrap import bootstrap as factory
        else:
            factory = self._factory  # type: ignore[assignment]
        services = factory(self.settings)
        self._context.call_on_close(services.close)
        return services

    def at_home(self, home: Path) -> Session:
        """The same session with its knowledge in another folder."""
        return Session(replace(self.settings, home=str(home)), self._factory, self._context)

    @property
    def has_knowledge(self) -> bool:
        """False while nothing was ever taken in here. On AWS the stacks exist before the first document does."""
        return self.settings.backend != "embedded" or self.settings.home_path.exists()

    def existing_services(self) -> Services:
        """The services, for commands that only make sense on something. Raises `OpxError` instead of making a folder."""
        if not self.has_knowledge:
            home = self.settings.home_path
            raise OpxError(f"no knowledge in {home}: run `opx ingest PATH...` first, or give --home or OPX_HOME")
        return self.services


pass_session = pass_meta_key(SESSION)


def verbose_logging(context: click.Context, verbose: int) -> None:
    """Log to stderr until the command ends; without `-v` nothing is logged: what matters, commands say themselves."""
    logger = logging.getLogger("opx")
    handler: logging.Handler = logging.StreamHandler() if verbose else logging.NullHandler()
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    previous = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)

    def restore() -> None:
        logger.removeHandler(handler)
        logger.setLevel(previous)

    context.call_on_close(restore)
