"""Vulnerabilities from NVD, with CISA's marks of known exploitation and FIRST's estimates of it.

A pull lists everything, or what NVD changed since the last one, in ranges of its own clock; then it reads again the CVEs
whose mark or estimate changed without their record. Decision 16 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import ceil
from urllib.parse import parse_qsl

from opx.domain.record import replace
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition
from opx.domain.times import iso_time
from opx.errors import SourceRefusedError, SourceUnavailableError
from opx.sources.connector import Connector, Options, SourceTools, Texts
from opx.sources.security.cve import Feeds
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
from opx.sources.security.nvd_listing import Step, listed, page_of
from opx.sources.security.nvd_place import Place, Stage, placed

OVERLAP = timedelta(hours=2)
"""NVD publishes changes every two hours ("CVEs and the NVD Process"): a record may show this long after its date."""

QUIET = timedelta(hours=12)
"""A longer range without any change is NVD's failing, which has happened, and is asked for again by the next pull."""

_DAYS = 3


class NvdOptions(Options, frozen=True):
    """`filters` are parameters of the API (`keywordSearch=nginx`, `cvssV3Severity=CRITICAL`, `hasKev=`); with any, each
    pull lists what they give, so that CVEs which don't match any more are withdrawn. An empty `kev_url` or `epss_url`
    does without that feed; one of EPSS has `current` where a date may stand."""

    api_key_secret: str = ""
    filters: Texts = ()
    base_url: str = API_URL
    kev_url: str = KEV_URL
    epss_url: str = EPSS_URL


class NvdConnector(Connector[NvdOptions]):
    """One document a CVE."""

    options_type = NvdOptions

    @classmethod
    def rate_limit(cls, options: NvdOptions) -> RateLimit | None:
        return KEY_RATE if options.api_key_secret else PUBLIC_RATE

    def __init__(self, definition: SourceDefinition, options: NvdOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._estimates: dict[str, Estimates] = {}

    def probe(self) -> None:
        self._api().now()
        if self.options.kev_url:
            self._kev()

    def pull(self, request: PullRequest) -> Iterator[Page]:
        api = self._api()
        place = placed(request.cursor)
        feeds = Feeds(self._kev(), self._epss_in_use(place.estimated))
        if place.stage is Stage.BEGIN:
            place = self._begun(api, request.since, Place(estimated=feeds.epss.date), feeds)
        while place.stage is not Stage.END:
            for page, reached in self._stage(api, place, feeds, request.since):
                place = reached
                yield replace(page, cursor=place.to_json())
        yield Page(cursor=place.to_json(), seen_until=place.held or place.end, complete=place.whole)

    def _begun(self, api: NvdApi, since: str, place: Place, feeds: Feeds) -> Place:
        """Where a new pull begins. If reading CVEs again by id takes more requests, all are listed instead."""
        if not since or self.options.filters:
            return replace(place, stage=Stage.ALL, whole=True)
        now = api.now()
        if ceil(len(self._ids_again(since, feeds)) / MAX_IDS) > ceil(now.total / MAX_RECORDS):
            return replace(place, stage=Stage.ALL, whole=True)
        return replace(place, stage=Stage.CHANGED, start=_before(since, OVERLAP), end=now.moment)

    # -- stages: each ends at the beginning of the next one

    def _stage(self, api: NvdApi, place: Place, feeds: Feeds, since: str) -> Iterator[Step]:
        if place.stage is Stage.ALL:
            return self._all(api, place, feeds)
        if place.stage is Stage.CHANGED:
            return self._changed(api, place, feeds)
        return self._again(api, place, feeds, since)

    def _all(self, api: NvdApi, place: Place, feeds: Feeds) -> Iterator[Step]:
        """Every record; what is changed meanwhile is read after it."""
        query = dict(parse_qsl("&".join(self.options.filters), keep_blank_values=True))
        began = place.start
        for page, reached in listed(api, query, place, feeds):
            began = began or reached.now
            place = replace(reached, start=began)
            yield page, place
        if not (query or place.total):
            raise SourceUnavailableError("NVD lists no record at all")
        stage = Stage.END if query else Stage.CHANGED
        yield Page(), replace(place, stage=stage, start=_before(began, OVERLAP), end=place.now, index=0, total=0)

    def _changed(self, api: NvdApi, place: Place, feeds: Feeds) -> Iterator[Step]:
        """What was changed from `start` to `end`, range by range."""
        end = _time(place.end)
        while (start := _time(place.start)) < end:
            until = min(start + MAX_RANGE, end)
            for page, reached in listed(api, changed_within(start, until), place, feeds):
                place = reached
                yield page, place
            empty = not place.total and until - start > QUIET
            held = place.held or (iso_time(start.timestamp()) if empty else "")
            place = replace(place, start=iso_time(until.timestamp()), index=0, total=0, held=held)
        yield Page(), replace(place, stage=Stage.END if place.whole else Stage.AGAIN)

    def _again(self, api: NvdApi, place: Place, feeds: Feeds, since: str) -> Iterator[Step]:
        """The records whose mark or estimate changed, by id."""
        ids = [name for name in sorted(self._ids_again(since, feeds)) if name > place.after]
        for at in range(0, len(ids), MAX_IDS):
            some = ids[at : at + MAX_IDS]
            place = replace(place, after=some[-1])
            yield page_of(api.named(some).found, feeds), place
        yield Page(), replace(place, stage=Stage.END)

    # -- feeds

    def _ids_again(self, since: str, feeds: Feeds) -> frozenset[str]:
        return feeds.kev.ids_changed_since(since) | self._ids_estimated_anew(since, feeds.epss)

    def _ids_estimated_anew(self, since: str, current: Estimates) -> frozenset[str]:
        """CVEs in another band than the last pull may have seen: it used the file of its day, or of one of the two days
        before. If none of these files is there any more, all CVEs."""
        if "current" not in self.options.epss_url:
            return frozenset()
        days = [_before(since, timedelta(days=days))[:10] for days in range(_DAYS)]
        earlier = [day for day in days if day < current.date]
        files = [found for day in earlier if (found := self._epss(day)).date]
        return current.ids_changed_from(files or [Estimates()]) if earlier else frozenset()

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

    def _epss_in_use(self, day: str) -> Estimates:
        """The estimates of the day that the pull began with, or the current ones."""
        if not self.options.epss_url:
            return Estimates()
        found = self._epss(day) if day else Estimates()
        if not found.date and not (found := self._epss("current")).date:
            raise SourceRefusedError(f"{self.options.epss_url}: the EPSS file isn't there; set epss_url")
        return found

    def _epss(self, day: str) -> Estimates:
        """The estimates of a day, none if there is no file of it."""
        if day not in self._estimates:
            reply = self.web.get(self.options.epss_url.replace("current", day))
            self._estimates[day] = Estimates() if reply.gone else parse_epss(reply.body)
        return self._estimates[day]


def _time(moment: str) -> datetime:
    found = datetime.fromisoformat(moment)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _before(moment: str, by: timedelta) -> str:
    return iso_time((_time(moment) - by).timestamp())
