"""NVD's CVE API 2.0, CISA's catalogue and FIRST's estimates on 127.0.0.1, over records that a test sets.

It refuses what NVD refuses: ranges of more than 120 days, times without a zone, one date without the other.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite


def a_record(cve_id: str, *, changed: str = "2026-01-02T00:00:00.000", **fields: Any) -> dict[str, Any]:
    """An element of `vulnerabilities`."""
    record = {
        "id": cve_id,
        "sourceIdentifier": "cna@example.org",
        "published": "2026-01-01T00:00:00.000",
        "lastModified": changed,
        "vulnStatus": "Analyzed",
        "descriptions": [{"lang": "es", "value": "Un fallo"}, {"lang": "en", "value": f"A flaw, {cve_id}."}],
        "metrics": {},
        "references": [],
    }
    return {"cve": {**record, **fields}}


class NvdDouble:
    """Served by a `MisbehavingSite`. `now` is its clock, `most` the records that it gives at most in a reply; `before`
    is called before each listing is answered."""

    def __init__(self, site: MisbehavingSite, *, now: str = "2026-03-01T12:00:00.000", most: int = 2000) -> None:
        self.site = site
        self.now = now
        self.most = most
        self.key = ""
        self.records: dict[str, dict[str, Any]] = {}
        self.before: Callable[[dict[str, str]], object] = lambda parameters: None
        self.listings: list[dict[str, str]] = []
        site.on("/cves", self._answer)
        self.kev()
        self.epss({}, date="2026-02-27", current=False)
        self.epss({})

    @property
    def options(self) -> dict[str, Any]:
        names = {"base_url": "/cves", "kev_url": "/kev.json", "epss_url": "/epss_scores-current.csv.gz"}
        return {name: self.site.url(path) for name, path in names.items()}

    def put(self, cve_id: str, **fields: Any) -> None:
        self.records[cve_id] = a_record(cve_id, **fields)

    def kev(self, *entries: dict[str, str], released: str = "2025-01-01T00:00:00.0000Z") -> None:
        """Set the catalogue; entries have at least `cveID`."""
        full = [
            {"dateAdded": "2026-02-20", "dueDate": "2026-03-20", "vulnerabilityName": "Some Flaw",
             "requiredAction": "Apply updates.", "knownRansomwareCampaignUse": "Unknown", **entry}
            for entry in entries
        ]  # fmt: skip
        self.site.page("/kev.json", {"dateReleased": released, "vulnerabilities": full})

    def epss(self, scores: dict[str, tuple[float, float]], *, date: str = "2026-02-28", current: bool = True) -> None:
        """Set the estimates of a day, which are the current ones, too."""
        lines = [f"#model_version:v2025.03.14,score_date:{date}T00:00:00Z", "cve,epss,percentile"]
        lines += [f"{name},{probability},{percentile}" for name, (probability, percentile) in scores.items()]
        if not scores:
            lines.append("CVE-1999-0001,0.0001,0.01")
        packed = gzip.compress("\n".join(lines).encode(), mtime=0)
        for name in (date, "current") if current else (date,):
            self.site.page(f"/epss_scores-{name}.csv.gz", packed)

    def _answer(self, request: Request) -> Answer:
        parameters = dict(request.parameters)
        self.before(parameters)
        problem = self._problem(parameters, request)
        if problem:
            return Answer(404, b"", {"message": problem})
        if parameters.get("resultsPerPage") != "1":
            self.listings.append(parameters)
        found = self._matching(parameters)
        at = int(parameters.get("startIndex", 0))
        some = found[at : at + min(self.most, int(parameters.get("resultsPerPage", 2000)))]
        body = {
            "resultsPerPage": len(some),
            "startIndex": at,
            "totalResults": len(found),
            "format": "NVD_CVE",
            "timestamp": self.now,
            "vulnerabilities": some,
        }
        return Answer(200, body, {"Content-Type": "application/json"})

    def _problem(self, parameters: dict[str, str], request: Request) -> str:
        if self.key and request.headers.get("apikey") != self.key:
            return "Invalid apiKey."
        start, end = parameters.get("lastModStartDate", ""), parameters.get("lastModEndDate", "")
        if bool(start) != bool(end):
            return "Both lastModStartDate and lastModEndDate are required."
        if start and not (start.endswith("Z") and end.endswith("Z")):
            return "Invalid ISO 8601 date/time format, see documentation."
        if start and _time(end) - _time(start) > timedelta(days=120):
            return "The maximum allowable range is 120 consecutive days."
        return "Too many ids." if parameters.get("cveIds", "").count(",") >= 100 else ""

    def _matching(self, parameters: dict[str, str]) -> list[dict[str, Any]]:
        found = list(self.records.values())
        if "lastModStartDate" in parameters:
            start, end = _time(parameters["lastModStartDate"]), _time(parameters["lastModEndDate"])
            found = [record for record in found if start <= _time(record["cve"]["lastModified"]) <= end]
        if "cveIds" in parameters:
            found = [record for record in found if record["cve"]["id"] in parameters["cveIds"].split(",")]
        if "keywordSearch" in parameters:
            found = [record for record in found if parameters["keywordSearch"] in str(record["cve"]["descriptions"])]
        return found


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
