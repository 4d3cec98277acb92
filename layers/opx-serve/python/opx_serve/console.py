"""The console: its built files, and the sessions of browsers that opened it.

`opx console` prints an address with a key that opens one session, once, within two minutes. A browser that the command opens
reads it in a file of the owner's alone: the arguments of a process are shown to all users of the machine. The browser gets a
cookie for the session that scripts can't read and other sites can't send; from then on its requests are the server's own
identity's.
"""

from __future__ import annotations

import hmac
import mimetypes
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from opx.errors import OpxError

PREFIX = "/console/"
KEY = "key"
"""Parameter of the address with the key that opens a session."""

KEY_SECONDS = 120.0
"""Time in which a key opens a session."""

MAX_SESSIONS = 32
"""Open sessions; the oldest is closed for one more."""


def policy(*connects: str) -> str:
    """Content-Security-Policy of the console: nothing from elsewhere, no inline script or style. Requests go to its own
    origin, and to those that it `connects` to."""
    allowed = " ".join(("'self'", *connects))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        f"connect-src {allowed}; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; object-src 'none'"
    )


HEADERS = {
    "content-security-policy": policy(),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

FOREVER = "public, max-age=31536000, immutable"
"""For files whose names change with their content."""


class MissingConsoleError(OpxError):
    """The console's files are not there: it wasn't built."""

    def __init__(self) -> None:
        super().__init__("the console isn't part of this installation: `make console` builds it in a checkout")


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """A file of the console with its headers."""

    data: bytes
    headers: Mapping[str, str]


class ConsoleFiles:
    """The built console, package data. Files are read once."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or files("opx_serve") / "console_files"
        self._known = cache(self._read)

    def check(self) -> None:
        """Raises `MissingConsoleError` if the console wasn't built."""
        if not (self._folder / "index.html").is_file():
            raise MissingConsoleError

    def get(self, path: str) -> ConsoleFile | None:
        """The file at this path below the prefix; the page itself for "". None for one that isn't there."""
        parts = path.split("/") if path else ["index.html"]
        if len(parts) > 2 or any(part.startswith(".") or not part or "\\" in part for part in parts):
            return None
        return self._known("/".join(parts))

    def _read(self, path: str) -> ConsoleFile | None:
        found = self._folder.joinpath(*path.split("/"))
        if not found.is_file():
            return None
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        caching = FOREVER if path.startswith("assets/") else "no-cache"
        return ConsoleFile(found.read_bytes(), {**HEADERS, "content-type": kind, "cache-control": caching})


@dataclass
class ConsoleSessions:
    """Browsers that opened the console. Keys and sessions are kept as digests, in memory: a restart ends them."""

    clock: Callable[[], float] = time.monotonic
    _keys: dict[bytes, float] = field(default_factory=dict)
    _sessions: dict[bytes, None] = field(default_factory=dict)

    def new_key(self) -> str:
        """A key that opens one session, soon."""
        key = secrets.token_urlsafe(24)
        self._keys[digest_of(key)] = self.clock() + KEY_SECONDS
        return key

    def open(self, key: str) -> str | None:
        """The session that a key opens, which is then used up; None for another key, and for an old one."""
        known = next((one for one in self._keys if hmac.compare_digest(one, digest_of(key))), None)
        if known is None or self._keys.pop(known) < self.clock():
            return None
        session = secrets.token_urlsafe(24)
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[digest_of(session)] = None
        return session

    def has(self, session: str) -> bool:
        """True for an open session."""
        return bool(session) and any(hmac.compare_digest(known, digest_of(session)) for known in tuple(self._sessions))


def write_redirect(path: Path, address: str) -> None:
    """Writes a page that leads to the address, and that only its owner can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}"><title>OPX</title>\n')


def cookie_name(port: int) -> str:
    """Browsers send a host's cookies to all of its ports, so that each server has a name of its own."""
    return f"opx_console_{port}"


def cookie(session: str, port: int) -> str:
    """The header that gives a browser its session until it is closed: out of reach of scripts, and not sent by links or forms
    of other sites."""
    return f"{cookie_name(port)}={session}; Path=/; HttpOnly; SameSite=Strict"


def digest_of(text: str) -> bytes:
    """The digest by which tokens, keys and sessions are kept and compared."""
    return sha256(text.encode("utf-8", "replace")).digest()
