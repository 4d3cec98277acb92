"""The CVE API 2.0 of NVD: one request, and what can be wrong with the reply.

Source of names and limits: NVD, "Vulnerabilities" and "Start Here" (developers' pages): 2,000 records a reply, date ranges
of 120 days, 5 requests in 30 seconds without an API key and 50 with one, and pauses of 6 seconds recommended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta

from opx.domain.sources import RateLimit
from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.ports.sources import WebClient
from opx.sources.shapes import Filled, OddRecordError, Shape, shaped, utc

API_URL = "https://services.nvd.nist.gov/rest/json/cves/2.0"
MAX_RECORDS = 2_000
MAX_RANGE = timedelta(days=119)
"""A day less than is allowed: what counts as a day at the border is not documented."""

MAX_IDS = 100
PUBLIC_RATE = RateLimit(1, 6.0)
KEY_RATE = RateLimit(1, 0.7)
"""Evenly spaced, as bursts within the limit are refused, too; a little below 50 in 30 seconds, for delays of the way."""

_MAX_BYTES = 192 * 1024 * 1024
_BUSY_SECONDS = 30.0


class _Reply(Shape, frozen=True, rename="camel"):
    vulnerabilities: list[Any]
    total_results: Annotated[int, Meta(ge=0)]
    timestamp: Filled


@dataclass(frozen=True, slots=True)
class Records:
    """Some of `total` records that match, from a position on. `moment` is NVD's clock."""

    total: int
    moment: str
    found: list[Any]


class NvdApi:
    """Asks with the key, if there is one."""

    def __init__(self, web: WebClient, url: str, key: str) -> None:
        self._web = web
        self._url = url
        self._headers = {"apiKey": key} if key else {}

    def now(self) -> Records:
        """One record: for the number of all records, and the time."""
        return self.records({}, at=0, limit=1)

    def records(self, query: Mapping[str, str], *, at: int, limit: int = MAX_RECORDS) -> Records:
        """The records from a position on. Raises `SourceUnavailableError`, `SourceRefusedError`, `SourceShapeError`."""
        return self._asked({**query, "resultsPerPage": limit, "startIndex": at})

    def named(self, ids: list[str]) -> Records:
        """The records with these ids, at most `MAX_IDS`; those that NVD doesn't have are left out."""
        return self._asked({"cveIds": ",".join(ids)})

    def _asked(self, query: Mapping[str, str | int]) -> Records:
        try:
            reply = self._web.get(self._url, query=query, headers=self._headers, limit=_MAX_BYTES)
        except SourceRefusedError as exc:
            if exc.status != 403:
                raise
            raise SourceUnavailableError("NVD: too many requests from this address", _BUSY_SECONDS) from exc
        if reply.gone:
            why = reply.headers.get("message", "") or "no reason given"
            raise SourceRefusedError(f"NVD refuses the request: {why[:200]}", reply.status)
        return _records(reply.json())


def changed_within(start: datetime, end: datetime) -> dict[str, str]:
    """The query for records that were changed last in a range. The zone is needed, though it is documented as optional."""
    return {"lastModStartDate": _written(start), "lastModEndDate": _written(end)}


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _records(reply: object) -> Records:
    found = shaped(_Reply, reply, "NVD")
    try:
        return Records(found.total_results, utc(found.timestamp, "timestamp"), found.vulnerabilities)
    except OddRecordError as exc:
        raise SourceShapeError(f"NVD: {exc} in the reply") from exc
