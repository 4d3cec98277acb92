"""Channels of documents: the trust that each may claim, as knowledge.yaml declares it, and their record on objects.

Trust belongs to the channel. What a document states about itself may lower its trust and never raise it; what the
installation itself put is attested by the store, and what the channel's name may claim at most is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from opx.domain.knowledge import Category, KnowledgeModel
from opx.domain.provenance import CHANNEL_METADATA, UNKNOWN_UPLOAD, Channel, ChannelKind
from opx.domain.record import replace
from opx.errors import InvalidInputError, UnknownCategoryError
from opx.ports import ObjectInfo, ObjectStore
from opx.runtime.knowledge_file import Marked, read_section

SECTION = "channels"
EVERY = "*"
MAX_PRINCIPAL = 120
"""Characters of a principal that are kept: an object of S3 has room for 2 KB of metadata."""

_DECLARED_IN = {ChannelKind.WEBHOOK: "webhooks", ChannelKind.STREAM: "streams"}
"""Sections that list all channels of a kind. Sources may also be registered elsewhere."""


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """The most trusted category that each channel may claim, by its kind and name; `*` stands for all of a kind. The names of
    uploads are beginnings of object names in their scope, of which the longest counts."""

    at_most: Mapping[ChannelKind, Mapping[str, Category]] = field(default_factory=dict)

    def limit(self, channel: Channel, source: str) -> Category | None:
        """The most trusted category that a document may have by this channel; None without a rule."""
        rules = self.at_most.get(channel.kind, {})
        if channel.kind is ChannelKind.UPLOAD:
            fitting = [name for name in rules if name != EVERY and source.startswith(name)]
            return rules.get(max(fitting, key=len, default=EVERY))
        return rules.get(channel.name or channel.principal) or rules.get(EVERY)


def read_channel_rules(knowledge: KnowledgeModel, path: Path | None = None) -> ChannelRules:
    """Reads the section `channels`. Raises `KnowledgeConfigError` with file and line for an unknown kind or category, and for
    a webhook or stream that isn't declared."""
    section = read_section(SECTION, path)
    found: dict[ChannelKind, Mapping[str, Category]] = {}
    for kind, entry in (section.entries() if section else {}).items():
        if kind not in tuple(ChannelKind):
            raise entry.error(f"unknown kind of channel {kind!r}; allowed: {', '.join(ChannelKind)}")
        known = ChannelKind(kind)
        declared = _declared(known, path)
        found[known] = {name: _limit(name, one, knowledge, declared) for name, one in entry.entries().items()}
    return ChannelRules(found)


def _declared(kind: ChannelKind, path: Path | None) -> frozenset[str] | None:
    """Names of the declared channels of a kind, None where not all are declared."""
    if kind not in _DECLARED_IN:
        return None
    section = read_section(_DECLARED_IN[kind], path)
    return frozenset(section.entries() if section else ())


def _limit(name: str, entry: Marked, knowledge: KnowledgeModel, declared: frozenset[str] | None) -> Category:
    if declared is not None and name not in declared | {EVERY}:
        raise entry.error(f"channel {name!r} isn't declared; there are: {', '.join(sorted(declared)) or 'none'}")
    try:
        return knowledge.category(entry.text())
    except UnknownCategoryError as exc:
        raise entry.error(str(exc)) from exc


# -- the record on objects


def channel_metadata(channel: Channel) -> dict[str, str]:
    """The metadata of an object that state its channel."""
    short = replace(channel, principal=channel.principal[:MAX_PRINCIPAL])
    return {CHANNEL_METADATA: msgspec.json.encode(short).decode()}


@dataclass(frozen=True, slots=True)
class Arrival:
    """The channel of an object. `attested`: the installation itself put the object and stated the channel."""

    channel: Channel
    attested: bool


def arrival_of(store: ObjectStore, info: ObjectInfo) -> Arrival:
    """The channel by which an object came: the stated one if the store attests it, else an unknown upload."""
    attested = store.attests(info)
    text = info.metadata.get(CHANNEL_METADATA)
    if not (attested and text):
        return Arrival(UNKNOWN_UPLOAD, attested)
    try:
        return Arrival(Channel.from_json(msgspec.json.decode(text)), attested)
    except (msgspec.MsgspecError, InvalidInputError):  # of a newer release
        return Arrival(UNKNOWN_UPLOAD, attested)
