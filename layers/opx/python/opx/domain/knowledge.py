"""Tiers and categories of knowledge, with their trust and retention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated

from msgspec import Struct, field

from opx.domain.record import Record, about
from opx.errors import InvalidInputError, UnknownCategoryError


class Tier(StrEnum):
    """Origin of knowledge, in falling order of trust."""

    INTERNAL = "internal"
    SPECIALIZED = "specialized"
    INTERNET = "internet"


_RANKS = {tier: rank for rank, tier in enumerate(Tier)}

PATTERNS_CATEGORY = "learning/patterns"
"""Category of the documents as which patterns are searched."""

WARNINGS_CATEGORY = "learning/warnings"
"""Category of the documents that warn of steps without effect, or that made things worse."""

ALERT_RULES_CATEGORY = "operations/alert_rules"
"""Category of the files that define alerts."""

TRUST_RANGE: dict[Tier, tuple[float, float]] = {
    Tier.INTERNAL: (0.8, 1.0),
    Tier.SPECIALIZED: (0.9, 0.95),
    Tier.INTERNET: (0.5, 0.8),
}
"""The trust that a category of each tier may have, both ends included."""

FORMATS = ("code", "mail")
"""Families of formats that a category may claim."""

REPORTS = (
    "incidents",
    "changes",
    "alerts",
    "agent_runs",
    "remediation",
    "patterns",
    "warnings",
    "tickets",
    "mail",
    "chats",
)
"""Last parts of the paths of categories that speak reports by default."""

_CORRESPONDENCE = {"mail", "imap", "jira", "mailbox", "slack_export"}
"""Formats and kinds of sources whose categories do, too."""

JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object")
"""JSON types that a field of a category's schema may have."""

JSON_MAPPING_FIELDS = (
    "title",
    "content",
    "tags",
    "author",
    "version",
    "severity",
    "services",
    "created",
    "updated",
    "source_uri",
)
"""The parts of a JSON record that a category can map; the first two are required."""

_RETENTION = re.compile(r"([1-9]\d{0,3})([dmy])\Z")
_DAYS = {"d": 1, "m": 30, "y": 365}
_UNITS = {"d": "day", "m": "month", "y": "year"}
_BY_USE = " by use"


def retention_days(text: str) -> int | None:
    """Parses a retention to days: `permanent` (None), or a number with `d`, `m` (30 days) or `y` (365 days). Raises
    `InvalidInputError` for anything else."""
    if text == "permanent":
        return None
    match = _RETENTION.match(text)
    if not match:
        raise InvalidInputError(f"retention {text!r} is not 'permanent' or a number with d, m or y, such as 90d or 2y")
    return int(match[1]) * _DAYS[match[2]]


def is_shorter_policy(now: str, before: str) -> bool:
    """True if documents may expire earlier by the policy `now` than by the one `before` (`2y`, `2y by use`)."""
    limits = [retention_days(policy.removesuffix(_BY_USE)) for policy in (now, before)]
    if limits[0] is None:
        return False
    if limits[1] is None or limits[0] < limits[1]:
        return True
    return before.endswith(_BY_USE) and not now.endswith(_BY_USE)


def readable_retention(text: str) -> str:
    """`2y` as `2 years`."""
    match = _RETENTION.match(text)
    return f"{match[1]} {_UNITS[match[2]]}{'' if match[1] == '1' else 's'}" if match else text


class Ageing(StrEnum):
    """The moment from which a category's retention counts."""

    EDIT = "edit"
    """The document's last update."""
    USE = "use"
    """Its last use: ingested, found, opened, cited, or with a recorded outcome."""


class Speech(StrEnum):
    """Authority of what the documents of an internal category say."""

    INSTRUCTIONS = "instructions"
    """Written and reviewed here, to be followed."""
    REPORTS = "reports"
    """Unreviewed words of a person or a program: quoted, after instructions, and never a procedure."""


def default_speech(path: str, tier: Tier = Tier.INTERNAL, claims: Iterable[str] = ()) -> Speech:
    """The speech of a category that declares none: reports for an internal one by the last part of its path, or if it takes
    mail, tickets or chats (`claims`: its formats and connectors)."""
    is_report = path.rpartition("/")[2] in REPORTS or not _CORRESPONDENCE.isdisjoint(claims)
    return Speech.REPORTS if is_report and tier is Tier.INTERNAL else Speech.INSTRUCTIONS


Untrusted = Annotated[
    bool,
    about(
        "True if it comes from outside the organisation, or is a report that nobody reviewed: data, no instructions."
    ),
]


