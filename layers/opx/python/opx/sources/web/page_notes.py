"""What a crawl keeps of a page that it has read, for when the page isn't sent again because it did not change."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from opx.domain.record import replace

MAX_UNPACKED = 16 * 1024 * 1024


class State(StrEnum):
    """How the last visit went."""

    READ = ""
    NOTHING = "nothing"
    """No page of this crawl: it is gone, leads elsewhere, or could not be read."""


@dataclass(frozen=True, slots=True)
class PageNotes:
    """`url` is where redirects led, "" if nowhere; `digest` is of the text, "" for a page without a document;
    `put`: its document was given away."""

    url: str = ""
    canonical: str = ""
    key: str = ""
    digest: str = ""
    put: bool = False
    links: tuple[str, ...] = ()
    state: State = State.READ

    def to_texts(self) -> dict[str, str]:
        return {
            "url": self.url,
            "canonical": self.canonical,
            "key": self.key,
            "digest": self.digest,
            "put": "1" if self.put else "",
            "links": _packed(self.links),
            "state": self.state.value,
        }

    def with_put(self, put: bool) -> PageNotes:
        return replace(self, put=put)


NOTHING = {"state": State.NOTHING.value}


def notes_of(texts: Mapping[str, str]) -> PageNotes | None:
    """The notes, or None if there are none of a page (or none that can be read)."""
    if "links" not in texts:
        return PageNotes(state=State.NOTHING) if texts.get("state") == State.NOTHING else None
    try:
        return PageNotes(
            url=texts["url"],
            canonical=texts["canonical"],
            key=texts["key"],
            digest=texts["digest"],
            put=bool(texts["put"]),
            links=_unpacked(texts["links"]),
            state=State(texts["state"]),
        )
    except (KeyError, ValueError, binascii.Error, zlib.error):
        return None


def _packed(links: tuple[str, ...]) -> str:
    return base64.b85encode(zlib.compress("\n".join(links).encode(), 9)).decode("ascii") if links else ""


def _unpacked(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    data = zlib.decompressobj().decompress(base64.b85decode(text), MAX_UNPACKED)
    return tuple(data.decode().split("\n"))
