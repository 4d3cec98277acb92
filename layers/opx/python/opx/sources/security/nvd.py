"""Vulnerabilities from NVD, with CISA's marks of known exploitation and FIRST's estimates of it.

A pull lists everything, or what NVD changed since the last one, in ranges of its own clock; then it reads again the CVEs
whose mark or estimate changed without their record. Decision 16 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from opx.domain.sources import Page, PullRequest, RateLimit, SourceDocument
from opx.errors import SourceRefusedError, SourceUnavailableError
from opx.sources.connector import Connector
from opx.sources.security.cve import Feeds, cve_document, cve_id, is_rejected
from opx.sources.security.epss import EPSS_URL, Estimates, parse_epss
from opx.sources.security.kev import KEV_URL, KevCatalogue, parse_kev
from opx.sources.security.nvd_api import (
    API_URL,
    KEY_RATE,
    MAX_IDS,
    MAX_RANGE,
    MAX_RECORDS,
    PUBLIC_RATE,
    NvdApi,
    changed_within,
)
from opx.sources.security.nvd_place import Place, Stage, placed
from opx.sources.workplace.shapes import OddRecordError, read_each

PAGE_RECORDS = 500
OVERLAP = timedelta(hours=2)
"""NVD publishes changes every two hours ("CVEs and the NVD Process"): a record may show this long after its date."""

QUIET = timedelta(hours=12)
"""A longer range without any change is NVD's failing, which has happened, and is asked for again by the next pull."""

_DAYS_BEFORE = 3


@dataclass(frozen=True, slots=True)
class NvdOptions:
    """`filters` are parameters of the API (`keywordSearch=nginx`, `cvssV3Severity=CRITICAL`, `hasKev=`); with any, each
    pull lists what they give, so that CVEs which don't match any more are withdrawn. An empty `kev_url` or `epss_url`
    does without that feed; one of EPSS has `current` where a date may stand."""

    api_key_secret: str = ""
    filters: tuple[str, ...] = ()
    base_url: str = API_URL
    kev_url: str = KEV_URL
    epss_url: str = EPSS_URL


