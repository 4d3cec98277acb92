"""Takes the files of a folder in, in processes that are meant to be killed.

For every line on the standard input a process is forked that does it; its id is printed. A folder that was named once
is worked on with everything imported already, so that a kill hits the work and not the start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opx.ingestion.files import FileToIngest, plan_files
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx.text.tokenizer import cl100k
from tests.support.fakes import WordsEmbedder


def services_of(folder: Path) -> System:
    return bootstrap(Settings(home=str(folder / "home"), retry_base_seconds=0.0), embedder=WordsEmbedder())


def ingest(services: System, folder: Path) -> None:
    """Ingests the folder as `opx ingest` does."""
    for file in plan_files([folder / "files"], folder):
        assert isinstance(file, FileToIngest)
        services.manager.put_file(file, {})
    list(services.manager.work())


def main() -> None:
    folder = Path(sys.argv[1])
    cl100k()
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            with services_of(folder) as services:
                ingest(services, folder)
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
