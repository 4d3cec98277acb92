"""Channels of documents: the trust that each may claim, as knowledge.yaml declares it, their record on objects, and the
category that a document gets within that trust.

Trust belongs to the channel. What a document states about itself may lower its trust and never raise it; what the
installation itself put is attested by the store, and what the channel's name may claim at most is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from opx.domain.documents import Remark, RemarkKind
from opx.domain.knowledge import Category, KnowledgeModel
from opx.domain.provenance import CHANNEL_METADATA, UNKNOWN_UPLOAD, Channel, ChannelKind
from opx.domain.record import replace
from opx.errors import InvalidInputError, UnknownCategoryError
from opx.formats.registry import family_of
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


@dataclass(slots=True)
class CategoryChoice:
    """Chooses the category of one object of the name `source` in its scope. Of option or API, sidecar, folder and front
    matter the first that states one counts. Only the option of an attested channel may state one that is more trusted than
    the folder's. `at_most` is the most trusted category that its channel may claim, if there is a rule. `remarks` lists
    refused claims. Raises `UnknownCategoryError`."""

    knowledge: KnowledgeModel
    source: str
    arrival: Arrival
    at_most: Category | None
    remarks: list[Remark] = field(default_factory=list)
    is_stated: bool = False
    """True if option or sidecar state the category, so that front matter doesn't."""

    def before_parsing(self, uploaded: Mapping[str, Any], sidecar: Mapping[str, Any], name: str) -> Category:
        """The category by everything but front matter: of the option, the sidecar, the folder, the name or format of the
        file, or the default."""
        folder = self.knowledge.category_of_path(self.source)
        stated = self._option(uploaded, folder) or self._stated("sidecar", sidecar.get("category"), folder)
        self.is_stated = stated is not None
        found = stated or folder or self.knowledge.category_of_file(name, family_of(name))
        return self._within_channel(found or self.knowledge.category(self.knowledge.default_category))

    def after_parsing(self, category: Category, front_matter: str | None) -> Category:
        """The category after front matter, which decides where no folder does, and may lower the trust of a folder's."""
        if self.is_stated or not front_matter:
            return category
        folder = self.knowledge.category_of_path(self.source)
        claimed = self._stated("front matter", front_matter, folder)
        if claimed is None or (folder and claimed.trust == folder.trust):
            return category
        return self._within_channel(claimed)

    def _option(self, uploaded: Mapping[str, Any], folder: Category | None) -> Category | None:
        """The category of the object's own metadata. Anyone with a right to write to a bucket can state them: only those of
        an attested object may raise the folder's."""
        stated = uploaded.get("category")
        if self.arrival.attested:
            return self.knowledge.category(str(stated)) if stated else None
        return self._stated("object's metadata", stated, folder)

    def _stated(self, where: str, stated: object, folder: Category | None) -> Category | None:
        """A stated category that the folder's allows."""
        if not stated:
            return None
        claimed = self.knowledge.category(str(stated))
        if folder is None or claimed.is_within(folder):
            return claimed
        self._remark(f"its {where} has the category {claimed.path}; that of its folder, {folder.path}, stands")
        return None

    def _within_channel(self, category: Category) -> Category:
        if self.at_most is None or category.is_within(self.at_most):
            return category
        channel = self.arrival.channel.title
        self._remark(f"the category {category.path} is above what {channel} may claim, which is {self.at_most.path}")
        return self.at_most

    def _remark(self, text: str) -> None:
        remark = Remark(RemarkKind.CLAIMED, text)
        if remark not in self.remarks:
            self.remarks.append(remark)
