"""CISA's catalogue of vulnerabilities that are known to be exploited ("Known Exploited Vulnerabilities Catalog", JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from opx.errors import SourceShapeError
from opx.sources.shapes import OddRecordError, listed, maybe_text, moment, text

KEV_URL = "https://www.cisa.gov/sites/default/files/feeds/known_exploited_vulnerabilities.json"
_OVERLAP = timedelta(days=2)
"""The catalogue may be seen this much later than it is dated."""


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


def parse_kev(reply: Any) -> KevCatalogue:
    """The catalogue. Raises `SourceShapeError`."""
    entries: dict[str, Exploited] = {}
    try:
        released = moment(reply, "dateReleased")
        for entry in listed(reply, "vulnerabilities", "CISA's catalogue"):
            entries[text(entry, "cveID")] = Exploited(
                since=text(entry, "dateAdded"),
                due=maybe_text(entry, "dueDate"),
                action=maybe_text(entry, "requiredAction"),
                name=maybe_text(entry, "vulnerabilityName"),
                ransomware=maybe_text(entry, "knownRansomwareCampaignUse").lower() == "known",
            )
    except OddRecordError as exc:
        raise SourceShapeError(f"CISA's catalogue: {exc}") from exc
    return KevCatalogue(released, entries)
