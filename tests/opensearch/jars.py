"""The files that an OpenSearch node is made of: fetched once by Maven, compared with their pinned hashes at every use.

`python -m tests.opensearch.jars` pins anew what `pom.xml` resolves to.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "opensearch"
PINNED = HERE / "jars.sha256"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_SECONDS = 400


class NodeUnavailableError(Exception):
    """There can't be a node on this machine, now: it has no Java, no Maven or no network. Reason to skip."""


class NodeError(Exception):
    """A node could be had and is not as it should be. Reason to fail."""


def node_files(cache: Path = CACHE) -> list[Path]:
    """The pinned files, fetched if they aren't all there. Raises `NodeUnavailableError` and `NodeError`."""
    pinned = _pinned()
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / ".lock"):
        if any(not (cache / name).is_file() for name in pinned):
            _fetch(cache)
        _verify(cache, pinned)
    return [cache / name for name in pinned]


def _pinned() -> dict[str, str]:
    """Hashes by file name."""
    lines = (line.split() for line in PINNED.read_text(encoding="ascii").splitlines())
    return {name: digest for digest, name in lines}


def _verify(cache: Path, pinned: Mapping[str, str]) -> None:
    for name, digest in pinned.items():
        path = cache / name
        if not path.is_file():
            raise NodeError(f"{PINNED.name} lists {name}, which pom.xml doesn't resolve to")
        found = _digest(path)
        if found != digest:
            raise NodeError(f"{path} has the SHA-256 {found}, not {digest}: if it was damaged here, delete it")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(cache: Path) -> None:
    """Let Maven copy what `pom.xml` resolves to; files appear whole."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NodeUnavailableError("the node's jars are not here and there is no Maven (mvn) to fetch them")
    print(f"fetching the jars of an OpenSearch node to {cache} (once) ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        _copy(maven, folder)
        for path in Path(folder).iterdir():
            path.replace(cache / path.name)


def _copy(maven: str, folder: str) -> None:
    options = ["-B", "-q", "-U", "-Dstyle.color=never", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    command = [maven, *options, "-f", str(HERE / "pom.xml"), COPY]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as exc:
        raise NodeUnavailableError(f"Maven did not fetch the node's jars within {FETCH_SECONDS} s") from exc
    if done.returncode:
        raise _refusal(done.stdout + done.stderr)


def _refusal(output: str) -> Exception:
    """Maven's error: the network is to blame, unless Maven knows that something doesn't exist or can't be read."""
    errors = [line for line in output.splitlines() if "ERROR" in line] or output.splitlines()[-1:] or ["no message"]
    reason = errors[0].replace("[ERROR]", "").strip()
    offline = any(sign in output for sign in ("Could not transfer", "Unknown host", "offline mode"))
    return (NodeUnavailableError if offline else NodeError)(f"Maven can't fetch the node's jars: {reason}")


def pin() -> None:
    """Fetch what `pom.xml` resolves to and write its hashes down."""
    with tempfile.TemporaryDirectory() as folder:
        _fetch(Path(folder))
        lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(Path(folder).iterdir())]
    PINNED.write_text("".join(lines), encoding="ascii")
    print(f"{len(lines)} files pinned in {PINNED}")


if __name__ == "__main__":
    pin()
