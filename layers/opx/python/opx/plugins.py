"""Plugins: what installed distributions add to the library, by entry points.

Names are read from the metadata of the distributions; the code of a plugin is imported when it is first used. A plugin that
can't be used is an error of what needs it, and is listed by `opx doctor` and `opx status`. Nothing else stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from opx import __version__
from opx.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

CONNECTORS, WEBHOOKS, FORMATS, ADAPTERS = "opx.connectors", "opx.webhooks", "opx.formats", "opx.adapters"
OPERATIONS, PARTS, STAGES, ROWS = "opx.operations", "opx.parts", "opx.stages", "opx.rows"
GROUPS = (CONNECTORS, WEBHOOKS, FORMATS, ADAPTERS, OPERATIONS, PARTS, STAGES, ROWS)
"""Groups of entry points. docs/plugins.md says what the entry points of each group name."""

SDK, SDK_VERSION = "opx.sdk", "1"
"""Group in which a distribution states the version of `opx.sdk` that it is written for, as the name of its entry point."""

SLOW_SECONDS = 1.0
"""Time of an import from which on a plugin is listed as slow."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point, and the distributions that have one of this group and name: more than one is a mistake."""

    group: str
    entry: EntryPoint
    distributions: tuple[str, ...]
    sdk: str

    @property
    def title(self) -> str:
        """Its distribution, group and name, for messages."""
        return f"plugin {self.distributions[0]} ({self.group}: {self.entry.name})"

    @property
    def is_of_library(self) -> bool:
        """True for a distribution that is released with the library, in the same version."""
        (name, version), *others = (one.split(" ", 1) for one in self.distributions)
        return not others and name.startswith("opx-") and version == __version__


@cache
def _all() -> Mapping[str, Mapping[str, Plugin]]:
    from importlib.metadata import distributions

    found: dict[str, dict[str, Plugin]] = {group: {} for group in GROUPS}
    seen = set()
    for distribution in distributions():
        entries = distribution.entry_points
        if not any(entry.group in found for entry in entries) or distribution.name in seen:
            continue
        seen.add(distribution.name)
        title = f"{distribution.name} {distribution.version}"
        sdk = next((entry.name for entry in entries if entry.group == SDK), SDK_VERSION)
        for entry in entries:
            if (of_group := found.get(entry.group)) is not None:
                others = of_group[entry.name].distributions if entry.name in of_group else ()
                of_group[entry.name] = Plugin(entry.group, entry, (*others, title), sdk)
    return found


def names(group: str) -> frozenset[str]:
    """Names of all plugins of a group."""
    return frozenset(_all()[group])


def is_installed(distribution: str) -> bool:
    """True if there is a distribution of this name that has plugins."""
    installed = (plugin.distributions[0] for of_group in _all().values() for plugin in of_group.values())
    return any(title.split(" ", 1)[0] == distribution for title in installed)


def load(group: str, name: str, kind: type[T]) -> T | None:
    """The object of type `kind` that a plugin provides; None if no distribution has a plugin of this group and name. Raises
    `PluginError` if it can't be used."""
    plugin = _all()[group].get(name)
    return None if plugin is None else _loaded(plugin, kind)


def used(group: str, name: str) -> Any:
    """The object that a plugin provides, of any type. Raises `PluginError` if there is none."""
    provided = load(group, name, object)
    if provided is None:
        raise PluginError(f"no installed distribution has the plugin {name!r} of {group}")
    return provided


def load_all(group: str, kind: type[T]) -> dict[str, T]:
    """All plugins of a group that can be used, by name. The others are logged."""
    loaded = {}
    for name, plugin in sorted(_all()[group].items()):
        try:
            loaded[name] = _loaded(plugin, kind)
        except PluginError as exc:
            log.warning("%s", exc)
    return loaded


def problems(*, of_others: bool = False) -> Iterator[str]:
    """Problems of all plugins, a line each: those that can't be used, and those that take long to import. Imports them; those
    that belong to this version of the library not if it is about plugins `of_others`."""
    for group in GROUPS:
        for _, plugin in sorted(_all()[group].items()):
            if of_others and plugin.is_of_library:
                continue
            started = time.perf_counter()
            try:
                _loaded(plugin, object)
            except PluginError as exc:
                yield str(exc)
            seconds = time.perf_counter() - started
            if seconds > SLOW_SECONDS:
                yield f"the {plugin.title} takes {seconds:.1f} seconds to import"


def share_log(module: str) -> None:
    """Has the package of a module log where the library does."""
    package = module.partition(".")[0]
    if package != "opx":
        logging.getLogger(package).parent = logging.getLogger("opx")


def _loaded(plugin: Plugin, kind: type[T]) -> T:
    if len(plugin.distributions) > 1:
        which = " and ".join(plugin.distributions)
        raise PluginError(
            f"{which} have a plugin with the same name ({plugin.group}: {plugin.entry.name}): uninstall one"
        )
    if plugin.sdk != SDK_VERSION:
        raise PluginError(
            f"the {plugin.title} is written for version {plugin.sdk} of opx.sdk, and this is version {SDK_VERSION}: install "
            "another version of it"
        )
    try:
        loaded = plugin.entry.load()
    except Exception as exc:  # a plugin's code may raise anything
        raise PluginError(f"the {plugin.title} can't be imported: {type(exc).__name__}: {exc}") from exc
    share_log(plugin.entry.module)
    if not isinstance(loaded, kind):
        raise PluginError(f"the {plugin.title} is no {kind.__name__}: {plugin.entry.value}")
    return loaded
