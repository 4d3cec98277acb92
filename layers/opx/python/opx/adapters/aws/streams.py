"""Streams to and from S3 that keep what the port promises."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from opx.adapters.aws.vendor_errors import translated_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from botocore.response import StreamingBody

BLOCK = 1024 * 1024


class WholeReads:
    """A stream that gives as many bytes as are asked for until it ends, and counts them.

    boto3 takes a short read for the end of the stream, which sockets and pipes give at any time. It closes what it
    uploads, which is the caller's, and it looks for the size of what can seek: this can neither.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        blocks: list[bytes] = []
        wanted = size
        while wanted and (block := self._stream.read(BLOCK if wanted < 0 else wanted)):
            blocks.append(block)
            wanted -= len(block) if size > 0 else 0
        whole = b"".join(blocks)
        self.count += len(whole)
        return whole


class BodyStream(io.RawIOBase):
    """The body of a response, whose connection may break: raises `StoreUnavailableError` then."""

    def __init__(self, body: StreamingBody, name: str) -> None:
        self._body = body
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        with translated_errors(f"read {self._name}"):
            data = self._body.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()
