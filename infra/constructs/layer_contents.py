"""Fills layers with the library or locked packages, compiled for the functions' Python, within Lambda's size limit.

Docker isn't needed; packages are wheels for the functions' platform, on any machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from opx import __version__

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "layers"
LIBRARY = LAYERS / "opx"
KNOWLEDGE_FILE = ROOT / "corpus" / "knowledge.yaml"

UNZIPPED_LIMIT = 250 * 1024 * 1024
"""Bytes of a function with all its layers, unzipped: a quota of Lambda that can't be raised."""

LIBRARY_SHARE = 10 * 1024 * 1024
"""Reserved in a dependency layer's budget for the library's layer and the function's own code."""

_API = ("opx-aws", "opx-telemetry", "opx-web")  # grants in knowledge.yaml name tools, whatever function serves them
_SEARCH = (*_API, "opx-assurance", "opx-code", "opx-documents")  # documents are named by their formats
DISTRIBUTIONS = {
    "api": _API,
    "search": (*_SEARCH, "opx-quality"),
    "manage": (*_SEARCH, "opx-bulk", "opx-connectors", "opx-streams"),
    "ingest": (*_SEARCH, "opx-bulk", "opx-connectors", "opx-streams"),
}
"""Distributions beside the library that functions need, by their dependencies (`layers/dependencies/<name>.txt`)."""

_UNNEEDED = ("__pycache__", "*.egg-info", "*.pyc")
_OF_PYTHON_2 = r"olefile/olefile2\.py$"
"""Modules that packages bring along for Python 2, which nothing imports."""

_MOUNTED = "/opt"
"""Lambda's folder of layers, so that tracebacks name it and not that of the compiling machine."""


class LayerTooLargeError(RuntimeError):
    """A layer that Lambda would refuse; the message names its largest parts."""


def copy_library(folder: Path, dependencies: str) -> None:
    """Fill a layer with the library, its copy of `knowledge.yaml`, and the distributions of functions with these
    dependencies. Each has the metadata by which plugins are found."""
    target = folder / "python"
    for name in ("opx", *DISTRIBUTIONS[dependencies]):
        shutil.copytree(LAYERS / name / "python", target, ignore=shutil.ignore_patterns(*_UNNEEDED), dirs_exist_ok=True)
        _write_metadata(target, ROOT if name == "opx" else LAYERS / name)
    data = target / "opx" / "data"
    data.mkdir(exist_ok=True)
    shutil.copyfile(KNOWLEDGE_FILE, data / KNOWLEDGE_FILE.name)


def _write_metadata(target: Path, project: Path) -> None:
    """The name, version and entry points of a project, as an installer writes them."""
    declared = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = target / f"{declared['name'].replace('-', '_')}-{__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: {__version__}\n")
    lines = []
    for group, entries in declared.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


def install(requirements: Path, folder: Path, *, wheels: str, python: str) -> None:
    """Fill a layer with the requirements, built for a platform (as uv names it) and a version of Python.

    Source distributions and packages without a known hash are refused.
    """
    command = [_uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--python-platform", wheels, "--python-version", python]
    command += ["--requirement", str(requirements), "--target", str(folder / "python")]
    subprocess.run(command, check=True)  # noqa: S603 - the command is ours, and so are the files it names
    shutil.rmtree(folder / "python" / "bin", ignore_errors=True)  # console scripts, which no function runs


def compile_modules(folder: Path, python: str) -> bool:
    """Compile a layer's modules, so that a cold start doesn't. False if there is no such Python here.

    Files carry unchecked hashes: Lambda's file dates say nothing. The same sources give the same bytes.
    """
    interpreter = _interpreter(python)
    if not interpreter:
        return False
    command = [interpreter, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    command += ["-x", _OF_PYTHON_2, "-s", str(folder), "-p", _MOUNTED, str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S603
    return True


def check_size(folder: Path, *, name: str, limit: int = UNZIPPED_LIMIT - LIBRARY_SHARE) -> int:
    """The layer's size in bytes. Raises `LayerTooLargeError` if a function with it would be over Lambda's limit."""
    size = _size(folder)
    if size > limit:
        parts = sorted(((_size(part), part.name) for part in (folder / "python").iterdir()), reverse=True)
        largest = ", ".join(f"{part} {_mb(taken)}" for taken, part in parts[:5])
        raise LayerTooLargeError(
            f"layer {name} has {_mb(size)} unzipped, of {_mb(limit)} that Lambda leaves for it; its largest parts: "
            f"{largest}. Leave something out of layers/dependencies/{name}.in"
        )
    return size


def _interpreter(python: str) -> str:
    """A Python of this version on this machine, or ""."""
    return next((found for found in _candidates(python) if _version(found) == python), "")


def _candidates(python: str) -> Iterator[str]:
    """This interpreter, those on the path, and those installed by pyenv and uv."""
    yield sys.executable
    name = f"python{python}"
    if on_path := shutil.which(name):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob(f"versions/{python}*/bin/{name}"), reverse=True))
    command = [_uv(), "python", "find", "--managed-python", "--no-python-downloads", "--no-project", python]
    managed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if managed.returncode == 0:
        yield managed.stdout.strip()


def _version(interpreter: str) -> str:
    """`3.13`; "" for what can't be run, such as the shim of a version that isn't selected."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        found = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return found.stdout.strip()


def _uv() -> str:
    from uv import find_uv_bin

    return find_uv_bin()


def _size(path: Path) -> int:
    return sum(_bytes([path] if path.is_file() else path.rglob("*")))


def _bytes(paths: Iterable[Path]) -> Iterable[int]:
    return (path.stat().st_size for path in paths if path.is_file())


def _mb(size: int) -> str:
    return f"{size / (1024 * 1024):.1f} MB"
