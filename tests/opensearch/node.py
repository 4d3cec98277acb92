"""A real OpenSearch node for tests: one process on the loopback, with its own data, gone when the block ends.

    with running_node() as node:
        client = OpenSearch(hosts=[node.endpoint])

Without security, and with 512 MB of heap. The k-NN plugin has no native libraries: vector fields need the engine
`lucene` (`tests.opensearch.indices.node_index_body`).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
import zipfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock

from tests.opensearch.jars import CACHE, HERE, NodeError, NodeUnavailableError, node_files

JAVA = 17
PROGRAM = HERE / "LocalNode.java"
START_SECONDS = 400.0
STOP_SECONDS = 30.0
FOR_A_SHORT_LIFE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Without the second compiler a node starts with 5.5 s of processor time instead of 8.5."""
_LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)")


@contextmanager
def running_node(*, heap: str = "512m", start_seconds: float = START_SECONDS) -> Iterator[LocalNode]:
    """A started node; stopped and deleted at the end.

    Raises `NodeUnavailableError` where there can't be one (no JDK, no Maven, no network), and `NodeError` with the end
    of its log if it doesn't start.
    """
    _check_java()
    files = node_files()
    with tempfile.TemporaryDirectory(prefix="opx-opensearch-") as home:
        class_path = _class_path(files, Path(home) / "jars")
        node = LocalNode([compiled(class_path), *class_path], Path(home), heap, start_seconds)
        try:
            node.start()
            yield node
        finally:
            node.stop()


class LocalNode:
    """A node that can be stopped, killed and started again, with its data, under the same endpoint."""

    def __init__(self, class_path: list[Path], home: Path, heap: str, start_seconds: float) -> None:
        self._home = home
        self._start_seconds = start_seconds
        self._class_path = ":".join(map(str, class_path))
        self._heap = heap
        self._port = 0
        self._process: _Process | None = None

    @property
    def endpoint(self) -> str:
        """`http://127.0.0.1:port`, also while the node is stopped."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and wait until every index that it has can be read. Raises `NodeError`."""
        if self._process is None:
            self._process = _Process(self._command())
        self._port = self._process.wait_for_port(self._start_seconds)
        health = f"{self.endpoint}/_cluster/health?wait_for_status=yellow&timeout={self._start_seconds:g}s"
        try:
            with urllib.request.urlopen(health, timeout=self._start_seconds + 5) as answer:
                answer.read()
        except OSError as exc:
            raise NodeError(f"the node's indexes did not recover: {exc}\n{self._process.log_tail()}") from exc

    def stop(self) -> None:
        """Stop in good order; does nothing if it is stopped."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Connections are accepted but not answered while the block lasts."""
        assert self._process is not None
        self._process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.signal(signal.SIGCONT)

    def _command(self) -> list[str]:
        settings = {
            "path.home": self._home,
            "cluster.name": "opx-test",
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": self._port,
            "transport.port": 0,
            "action.auto_create_index": "false",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        options = [f"-Xms{self._heap}", f"-Xmx{self._heap}", f"-Djava.io.tmpdir={self._home}", *FOR_A_SHORT_LIFE]
        level = "-Dorg.apache.logging.log4j.level=INFO"
        arguments = (f"{k}={v}" for k, v in settings.items())
        return ["java", *options, level, "-cp", self._class_path, PROGRAM.stem, *arguments]


class _Process:
    """The node's process, with the end of its output."""

    def __init__(self, command: list[str]) -> None:
        self._lines: deque[str] = deque(maxlen=200)
        self._port = 0
        self._has_port_or_ended = threading.Event()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._popen.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._popen.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.append(line)
            listening = _LISTENING.match(line)
            if listening:
                self._port = int(listening[1])
                self._has_port_or_ended.set()
        self._has_port_or_ended.set()

    def wait_for_port(self, seconds: float) -> int:
        """The port it listens on. Raises `NodeError` if it ends before, or prints no port in time."""
        in_time = self._has_port_or_ended.wait(seconds)
        if self._port:
            return self._port
        happened = "ended" if in_time else f"said no address within {seconds:g} s"
        raise NodeError(f"the node {happened}; the end of its log:\n{self.log_tail()}")

    def log_tail(self, lines: int = 40) -> str:
        return "".join(list(self._lines)[-lines:])

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def stop(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        self._close()

    def kill(self) -> None:
        self._popen.kill()
        self._close()

    def _close(self) -> None:
        self._popen.wait()
        self._reader.join()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()


def _class_path(files: list[Path], unpacked: Path) -> list[Path]:
    """The jars, those in the plugin's archive unpacked."""
    jars = [path for path in files if path.suffix == ".jar"]
    for archive in (path for path in files if path.suffix == ".zip"):
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if name.endswith(".jar")]
            jars += [Path(opened.extract(name, unpacked)) for name in names]
    return jars


def compiled(class_path: list[Path], cache: Path = CACHE) -> Path:
    """The folder with the program's classes, compiled once: the compiler takes half as long as the node to start."""
    folder = cache / f"classes-{hashlib.sha256(PROGRAM.read_bytes()).hexdigest()[:16]}"
    with FileLock(cache / ".lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache) as unfinished:
                options = ["--release", str(JAVA), "-proc:none", "-cp", ":".join(map(str, class_path))]
                subprocess.run(["javac", *options, "-d", f"{unfinished}/classes", str(PROGRAM)], check=True)
                Path(unfinished, "classes").rename(folder)
    return folder


def _check_java() -> None:
    """Raises `NodeUnavailableError` if there is no JDK that can run a node."""
    if not (shutil.which("java") and shutil.which("javac")):
        raise NodeUnavailableError(f"an OpenSearch node needs a JDK, {JAVA} or newer (java and javac)")
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r'version "(\d+)', done.stderr)
    if version is None or int(version[1]) < JAVA:
        first = (done.stderr.splitlines() or ["no version"])[0]
        raise NodeUnavailableError(f"an OpenSearch node needs Java {JAVA} or newer, not {first}")
