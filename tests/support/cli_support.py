"""Runs the `opx` command in this process or a new one, with an embedder that needs no model.

As a program it is `opx` with an embedder that hangs: `cli_support.py HANG_AT ARGUMENT...`, where HANG_AT counts passages.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from opx.edges.cli.main import Launch, cli, run
from opx.errors import EmbeddingError
from opx.operations.system import System
from opx.ports import Vector, Vectors
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx.text.analyzer import analyze

ROOT = Path(__file__).resolve().parents[2]
NEVER = 1_000_000_000
HANGING = "the embedder hangs"
HELD_BY = "QUERIES_HELD_BY"
"""Variable with the path of a file: while it exists, no query is embedded. With a folder, that is an error."""


class WordEmbedder:
    """Embeds a hashed bag of words: passages are similar if they share words. Hangs after `hang_at` passages."""

    model_id = "words/1"
    dimension = 64

    def __init__(self, hang_at: int = NEVER) -> None:
        self._left = hang_at

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self._left -= len(texts)
        if self._left <= 0:
            sys.stderr.write(HANGING + "\n")
            sys.stderr.flush()
            time.sleep(60)
        return [(self.embed_query(text),) for text in texts]

    def embed_query(self, text: str) -> Vector:
        held = Path(os.environ.get(HELD_BY, os.devnull + "/none"))
        if held.is_dir():
            raise EmbeddingError("held")
        while held.exists():
            time.sleep(0.02)
        values = [0.001] * self.dimension
        for term in analyze(text):
            values[int(hashlib.sha256(term.encode()).hexdigest(), 16) % self.dimension] += 1
        length = math.hypot(*values)
        return array("f", (value / length for value in values))


@dataclass(frozen=True)
class Opx:
    """A folder with documents in `docs` and the knowledge base in `.opx`."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / ".opx"

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def __call__(self, *arguments: str | Path, stdin: str = "", **environ: str) -> Result:
        """Runs the command in this process."""
        launch = Launch(word_services, connect, environ)
        line = ["--home", str(self.home), *map(str, arguments)]
        return CliRunner().invoke(cli, line, obj=launch, input=stdin, prog_name="opx")

    def start(self, *arguments: str | Path, hang_at: int = NEVER, **options: object) -> subprocess.Popen[str]:
        """Starts the command as a process with text output."""
        line = [sys.executable, "-m", "tests.support.cli_support", str(hang_at), "--home", str(self.home)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {**pipes, "text": True, "encoding": "utf-8", "env": environment(), "cwd": ROOT, **options}
        given["preexec_fn"] = _heed_interrupts
        return subprocess.Popen([*line, *map(str, arguments)], **given)  # type: ignore[call-overload,no-any-return]

    def services(self) -> System:
        return word_services(Settings(home=str(self.home)))


def _heed_interrupts() -> None:
    """Restores SIGINT, which shells ignore for background jobs and their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def environment(**more: str) -> dict[str, str]:
    """The environment of this process without settings of the library."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPX_", "COV_", "NO_COLOR"))}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def word_services(settings: Settings) -> System:
    return bootstrap(settings, embedder=WordEmbedder())


if __name__ == "__main__":
    hang_at = int(sys.argv[1])
    sys.exit(run(sys.argv[2:], Launch(lambda settings: bootstrap(settings, embedder=WordEmbedder(hang_at)), connect)))
