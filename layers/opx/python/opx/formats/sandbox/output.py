"""Output of a reading process: parts in document order as JSON lines, and the files that they name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from opx.errors import UnparsableDocumentError

HEAD = "head.json"
PARTS = "parts.jsonl"
PROBLEM = "problem.txt"


class OutputTooLargeError(UnparsableDocumentError):
    """A size limit was reached, which a setting can raise."""


@dataclass(frozen=True, slots=True)
class ReadingJob:
    """The file to read, the function that reads it (`package.module:function`), and its limits. `images`: write pictures out;
    without it they are only named.

    `draw` are the pages (from 1) to render; `function` and its `facts` are of a call of `opx.formats.sandbox.apart`.
    """

    reader: str
    name: str
    pages: int
    unpacked_bytes: int
    images: int
    draw: tuple[int, ...] = ()
    function: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadingJob:
        return cls(**{**data, "draw": tuple(data["draw"])})


class Output:
    """Writes parts, within `with`. Raises `OutputTooLargeError` above `limit` bytes in all."""

    def __init__(self, folder: Path, limit: int, images: int) -> None:
        self._folder = folder
        self._left = self._limit = limit
        self._images = images
        self._known_images: set[str] = set()
        self._parts = (folder / PARTS).open("w", encoding="utf-8", errors="surrogatepass")
        self._files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def text(self, markdown: str) -> None:
        """Writes a block of Markdown; blocks are separated by blank lines."""
        if markdown.strip():
            self._part(kind="text", text=markdown.strip("\n"))

    def unread(self, text: str) -> None:
        """Records a part of the document that isn't read, with the reason."""
        self._part(kind="unread", text=text)

    def irregular(self, text: str) -> None:
        """Records content that was read but may be wrong, with the remedy."""
        self._part(kind="irregular", text=text)

    def scan(self, page: int) -> None:
        """Records a page (from 1) that has no text layer."""
        self._part(kind="scan", page=page)

    def picture(self, data: bytes, name: str) -> None:
        """Writes a picture within the document; duplicates are skipped, as are pictures too small to show anything."""
        digest = hashlib.sha256(data).hexdigest()
        if digest in self._known_images:
            return
        self._known_images.add(digest)
        if len(self._known_images) > self._images:
            self._part(kind="picture", name=name, file="")
            return
        from opx.formats.pictures import portable

        image = portable(data)
        if image is not None:
            self._part(kind="picture", name=name, file=self.file(image.data), media_type=image.media_type)

    def image(self, data: bytes, media_type: str) -> None:
        """Writes the picture that is the document."""
        self._part(kind="image", file=self.file(data), media_type=media_type)

    def attachment(self, data: bytes, name: str) -> None:
        """Writes a document within the document."""
        self._part(kind="attachment", name=name, file=self.file(data))

    def file(self, data: bytes) -> str:
        """Writes a file; returns its name."""
        self._count(len(data))
        self._files += 1
        name = f"{self._files:05}"
        (self._folder / name).write_bytes(data)
        return name

    def drawn(self, page: int, data: bytes, media_type: str) -> None:
        """Writes the rendered picture of a page."""
        self._part(kind="drawn", page=page, file=self.file(data), media_type=media_type)

    def finish(self, title: str = "", metadata: Mapping[str, Any] | None = None) -> None:
        """Writes the document's title and metadata. Nothing comes after."""
        head = {"title": title, "metadata": dict(metadata or {})}
        (self._folder / HEAD).write_text(json.dumps(head), encoding="utf-8")

    def _part(self, **values: object) -> None:
        line = json.dumps(values)
        self._count(len(line))
        self._parts.write(line + "\n")

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            limit = f"{self._limit:,} bytes (OPX_PARSE_UNPACKED_BYTES)"
            raise OutputTooLargeError(f"its content is larger than {limit}; split it, or raise the limit")
