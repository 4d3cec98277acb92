"""Reads bodies of requests within limits of size, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request

MAX_FORM_BYTES = 100 * 1024 * 1024
"""A form's files are in memory until they are written."""

BODY_SECONDS = 60.0
"""Time for the whole body of a request, however steadily it arrives; larger ones have a second more for each megabyte."""

MEMORY_BYTES = 256 * 1024 * 1024
"""Bodies that are in memory at once, of all requests that are read or answered."""

DELIVERY_MEMORY_BYTES = 64 * 1024 * 1024
"""The same of webhooks, whose senders are verified when the body is there: they can't use up the memory of others."""


@dataclass
class BodyRefusedError(Exception):
    """A body that is too large or too slow, or for which there is no memory. The rest of it is not read."""

    status: int
    code: str
    message: str


class BodyShare:
    """The memory of one request's body."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.taken = 0

    def take(self, count: int) -> None:
        """Raises `BodyRefusedError` if there is no memory left."""
        if count > self._memory.left:
            raise BodyRefusedError(503, "unavailable", "too many large requests are in progress; try again")
        self._memory.left -= count
        self.taken += count


class Memory:
    """Memory for the bodies of all requests in progress."""

    def __init__(self, size: int) -> None:
        self.left = size

    @contextmanager
    def share(self) -> Iterator[BodyShare]:
        """A share that is given back at the end of the block."""
        share = BodyShare(self)
        try:
            yield share
        finally:
            self.left += share.taken


async def read_body(request: Request, largest: int, share: BodyShare, too_large: str) -> bytes:
    """The body, at most `largest` bytes of it. Raises `BodyRefusedError`, and `ClientDisconnect` if it breaks off."""
    declared = _declared(request)
    if declared > largest:
        raise BodyRefusedError(413, "too_large", too_large)
    body = bytearray()
    seconds = BODY_SECONDS + declared / 1e6
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                if len(body) + len(part) > largest:
                    raise BodyRefusedError(413, "too_large", too_large)
                share.take(len(part))
                body += part
    except TimeoutError:
        raise BodyRefusedError(408, "too_slow", f"the body took more than {seconds:.0f} seconds") from None
    return bytes(body)


def _declared(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text[:18]) if text.isascii() and text.isdecimal() else 0
