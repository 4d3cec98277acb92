"""CISA's catalogue of vulnerabilities that are known to be exploited ("Known Exploited Vulnerabilities Catalog", JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from opx.errors import SourceShapeError
from opx.sources.shapes import Filled, Loose, OddRecordError, Shape, shaped, utc

KEV_URL = "https://www.cisa.gov/sites/default/files/feeds/known_exploited_vulnerabilities.json"
_OVERLAP = timedelta(days=2)
"""The catalogue may be seen this much later than it is dated."""


class _Entry(Shape, frozen=True, rename="camel"):
    cve_id: Filled = msgspec.field(name="cveID")
    date_added: Filled
    due_date: Loose[str] = ""
    required_action: Loose[str] = ""
    vulnerability_name: Loose[str] = ""
    known_ransomware_campaign_use: Loose[str] = ""


class _Catalogue(Shape, frozen=True, rename="camel"):
    date_released: Filled
    vulnerabilities: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True)
class Exploited:
    """What the catalogue says of a CVE. `ransomware`: it is known to be used by ransomware."""

    since: str
    due: str
    action: str
    name: str
    ransomware: bool


@dataclass(frozen=True, slots=True)
class KevCatalogue:
    """All entries by CVE id; `released` is when this state of the catalogue was published."""

    released: str = ""
    entries: Mapping[str, Exploited] = field(default_factory=dict)

    def ids_changed_since(self, since: str) -> frozenset[str]:
        """CVEs whose entry may have changed: all, if the catalogue was published since then. Changes of an entry, such as
        its use by ransomware, bear no date."""
        if not self.released:
            return frozenset()
        early = datetime.fromisoformat(since) - _OVERLAP
        return frozenset(self.entries) if datetime.fromisoformat(self.released) >= early else frozenset()


def parse_kev(reply: object) -> KevCatalogue:
    """The catalogue. Raises `SourceShapeError`."""
    found = shaped(_Catalogue, reply, "CISA's catalogue")
    entries = {
        entry.cve_id: Exploited(
            since=entry.date_added,
            due=entry.due_date,
            action=entry.required_action,
            name=entry.vulnerability_name,
            ransomware=entry.known_ransomware_campaign_use.lower() == "known",
        )
        for entry in found.vulnerabilities
    }
    try:
        return KevCatalogue(utc(found.date_released, "dateReleased"), entries)
    except OddRecordError as exc:
        raise SourceShapeError(f"CISA's catalogue: {exc}") from exc
