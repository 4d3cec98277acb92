"""Which system a command works on: a folder of this machine, or a deployed one."""

from __future__ import annotations

from collections.abc import Collection

from opx.errors import InvalidInputError
from opx.settings import Settings

_REMOTE = ("api_url", "aws_profile", "environment")
_OPTIONS = {
    "api_url": "--api",
    "aws_profile": "--profile",
    "environment": "--environment",
    "home": "--home",
    "client_id": "--client",
    "project_id": "--project",
}


def is_remote(settings: Settings) -> bool:
    """Whether a deployed system is meant."""
    return any(getattr(settings, name) for name in _REMOTE)


def local_if_home_is_given(given: dict[str, str]) -> dict[str, str]:
    """What was given on the command line, and with `--home` that no variable of the environment means another system.

    Raises `InvalidInputError` if the command line means both.
    """
    remote = [name for name in _REMOTE if name in given]
    if "home" not in given:
        return given
    if remote:
        option = _OPTIONS[remote[0]]
        raise InvalidInputError(f"--home is a folder of this machine and {option} a deployed system: give one of them")
    return {**given, **dict.fromkeys(_REMOTE, "")}


def check(settings: Settings, given: Collection[str]) -> None:
    """Raise `InvalidInputError` for settings that a deployed system can't have."""
    if not is_remote(settings):
        return
    for name in ("client_id", "project_id"):
        if getattr(settings, name):
            source = _OPTIONS[name] if name in given else f"OPX_{name.upper()}"
            raise InvalidInputError(
                f"{source} is for a folder of this machine: a deployed system knows who you are from your credentials"
            )
    if settings.home != Settings().home and not any(name in given for name in _REMOTE):
        names = " and ".join(f"OPX_{name.upper()}" for name in ("home", *_REMOTE) if getattr(settings, name))
        raise InvalidInputError(
            f"{names} contradict each other: unset one, or say with --home or --profile what you mean"
        )