class NvdConnector(Connector[NvdOptions]):
    """One document a CVE."""

    options_type = NvdOptions

    @classmethod
    def rate_limit(cls, options: NvdOptions) -> RateLimit | None:
        return KEY_RATE if options.api_key_secret else PUBLIC_RATE

    def probe(self) -> None:
        self._api().now()
        if self.options.kev_url:
            self._kev()

    def pull(self, request: PullRequest) -> Iterator[Page]:
        api = self._api()
        place = placed(request.cursor)
        feeds = Feeds(self._kev(), self._epss(place.estimated or "current"))
        if place.stage is Stage.BEGIN:
            place = self._begun(api, request.since, replace(place, estimated=feeds.epss.date), feeds)
        while place.stage is not Stage.END:
            for page, place in self._steps(api, place, feeds, request.since):  # noqa: B020 - goes on from the last one
                yield page
        yield Page(cursor=place.to_json(), seen_until=place.held or place.end, complete=place.whole)

    def _steps(self, api: NvdApi, place: Place, feeds: Feeds, since: str) -> Iterator[tuple[Page, Place]]:
        if place.stage is Stage.ALL:
            return self._all(api, place, feeds)
        if place.stage is Stage.CHANGED:
            return self._changed(api, place, feeds)
        return self._again(api, place, feeds, since)

    def _begun(self, api: NvdApi, since: str, place: Place, feeds: Feeds) -> Place:
        """Where a new pull begins. If most CVEs would be read again one by one, all are listed instead."""
        if not since or self.options.filters:
            return replace(place, stage=Stage.ALL, whole=True)
        now = api.now()
        if len(self._ids_again(since, feeds)) * MAX_RECORDS > now.total * MAX_IDS:
            return replace(place, stage=Stage.ALL, whole=True)
        start = (_time(since) - OVERLAP).isoformat()
        return replace(place, stage=Stage.CHANGED, start=start, end=now.moment)

    # -- stages

    def _all(self, api: NvdApi, place: Place, feeds: Feeds) -> Iterator[tuple[Page, Place]]:
        """Every record; then those that changed meanwhile."""
        query = dict(parse_qsl("&".join(self.options.filters), keep_blank_values=True))
        after = replace(place, stage=Stage.END if query else Stage.CHANGED)
        for page, place in self._listed(api, query, place, feeds):  # noqa: B020
            yield page, place
            began = place.start or place.end
            after = replace(after, start=began, end=place.end)
        start = (_time(after.start) - OVERLAP).isoformat() if after.start else ""
        yield _moved(Page(), replace(after, start=start, index=0, total=0))

    def _changed(self, api: NvdApi, place: Place, feeds: Feeds) -> Iterator[tuple[Page, Place]]:
        """What changed from `start` to `end`, range by range."""
        end = _time(place.end)
        while (start := _time(place.start)) < end:
            until = min(start + MAX_RANGE, end)
            for page, place in self._listed(api, changed_within(start, until), place, feeds):  # noqa: B020
                yield page, replace(place, end=end.isoformat())
            held = place.held
            if not place.total and until - start > QUIET:
                held = held or start.isoformat()
            place = replace(place, start=until.isoformat(), end=end.isoformat(), index=0, total=0, held=held)
        yield _moved(Page(), replace(place, stage=Stage.END if place.whole else Stage.AGAIN))

    def _again(self, api: NvdApi, place: Place, feeds: Feeds, since: str) -> Iterator[tuple[Page, Place]]:
        """The records whose mark or estimate changed, by id."""
        ids = [name for name in sorted(self._ids_again(since, feeds)) if name > place.after]
        for at in range(0, len(ids), MAX_IDS):
            some = ids[at : at + MAX_IDS]
            place = replace(place, after=some[-1])
            yield _moved(_page(api.named(some).found, feeds), place)
        yield _moved(Page(), replace(place, stage=Stage.END))

    def _ids_again(self, since: str, feeds: Feeds) -> frozenset[str]:
        return feeds.kev.ids_changed_since(since) | self._ids_estimated_anew(since, feeds.epss)

    def _ids_estimated_anew(self, since: str, current: Estimates) -> frozenset[str]:
        """CVEs in another band than the last pull may have seen: it used the estimates of its day, or of one of the days
        before. Without a file of these days, all."""
        if not current.date or "current" not in self.options.epss_url:
            return frozenset()
        days = [(_time(since) - timedelta(days=days)).date().isoformat() for days in range(_DAYS_BEFORE)]
        earlier = [found for day in days if day < current.date and (found := self._epss(day)).date]
        return current.ids_changed_from(earlier or [Estimates()]) if min(days) < current.date else frozenset()

    # -- listings

    def _listed(
        self, api: NvdApi, query: Mapping[str, str], place: Place, feeds: Feeds
    ) -> Iterator[tuple[Page, Place]]:
        """The records of a query from `place.index` on. Positions shift when a record leaves the listing, as one does that
        is changed again while its range is read: then what may have been skipped is read, too."""
        while True:
            records = api.records(query, at=place.index)
            if records.total < place.total:
                step = place.total - records.total
                place = replace(place, total=records.total, index=max(0, place.index - step))
                continue
            began = place.start or records.moment
            place = replace(place, total=records.total, start=began, end=records.moment)
            if not records.found and place.index < records.total:
                raise SourceUnavailableError(f"NVD: no records at {place.index:,} of {records.total:,}")
            for at in range(0, len(records.found), PAGE_RECORDS):
                some = records.found[at : at + PAGE_RECORDS]
                place = replace(place, index=place.index + len(some))
                yield _moved(_page(some, feeds), place)
            if place.index >= records.total:
                if not records.found:
                    yield _moved(Page(), place)
                return

    # -- feeds

    def _api(self) -> NvdApi:
        name = self.options.api_key_secret
        return NvdApi(self.web, self.options.base_url, self.secrets.get(name) if name else "")

    def _kev(self) -> KevCatalogue:
        if not self.options.kev_url:
            return KevCatalogue()
        reply = self.web.get(self.options.kev_url)
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: CISA's catalogue isn't there; set kev_url", reply.status)
        return parse_kev(reply.json())

    def _epss(self, day: str) -> Estimates:
        """The estimates of a day, none if there is no file of it; or the current ones."""
        if not self.options.epss_url:
            return Estimates()
        reply = self.web.get(self.options.epss_url.replace("current", day))
        if not reply.gone:
            return parse_epss(reply.body)
        if day == "current":
            raise SourceRefusedError(f"{reply.url}: the EPSS file isn't there; set epss_url", reply.status)
        return Estimates()


def _page(records: list[Any], feeds: Feeds) -> Page:
    valid, withdrawn = [], []
    for record in records:
        try:
            rejected = is_rejected(record)
        except OddRecordError:
            rejected = False
        if rejected:
            withdrawn.append(cve_id(record))
        else:
            valid.append(record)

    def read(record: Any) -> SourceDocument:
        return cve_document(record, feeds)

    documents, refused = read_each(valid, read, _named, "NVD")
    return Page(documents=documents, refused=refused, withdrawn=tuple(withdrawn))


def _named(record: Any) -> str:
    try:
        return cve_id(record)
    except OddRecordError:
        return "a record without id"


def _moved(page: Page, place: Place) -> tuple[Page, Place]:
    return replace(page, cursor=place.to_json()), place


def _time(moment: str) -> datetime:
    found = datetime.fromisoformat(moment)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
