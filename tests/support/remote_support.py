"""Runs the `opx` command on a deployed system simulated on this machine, or on either kind for tests of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opx.edges.cli.main import Launch, cli
from opx.settings import Settings
from opx.system import bootstrap, connect
from tests.doubles.api_gateway import KEY_ID, REGION, SECRET, DeployedSystem
from tests.support.cli_support import Opx, word_services

KINDS = ("folder", "deployed")


@dataclass(frozen=True)
class DeployedOpx(Opx):
    """Documents in `docs`, and a system behind HTTP with its stores in `.opx`."""

    system: DeployedSystem

    def __call__(self, *arguments: str | Path, stdin: str = "", **environ: str) -> Result:
        launch = Launch(bootstrap, connect, {"OPX_API_URL": self.system.endpoint, "OPX_AWS_REGION": REGION, **environ})
        return CliRunner().invoke(cli, list(map(str, arguments)), obj=launch, input=stdin, prog_name="opx")


@contextmanager
def deployed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeployedOpx]:
    """A deployed system, with credentials in the environment; commands run in `folder`."""
    aws_credentials(monkeypatch)
    monkeypatch.chdir(folder)
    with word_services(Settings(home=str(folder / ".opx"))) as services, DeployedSystem(services) as system:
        yield DeployedOpx(folder, system)


@contextmanager
def opx_at(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    """A command on a folder of this machine or a deployed system, by one of `KINDS`."""
    if kind == "folder":
        yield Opx(folder)
        return
    with deployed(folder, monkeypatch) as opx:
        yield opx


def aws_credentials(monkeypatch: pytest.MonkeyPatch, key_id: str = KEY_ID, secret: str = SECRET) -> None:
    """Sets credentials in the environment, and hides all other AWS configuration of this machine."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
