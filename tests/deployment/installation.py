"""The emulator's own environment: its locked packages under a Python that Lambda has a runtime for.

What is deployed runs in it, on the layers that were bundled for just that Python. It is made once, in `build/`.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from uv import find_uv_bin

from infra.configuration import CHOICES, Deployment

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "layers" / "dependencies" / "emulator.txt"
HOME = ROOT / "build" / "emulator"
INSTALL_SECONDS = 300


class EmulatorUnavailableError(Exception):
    """There can't be an emulator on this machine, now: something that it needs is missing. Reason to skip."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The environment's interpreter, and what functions must be built for to run in it: context of a deployment."""

    executable: Path
    python: str
    architecture: str


def installed_emulator(home: Path = HOME) -> Installation:
    """The environment, made if it isn't there or its requirements changed. Raises `EmulatorUnavailableError`."""
    if sys.platform != "linux":
        raise EmulatorUnavailableError(f"layers have packages for Linux, this is {sys.platform}")
    architecture = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine())
    if architecture is None:
        raise EmulatorUnavailableError(f"Lambda has no {platform.machine()}")
    python, interpreter = _interpreter()
    made_from = f"{python} {hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()}"
    note = home / "made-from"
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / ".lock"):
        if not note.is_file() or note.read_text() != made_from:
            note.unlink(missing_ok=True)
            _make(home / "venv", interpreter)
            note.write_text(made_from)
    return Installation(home / "venv" / "bin" / "python", python, architecture)


def _interpreter() -> tuple[str, str]:
    """A version that Lambda has, the default one if possible, and an interpreter of it on this machine."""
    default = Deployment().python
    versions = [default, *(version for version in CHOICES["python"] if version != default)]
    for version in versions:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                return version, candidate
    raise EmulatorUnavailableError(f"found no Python {', '.join(versions)}, the versions that functions can have")


def _candidates(version: str) -> Iterator[str]:
    """On the path, or beside the interpreter that runs this, where version managers put them."""
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    for folder in sorted(Path(sys.base_prefix).parent.glob(f"*{version}.*"), reverse=True):
        yield str(folder / "bin" / f"python{version}")


def _version_of(interpreter: str) -> str:
    """`3.13`, or nothing for what doesn't run: version managers put commands on the path that only complain."""
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", script], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _make(folder: Path, interpreter: str) -> None:
    uv = find_uv_bin()
    _run([uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", interpreter, str(folder)])
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    _run([*install, "--python", str(folder / "bin" / "python"), "--requirement", str(REQUIREMENTS)])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise EmulatorUnavailableError(f"installing it took more than {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise EmulatorUnavailableError(f"it can't be installed: {done.stderr.strip()[-500:]}")
