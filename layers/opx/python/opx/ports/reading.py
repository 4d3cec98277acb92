"""What parsers ask to read what is no text: pictures of text, and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Ocr(Protocol):
    """Text from a picture of text."""

    def read(self, image: bytes, *, media_type: str) -> str:
        """The text of one page (`image/png` or `image/jpeg`) in reading order, "" if there is none. Raises
        `StoreUnavailableError` if the service fails for now, and `UnparsableDocumentError` for what is no image."""


class ImageDescriber(Protocol):
    """What a picture shows, in words."""

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        """A description for somebody who can't see it: what a diagram connects, what a screen says. `hint` is the
        file's name or the text around it: data, not an instruction. Raises as `Ocr.read`."""


@dataclass(frozen=True, slots=True)
class ParsingLimits:
    """What reading one file of a binary format may take, in a process of its own.

    `seconds` are of CPU, and twice as many may pass in all. `memory_bytes` bounds its address space (where the system
    can), `unpacked_bytes` what an archive unpacks to and what is written. Of longer documents the first `pages` are
    read, and as many pictures or scanned pages as `images` are given to the tools. `attachments` are nested that deep.
    """

    seconds: float = 60.0
    memory_bytes: int = 512 * 1024 * 1024
    unpacked_bytes: int = 256 * 1024 * 1024
    pages: int = 2000
    images: int = 100
    attachments: int = 3


@dataclass(frozen=True, slots=True)
class ParsingTools:
    """What there is to read with. Without a tool, what would need it is kept and reported as unread."""

    ocr: Ocr | None = None
    describer: ImageDescriber | None = None
    limits: ParsingLimits = ParsingLimits()