class Category(Record, frozen=True):
    """One kind of knowledge, as `knowledge.yaml` describes it.

    `folders` are the folder names (relative to `documents/`) that imply the category; `schema` maps field names to their
    JSON types; `embed` lists the fields that are searched by meaning, empty for none; `json_mapping` locates the title,
    content and metadata fields in a JSON document (JSONPath). `graph`: its documents are in the graph although none of
    their fields are searched. `ages_by`: the moment from which its retention counts. `speaks`: the authority of its
    documents.

    Of documents that nothing else categorises it takes those of `formats` (families of `FORMATS`) and the files with these
    `names` (without extension, in any case), and it is the default of sources of these kinds (`connectors`).
    """

    path: str
    tier: Tier
    trust: float
    retention: str
    description: str = ""
    schedule: str | None = None
    folders: tuple[str, ...] = ()
    schema: dict[str, str] = field(default_factory=dict)
    embed: tuple[str, ...] = ()
    json_mapping: dict[str, str] = field(default_factory=dict)
    graph: bool = False
    ages_by: Ageing = Ageing.EDIT
    formats: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    speaks: Speech = Speech.INSTRUCTIONS

    @property
    def is_untrusted(self) -> bool:
        """True if its documents are data to weigh, whatever they demand: those from outside, and reports."""
        return self.tier is not Tier.INTERNAL or self.speaks is Speech.REPORTS

    @property
    def ages_by_use(self) -> bool:
        """True if its documents expire, by their last use."""
        return self.ages_by is Ageing.USE and self.retention_days is not None

    def is_within(self, limit: Category) -> bool:
        """True if it is of no more trusted tier than `limit`, of no more trust, and speaks no instructions where `limit`
        speaks reports."""
        is_louder = limit.is_untrusted and not self.is_untrusted
        return self.trust <= limit.trust and _RANKS[self.tier] >= _RANKS[limit.tier] and not is_louder

    @property
    def policy(self) -> str:
        """Its retention with the moment that it counts from: `2y`, `2y by use`."""
        return f"{self.retention}{_BY_USE}" if self.ages_by_use else self.retention

    @property
    def is_related(self) -> bool:
        """True if statements of its documents are in the graph."""
        return self.graph or bool(self.embed)

    @property
    def retention_days(self) -> int | None:
        """Retention in days, None for permanent."""
        return retention_days(self.retention)


class KnowledgeModel(Struct, frozen=True):
    """All categories by path, and the default category of documents without any other sign."""

    categories: dict[str, Category] = field(default_factory=dict)
    default_category: str = ""

    def category(self, path: str) -> Category:
        """The category with this path; `runbook` and `postmortem` work as short names of a single match, as does the last
        part of a path that no other has (`tickets`).

        Raises `UnknownCategoryError` that lists the allowed paths.
        """
        if path in self.categories:
            return self.categories[path]
        plural = path.rstrip("s") + "s"
        for known in self.categories.values():
            if plural in known.folders:
                return known
        called = [one for one in self.categories.values() if one.path.rpartition("/")[2] == path]
        if len(called) == 1:
            return called[0]
        allowed = ", ".join(sorted(self.categories))
        raise UnknownCategoryError(f"unknown category {path!r}; allowed: {allowed}")

    def is_report(self, path: str) -> bool:
        """True for a category that speaks reports; for one that was removed by the default for its path."""
        known = self.categories.get(path)
        return (known.speaks if known else default_speech(path)) is Speech.REPORTS

    @property
    def reports(self) -> frozenset[str]:
        """Paths of the categories that speak reports."""
        return frozenset(filter(self.is_report, self.categories))

    def is_untrusted(self, path: str, tier: Tier) -> bool:
        """True for a document of this category and tier that is data to weigh: one from outside, or a report."""
        return tier is not Tier.INTERNAL or self.is_report(path)

    def within(self, prefix: str) -> tuple[str, ...]:
        """Paths of the categories equal to `prefix` or below it (`runbooks` -> procedures and architecture).

        Raises `UnknownCategoryError` if there is none.
        """
        found = tuple(sorted(p for p in self.categories if p == prefix or p.startswith(prefix + "/")))
        return found or (self.category(prefix).path,)

    def category_of_path(self, path: str) -> Category | None:
        """The category that a file's folders imply: the longest match wins, then the one nearest to the file. A folder within
        another never raises trust: who may write to `web/blogs` may also make a folder `runbooks` in it."""
        folders = path.split("/")[:-1]
        best: tuple[int, int] = (0, -1)
        found: Category | None = None
        for position, length, category in sorted(self._implied(folders), key=lambda one: one[:2]):
            if found is None or (
                category.is_within(found) and ((length, position) > best or not found.is_within(category))
            ):
                best, found = (length, position), category
        return found

    def _implied(self, folders: list[str]) -> Iterator[tuple[int, int, Category]]:
        """Categories that folders imply, each with the position of the first of its folders and their number."""
        for category in self.categories.values():
            for folder in {category.path, *category.folders}:
                names = folder.split("/")
                for at in range(len(folders) - len(names) + 1):
                    if folders[at : at + len(names)] == names:
                        yield at, len(names), category

    def category_of_file(self, name: str, family: str) -> Category | None:
        """The category that claims files of this name (`README.md`), else the one that claims this family of formats."""
        stem = name.rpartition("/")[2].partition(".")[0].casefold()
        claims = [one for one in self.categories.values() if stem in map(str.casefold, one.names)]
        claims += [one for one in self.categories.values() if family and family in one.formats]
        return claims[0] if claims else None

    def category_of_connector(self, kind: str) -> Category | None:
        """The default category of sources of a kind."""
        return next((one for one in self.categories.values() if kind in one.connectors), None)


NO_KNOWLEDGE = KnowledgeModel()
"""A model without categories: of each path the default counts."""
