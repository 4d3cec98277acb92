"""Provenance of document versions: the channel that each came by, who put it, how that is proven, and checksums."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from opx.domain.record import Record, about

CHANNEL_METADATA = "opx-channel"
"""Name of the object's user metadata with the `Channel` as JSON, which only the installation itself can attest."""


class ChannelKind(StrEnum):
    """Kinds of channels by which objects reach the corpus."""

    UPLOAD = "upload"
    """Put by an unknown person or program with a right to write to the store itself."""
    COMMAND = "command"
    """Put by the owner of the machine, with the `opx` command or the library."""
    API = "api"
    AGENT = "agent"
    WEBHOOK = "webhook"
    SOURCE = "source"
    STREAM = "stream"
    LEARNING = "learning"
    """Written by the installation: patterns and warnings of recorded outcomes."""


class Channel(Record, frozen=True, omit_defaults=True):
    """A way by which an object reached the corpus. `name` is that of the webhook, source or stream; `principal` the person or
    program that put it, "" if unknown; `proof` how the installation established both."""

    kind: ChannelKind
    name: str = ""
    principal: str = ""
    proof: str = ""

    @property
    def title(self) -> str:
        """`webhook statuspage`."""
        return f"{self.kind.value} {self.name}".rstrip()


class Provenance(Record, frozen=True, kw_only=True):
    """Provenance of one version of a document, as of its ingestion."""

    channel: Channel
    attested: Annotated[
        bool,
        about("True if the installation itself put the object; else anyone with a right to write there."),
    ]
    at_most: Annotated[
        str,
        about("The most trusted category that the channel may claim, empty if knowledge.yaml sets none."),
    ] = ""
    claims: Annotated[
        tuple[str, ...], about("Fields of the metadata that its author states and that nobody verified.")
    ] = ()
    object_checksum: Annotated[str, about("The SHA-256 of the object that was read, in hexadecimal.")] = ""
    object_version: Annotated[str, about("The store's version of the object; empty if it keeps none.")] = ""
    parser: Annotated[str, about("The format that the object was parsed as.")] = ""
    ingested_at: Annotated[str, about("When it was ingested.")] = ""
    reviewed_by: Annotated[str, about("The principal that last reviewed it; empty if unknown.")] = ""


UNKNOWN_UPLOAD = Channel(ChannelKind.UPLOAD, proof="a right to write to the store")
