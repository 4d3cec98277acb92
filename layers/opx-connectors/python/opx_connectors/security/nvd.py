"""Pulls vulnerabilities from NVD, with CISA's marks of known exploitation and FIRST's estimates of it.

A pull lists everything, or the records that NVD changed since the last one, in ranges of its own clock; then it reads
again the CVEs whose mark or estimate changed without their record. Decision 16 has the reasons.

Source of names and limits: NVD, "Vulnerabilities" and "Start Here" (developers' pages): 2,000 records a reply, date
ranges of 120 days, 5 requests in 30 seconds without an API key and 50 with one, and pauses of 6 seconds recommended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Annotated, Any
from urllib.parse import parse_qsl

from msgspec import Meta

from opx.connectors.connector import Connector, Options, SourceTools, Texts, read_each
from opx.domain.ids import iso_time
from opx.domain.record import about, replace
from opx.domain.sources import Cursor, Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.data.replies import Filled, Loose, OddRecordError, Shape, shaped, utc
from opx.ports.sources import WebClient
from opx_connectors.security.cve import Feeds, cve_document
from opx_connectors.security.exploitation import EPSS_URL, KEV_URL, Estimates, KevCatalogue, parse_epss, parse_kev


class NvdPhase(StrEnum):
    """The stages of a pull, in this order."""

    BEGIN = "begin"
    ALL = "all"
    """List every record."""
    CHANGED = "changed"
    """List the records that were changed in a range of time."""
    AGAIN = "again"
    """Read again the records whose mark or estimate changed, by id."""
    END = "end"


@dataclass(frozen=True, slots=True)
class NvdPosition:
    """Position of a pull. `index` and `total` are of the current listing. `start` and `end` are the range still to be read,
    or in `ALL` the time at which it began. `now` is NVD's clock at the last request; `held` the time up to which changes
    are certain, if that is not `end`; `estimated` the day of the EPSS file in use; `after` the last id that was read
    again. `whole`: the pull lists every record."""

    stage: NvdPhase = NvdPhase.BEGIN
    index: int = 0
    total: int = 0
    start: str = ""
    end: str = ""
    now: str = ""
    held: str = ""
    estimated: str = ""
    after: str = ""
    whole: bool = False

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def position_of(cursor: Cursor) -> NvdPosition:
    """Returns the position of a cursor, which may be from before an upgrade: unknown fields are left out."""
    known = {each.name: cursor[each.name] for each in fields(NvdPosition) if each.name in cursor}
    return NvdPosition(**{**known, "stage": NvdPhase(cursor.get("stage", NvdPhase.BEGIN))})


API_URL = "https://services.nvd.nist.gov/rest/json/cves/2.0"
MAX_RECORDS = 2_000
MAX_RANGE = timedelta(days=119)
"""A day less than allowed, as NVD doesn't document how it counts partial days."""

MAX_IDS = 100
PUBLIC_RATE = RateLimit(1, 6.0)
KEY_RATE = RateLimit(1, 0.7)
"""Evenly spaced, as bursts within the limit are refused, too; a little below 50 in 30 seconds, for network delays."""

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
    """Requests to NVD's API, with the key if there is one."""

    def __init__(self, web: WebClient, url: str, key: str) -> None:
        self._web = web
        self._url = url
        self._headers = {"apiKey": key} if key else {}

    def now(self) -> Records:
        """Requests one record, for the number of all records and NVD's time."""
        return self.records({}, at=0, limit=1)

    def records(self, query: Mapping[str, str], *, at: int, limit: int = MAX_RECORDS) -> Records:
        """Returns the records from a position on. Raises `SourceUnavailableError`, `SourceRefusedError`, or
        `SourceShapeError`."""
        return self._request({**query, "resultsPerPage": limit, "startIndex": at})

    def named(self, ids: list[str]) -> Records:
        """Returns the records with these ids, at most `MAX_IDS`; those that NVD doesn't have are left out."""
        return self._request({"cveIds": ",".join(ids)})

    def _request(self, query: Mapping[str, str | int]) -> Records:
        try:
            reply = self._web.get(self._url, query=query, headers=self._headers, limit=_MAX_BYTES)
        except SourceRefusedError as exc:
            if exc.status != 403:
                raise
            raise SourceUnavailableError("NVD: too many requests from this address", _BUSY_SECONDS) from exc
        if reply.gone:
            why = reply.headers.get("message", "") or "no reason given"
            raise SourceRefusedError(f"NVD refuses the request: {why[:200]}", reply.status)
        found = shaped(_Reply, reply.json(), "NVD")
        try:
            return Records(found.total_results, utc(found.timestamp, "timestamp"), found.vulnerabilities)
        except OddRecordError as exc:
            raise SourceShapeError(f"NVD: {exc} in the reply") from exc


