"""`opx config`: shows the effective settings and where each comes from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import click

from opx.edges.cli.output import print_json, print_table, warn
from opx.edges.cli.session import GIVEN, OPTIONS, Session, pass_session
from opx.settings import ENV_PREFIX, Settings, env_name

_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]*@")
_HIDDEN = "(set, not shown)"
_SECRETS = ("api_token",)


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting with its value, as it may be shown, and its origin: an option, a variable or the default."""

    name: str
    value: str
    origin: str


@click.command("config")
@click.option("--all", "everything", is_flag=True, help="Include settings that have their defaults.")
@click.option("--json", "as_json", is_flag=True, help="Print all as JSON.")
@click.pass_context
@pass_session
def config_command(session: Session, context: click.Context, *, everything: bool, as_json: bool) -> None:
    """Show the settings in effect, and where each comes from: an option, the environment, or the default.

    Keys, tokens and passwords are not shown.
    """
    environ, given = context.meta[GIVEN]
    found = list(effective(session.settings, environ, given))
    warn(*unknown_variables(environ))
    if as_json:
        print_json([{"name": one.name, "value": one.value, "origin": one.origin} for one in found])
        return
    shown = [one for one in found if everything or one.origin != "default" or one.name in ("backend", "home")]
    print_table(("SETTING", "VALUE", "FROM"), [(one.name, one.value or "-", one.origin) for one in shown])
    if not everything:
        left = len(found) - len(shown)
        click.echo(f"\n{left} more have their defaults: `opx config --all`")


def effective(settings: Settings, environ: Mapping[str, str], given: Collection[str]) -> Iterator[Effective]:
    """All settings, in the order of their declaration."""
    for name in settings.__struct_fields__:
        variable = env_name(name)
        is_given = name in given
        origin = f"option {OPTIONS[name]}" if is_given else variable if variable in environ else "default"
        value = getattr(settings, name)
        if name == "home":
            value = settings.home_path
        yield Effective(name, _HIDDEN if value and name in _SECRETS else _shown(str(value)), origin)


def _shown(value: str) -> str:
    """The value without a user and a password in an address."""
    return _CREDENTIALS.sub("", value)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Warnings of variables that begin as settings do, and that nothing reads."""
    known = [env_name(name) for name in Settings.__struct_fields__]
    for name in sorted(environ):
        if name.startswith(ENV_PREFIX) and name not in known and not name.startswith("OPX_SECRET_"):
            close = get_close_matches(name, known, n=1)
            yield f"{name} is no setting" + (f": did you mean {close[0]}?" if close else "")
