"""The emulator's application, amended where its functions differ from Lambda's: runs in the emulator's environment.

An invocation goes on when its function's configuration changes, or another invocation fails. The emulator deletes the
folder of every worker of the function at once, also of one that is at work or still being unpacked: its invocation fails,
the message counts as received, and goes to the dead letters without any fault of the function.

A layer is unpacked once, not at each cold start, which would take most of the time.

An API has the keys of a user pool without a request: the emulator would ask itself for them without TLS.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from ministack.app import app
from ministack.core import lambda_runtime
from ministack.services import apigateway, cognito

__all__ = ["app"]

_kill_now = lambda_runtime.kill_workers
_fetch_keys = apigateway._fetch_jwks
_unpacking = threading.Lock()


def _kill_after_invocation(workers: Iterable[Any]) -> None:
    """End workers when they have nothing to do. A worker's lock is held from its cold start to its answer."""

    def end(worker: Any) -> None:
        with worker._lock:
            _kill_now([worker])

    for worker in workers:
        threading.Thread(target=end, args=(worker,), daemon=True).start()


class _SharedArchive(zipfile.ZipFile):
    """An archive that is unpacked once, if it is a layer's; its folders are links to the one copy."""

    def extractall(self, path: Any = None, *arguments: Any, **options: Any) -> None:
        folder = Path(path)
        if not folder.name.startswith("layer_"):
            super().extractall(path, *arguments, **options)
            return
        shared = Path(tempfile.gettempdir()) / f"layer-{self._digest()}"
        with _unpacking:
            if not shared.exists():
                unfinished = Path(tempfile.mkdtemp())
                super().extractall(unfinished)
                unfinished.rename(shared)
        folder.rmdir()
        folder.symlink_to(shared, target_is_directory=True)

    def _digest(self) -> str:
        """A hash of the list of files, which has a checksum of each."""
        listed = [f"{entry.filename} {entry.file_size} {entry.CRC}" for entry in self.infolist()]
        return hashlib.sha256("\n".join(listed).encode()).hexdigest()


async def _keys_of_pool(url: str) -> Any:
    if urlsplit(url).netloc != f"{apigateway._HOST}:{apigateway._PORT}":
        return await _fetch_keys(url)
    _, pool, *_ = urlsplit(url).path.split("/")
    _, _, body = cognito.well_known_jwks(pool)
    return json.loads(body)


apigateway._fetch_jwks = _keys_of_pool
lambda_runtime.kill_workers = _kill_after_invocation
lambda_runtime.zipfile = SimpleNamespace(
    ZipFile=_SharedArchive,
    BadZipFile=zipfile.BadZipFile,
    LargeFileError=zipfile.LargeZipFile,  # the name that the emulator catches and `zipfile` doesn't have
)