def changed_within(start: datetime, end: datetime) -> dict[str, str]:
    """Query for records that were changed last in a range. The zone is needed, though it is documented as optional."""
    return {"lastModStartDate": _written(start), "lastModEndDate": _written(end)}


def _written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z")


PAGE_RECORDS = 500


class _Mark(Shape, frozen=True, rename="camel"):
    id: Loose[str] = ""
    vuln_status: Loose[str] = ""


class _Marked(Shape, frozen=True):
    """The part of a record with its id and status, if it has them."""

    cve: Loose[_Mark] = _Mark()


Step = tuple[Page, NvdPosition]
"""A page and the position behind it."""


def listed(api: NvdApi, query: Mapping[str, str], position: NvdPosition, feeds: Feeds) -> Iterator[Step]:
    """Returns the records of a query from `position.index` on, at least one page. Positions shift when a record leaves the
    listing, because it was changed again while its range is read: then records that may have been skipped are read, too."""
    while True:
        records = api.records(query, at=position.index)
        left = position.total - records.total
        position = replace(position, total=records.total, now=records.moment)
        if left > 0:
            position = replace(position, index=max(0, position.index - left))
            continue
        if not records.found and position.index < position.total:
            raise SourceUnavailableError(f"NVD: no records at {position.index:,} of {position.total:,}")
        for at in range(0, max(1, len(records.found)), PAGE_RECORDS):
            some = records.found[at : at + PAGE_RECORDS]
            position = replace(position, index=position.index + len(some))
            yield page_of(some, feeds), position
        if position.index >= position.total:
            return


def page_of(records: list[Any], feeds: Feeds) -> Page:
    """Converts records to documents; rejected CVEs are withdrawn."""
    rejected = {id(record): _named(record) for record in records if _mark(record).vuln_status == "Rejected"}

    def read(record: Any) -> SourceDocument:
        return cve_document(record, feeds)

    batch = read_each((record for record in records if id(record) not in rejected), read, _named, "NVD")
    batch.withdrawn += rejected.values()
    return batch.page()


def _named(record: Any) -> str:
    return _mark(record).id or "a record without id"


def _mark(record: Any) -> _Mark:
    return shaped(_Marked, record if isinstance(record, dict) else {}).cve


OVERLAP = timedelta(hours=2)
"""NVD publishes changes every two hours ("CVEs and the NVD Process"): a record may show this long after its date."""

QUIET = timedelta(hours=12)
"""A longer range without any change is an error of NVD's, which has happened; the next pull requests it again."""

_DAYS = 3


class NvdOptions(Options, frozen=True):
    """Selection of CVEs, and the feeds that are joined with them."""

    api_key_secret: Annotated[str, about("The name of the secret with a key of the API, for more requests.")] = ""
    filters: Annotated[
        Texts,
        about(
            "Parameters of the API, such as keywordSearch=nginx, cvssV3Severity=CRITICAL or hasKev=. "
            "With any, each pull lists all CVEs that match, and those that don't match any more are "
            "withdrawn."
        ),
    ] = ()
    base_url: Annotated[str, about("The address of the API.")] = API_URL
    kev_url: Annotated[str, about("The address of the known exploited vulnerabilities; empty for none.")] = KEV_URL
    epss_url: Annotated[
        str,
        about("The address of the scores of EPSS, with `current` in the position of a date; empty for none."),
    ] = EPSS_URL


