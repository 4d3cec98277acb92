"""Distributions with plugins, as an installer leaves them in a folder of the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from unittest import mock

from opx import plugins
from opx.formats import registry

_CACHES = (plugins._all, registry._formats, registry._extensions)


def write_distribution(
    folder: Path, name: str, entry_points: str, modules: Mapping[str, str], version: str = "1.0"
) -> None:
    """Writes a distribution, with the text of its `entry_points.txt` and of its modules."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(dedent(entry_points))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(dedent(source))


@contextmanager
def on_the_path(*folders: Path) -> Iterator[None]:
    """The distributions in these folders are installed within the block."""
    before, known = list(sys.path), {*sys.modules}
    sys.path[:0] = map(str, folders)
    _clear()
    try:
        yield
    finally:
        sys.path[:] = before
        for module in {*sys.modules} - known:
            if str(getattr(sys.modules[module], "__file__", "") or "").startswith(tuple(map(str, folders))):
                del sys.modules[module]
        _clear()


@contextmanager
def uninstalled(group: str, *names: str) -> Iterator[None]:
    """No distribution has the plugins with these names within the block."""
    found = plugins._all()
    left = {name: plugin for name, plugin in found[group].items() if name not in names}
    with mock.patch.object(plugins, "_all", return_value={**found, group: left}):
        yield


def _clear() -> None:
    for cached in _CACHES:
        cached.cache_clear()