class NvdConnector(Connector[NvdOptions]):
    """Pulls one document per CVE."""

    about = "CVEs of the NVD, joined with CISA's known exploited ones and EPSS"

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
        position = position_of(request.cursor)
        feeds = Feeds(self._kev(), self._epss_in_use(position.estimated))
        if position.stage is NvdPhase.BEGIN:
            position = self._begun(api, request.since, NvdPosition(estimated=feeds.epss.date), feeds)
        while position.stage is not NvdPhase.END:
            for page, reached in self._stage(api, position, feeds, request.since):
                position = reached
                yield replace(page, cursor=position.to_json())
        yield Page(cursor=position.to_json(), seen_until=position.held or position.end, complete=position.whole)

    def _begun(self, api: NvdApi, since: str, position: NvdPosition, feeds: Feeds) -> NvdPosition:
        """Returns the position of a new pull. If reading CVEs again by id takes more requests, all are listed instead."""
        if not since or self.options.filters:
            return replace(position, stage=NvdPhase.ALL, whole=True)
        now = api.now()
        if ceil(len(self._ids_again(since, feeds)) / MAX_IDS) > ceil(now.total / MAX_RECORDS):
            return replace(position, stage=NvdPhase.ALL, whole=True)
        return replace(position, stage=NvdPhase.CHANGED, start=_before(since, OVERLAP), end=now.moment)

    # -- stages: each ends at the beginning of the next one

    def _stage(self, api: NvdApi, position: NvdPosition, feeds: Feeds, since: str) -> Iterator[Step]:
        if position.stage is NvdPhase.ALL:
            return self._all(api, position, feeds)
        if position.stage is NvdPhase.CHANGED:
            return self._changed(api, position, feeds)
        return self._again(api, position, feeds, since)

    def _all(self, api: NvdApi, position: NvdPosition, feeds: Feeds) -> Iterator[Step]:
        """Lists every record; those that are changed meanwhile are read afterwards."""
        query = dict(parse_qsl("&".join(self.options.filters), keep_blank_values=True))
        began = position.start
        for page, reached in listed(api, query, position, feeds):
            began = began or reached.now
            position = replace(reached, start=began)
            yield page, position
        if not (query or position.total):
            raise SourceUnavailableError("NVD lists no record at all")
        stage = NvdPhase.END if query else NvdPhase.CHANGED
        yield Page(), replace(position, stage=stage, start=_before(began, OVERLAP), end=position.now, index=0, total=0)

    def _changed(self, api: NvdApi, position: NvdPosition, feeds: Feeds) -> Iterator[Step]:
        """Lists the records that were changed from `start` to `end`, range by range."""
        end = _time(position.end)
        while (start := _time(position.start)) < end:
            until = min(start + MAX_RANGE, end)
            for page, reached in listed(api, changed_within(start, until), position, feeds):
                position = reached
                yield page, position
            empty = not position.total and until - start > QUIET
            held = position.held or (iso_time(start.timestamp()) if empty else "")
            position = replace(position, start=iso_time(until.timestamp()), index=0, total=0, held=held)
        yield Page(), replace(position, stage=NvdPhase.END if position.whole else NvdPhase.AGAIN)

    def _again(self, api: NvdApi, position: NvdPosition, feeds: Feeds, since: str) -> Iterator[Step]:
        """Reads the records whose mark or estimate changed, by id."""
        ids = [name for name in sorted(self._ids_again(since, feeds)) if name > position.after]
        for at in range(0, len(ids), MAX_IDS):
            some = ids[at : at + MAX_IDS]
            position = replace(position, after=some[-1])
            yield page_of(api.named(some).found, feeds), position
        yield Page(), replace(position, stage=NvdPhase.END)

    # -- feeds

    def _ids_again(self, since: str, feeds: Feeds) -> frozenset[str]:
        return feeds.kev.ids_changed_since(since) | self._ids_estimated_anew(since, feeds.epss)

    def _ids_estimated_anew(self, since: str, current: Estimates) -> frozenset[str]:
        """Returns the CVEs in another band than the last pull may have seen: it used the file of its day, or of one of the
        two days before. If none of these files is there any more, all CVEs."""
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
            raise SourceRefusedError(f"{reply.url}: CISA's catalogue was not found; set kev_url", reply.status)
        return parse_kev(reply.json())

    def _epss_in_use(self, day: str) -> Estimates:
        """Returns the estimates of the day that the pull began with, or the current ones."""
        if not self.options.epss_url:
            return Estimates()
        found = self._epss(day) if day else Estimates()
        if not found.date and not (found := self._epss("current")).date:
            raise SourceRefusedError(f"{self.options.epss_url}: the EPSS file was not found; set epss_url")
        return found

    def _epss(self, day: str) -> Estimates:
        """Returns the estimates of a day, none if there is no file of it."""
        if day not in self._estimates:
            reply = self.web.get(self.options.epss_url.replace("current", day))
            self._estimates[day] = Estimates() if reply.gone else parse_epss(reply.body)
        return self._estimates[day]


def _time(moment: str) -> datetime:
    found = datetime.fromisoformat(moment)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _before(moment: str, by: timedelta) -> str:
    return iso_time((_time(moment) - by).timestamp())
