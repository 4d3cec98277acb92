"""Pulls of NVD: everything, what changed, what others say of a CVE, and what goes wrong."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx_testing.fake_time import FakeTime
from tests.doubles.misbehaving_site import Answer, MisbehavingSite, a_web
from tests.doubles.nvd_api import NvdDouble
from tests.support.feed_support import Corpus, a_connector

SINCE = "2026-02-28T12:00:00Z"


@pytest.fixture
def nvd(site: MisbehavingSite) -> NvdDouble:
    return NvdDouble(site)


def connector(nvd: NvdDouble, web: HttpWeb, **options: Any) -> Connector[Any]:
    return a_connector("nvd", web, {**nvd.options, **options}, secret="the-key")


def seven(nvd: NvdDouble) -> list[str]:
    ids = [f"CVE-2026-{number:04d}" for number in range(1, 8)]
    for name in ids:
        nvd.put(name)
    nvd.most = 3
    return ids


# -- everything


def test_first_pull_reads_every_record_and_is_complete(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = seven(nvd)
    corpus = Corpus().pull(connector(nvd, web))
    assert list(corpus.documents) == ids
    assert corpus.last.complete
    assert "lastModStartDate" not in nvd.listings[0]


def test_next_pull_requests_changes_by_nvds_clock(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001")
    nvd.now = "2026-03-01T12:00:00.000"
    corpus = Corpus().pull(connector(nvd, web))
    assert corpus.last.seen_until == "2026-03-01T12:00:00Z"


def test_record_changed_while_everything_is_read_ends_in_its_newest_state(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = seven(nvd)

    def change(parameters: dict[str, str]) -> None:
        if parameters["startIndex"] == "3":
            nvd.now = "2026-03-01T13:00:00.000"
            new = [{"lang": "en", "value": "Rewritten."}]
            nvd.put(ids[0], changed="2026-03-01T12:30:00.000", descriptions=new)

    nvd.before = change
    corpus = Corpus().pull(connector(nvd, web))
    assert "Rewritten." in corpus.text(ids[0])
    assert corpus.last.seen_until == "2026-03-01T13:00:00Z"


def test_records_added_while_everything_is_read_are_found(nvd: NvdDouble, web: HttpWeb) -> None:
    seven(nvd)
    nvd.before = lambda parameters: nvd.put("CVE-2026-9999") if parameters["startIndex"] == "3" else None
    assert "CVE-2026-9999" in Corpus().pull(connector(nvd, web)).documents


def test_listing_that_shrinks_skips_nothing(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = seven(nvd)
    nvd.before = lambda parameters: nvd.records.pop(ids[0], None) if parameters["startIndex"] == "3" else None
    assert set(ids[1:]) <= set(Corpus().pull(connector(nvd, web)).documents)


def test_empty_listing_of_everything_is_no_empty_catalogue(nvd: NvdDouble, web: HttpWeb) -> None:
    with pytest.raises(SourceUnavailableError, match="no record at all"):
        Corpus().pull(connector(nvd, web))


def test_page_without_records_in_the_middle_is_refused(nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    seven(nvd)
    connected = connector(nvd, web)
    nvd.before = lambda parameters: setattr(nvd, "most", 0) if parameters["startIndex"] == "3" else None
    with pytest.raises(SourceUnavailableError, match="no records at 3 of 7"):
        Corpus().pull(connected)


@pytest.mark.parametrize("after", range(1, 7))
def test_pull_resumes_where_it_was_interrupted(
    nvd: NvdDouble, web: HttpWeb, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("opx_connectors.security.nvd.PAGE_RECORDS", 2)
    ids = seven(nvd)
    corpus = Corpus()
    cursor = corpus.interrupted(connector(nvd, web), after=after)
    assert len(json.dumps(cursor)) < 4096
    before = len(corpus.put)
    nvd.listings.clear()
    corpus.pull(connector(nvd, web), cursor=cursor)
    assert sorted(corpus.documents) == ids
    assert corpus.last.complete
    assert before == 0 or nvd.listings[0].get("startIndex") != "0" or "lastModStartDate" in nvd.listings[0]


# -- changes


def test_pull_of_changes_reads_those_alone(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001", changed="2026-01-02T00:00:00.000")
    nvd.put("CVE-2026-0002", changed="2026-03-01T00:00:00.000")
    corpus = Corpus().pull(connector(nvd, web), SINCE)
    assert list(corpus.documents) == ["CVE-2026-0002"]
    assert not corpus.last.complete


def test_change_that_shows_late_is_found_by_the_next_pull(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001", changed="2026-02-28T10:30:00.000")
    assert "CVE-2026-0001" in Corpus().pull(connector(nvd, web), SINCE).documents


def test_our_clock_does_not_matter(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001", changed="2026-03-01T11:59:00.000")
    wrong = FakeTime(now=0.0)
    corpus = Corpus().pull(a_connector("nvd", web, nvd.options, time=wrong), SINCE)
    assert list(corpus.documents) == ["CVE-2026-0001"]
    assert corpus.last.seen_until == "2026-03-01T12:00:00Z"


def test_long_absence_is_read_in_ranges_that_nvd_allows(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2025-0001", changed="2025-03-01T00:00:00.000")
    nvd.put("CVE-2025-0002", changed="2025-07-01T00:00:00.000")
    nvd.put("CVE-2025-0003", changed="2025-11-01T00:00:00.000")
    nvd.put("CVE-2025-0004", changed="2026-02-01T00:00:00.000")
    corpus = Corpus().pull(connector(nvd, web), "2025-02-01T00:00:00Z")
    assert list(corpus.documents) == [f"CVE-2025-000{number}" for number in (1, 2, 3, 4)]
    ranges = [
        (listing["lastModStartDate"], listing["lastModEndDate"]) for listing in nvd.listings if "cveIds" not in listing
    ]
    assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]


def test_record_changed_again_while_its_range_is_read_does_not_hide_another(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = [f"CVE-2026-{number:04d}" for number in range(1, 8)]
    for name in ids:
        nvd.put(name, changed="2026-03-01T00:00:00.000")
    nvd.most = 3

    def change(parameters: dict[str, str]) -> None:
        if parameters["startIndex"] == "3":
            nvd.put(ids[0], changed="2026-03-02T00:00:00.000")

    nvd.before = change
    assert set(Corpus().pull(connector(nvd, web), SINCE).documents) == set(ids)


def test_long_range_without_changes_is_requested_again(nvd: NvdDouble, web: HttpWeb) -> None:
    corpus = Corpus().pull(connector(nvd, web), SINCE)
    assert corpus.last.seen_until == "2026-02-28T10:00:00Z"


def test_short_range_without_changes_is_believed(nvd: NvdDouble, web: HttpWeb) -> None:
    corpus = Corpus().pull(connector(nvd, web), "2026-03-01T11:00:00Z")
    assert corpus.last.seen_until == "2026-03-01T12:00:00Z"


def test_rejected_record_is_withdrawn(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001", changed="2026-03-01T00:00:00.000", vulnStatus="Rejected", descriptions=[])
    assert Corpus().pull(connector(nvd, web), SINCE).withdrawn == ["CVE-2026-0001"]


def test_with_filters_every_pull_lists_all_that_match(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001", descriptions=[{"lang": "en", "value": "A flaw in nginx."}])
    nvd.put("CVE-2026-0002")
    corpus = Corpus().pull(connector(nvd, web, filters=["keywordSearch=nginx"]), SINCE)
    assert list(corpus.documents) == ["CVE-2026-0001"]
    assert corpus.last.complete


# -- marks and estimates


def test_cve_newly_known_to_be_exploited_is_read_again(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001")
    nvd.put("CVE-2026-0002")
    corpus = Corpus().pull(connector(nvd, web))
    assert corpus.documents["CVE-2026-0001"].metadata["tags"] == []
    nvd.kev({"cveID": "CVE-2026-0001", "knownRansomwareCampaignUse": "Known"}, released="2026-03-01T15:00:00.123Z")
    nvd.now = "2026-03-02T12:00:00.000"
    corpus.put.clear()
    corpus.pull(connector(nvd, web), corpus.last.seen_until)
    assert corpus.put == ["CVE-2026-0001"]
    assert corpus.documents["CVE-2026-0001"].metadata["tags"] == ["kev", "ransomware"]
    assert "since 2026-02-20" in corpus.text("CVE-2026-0001")


def test_catalogue_that_was_not_published_anew_costs_no_requests(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001")
    nvd.kev({"cveID": "CVE-2026-0001"}, released="2026-01-01T15:00:00.0Z")
    Corpus().pull(connector(nvd, web), SINCE)
    assert not [listing for listing in nvd.listings if "cveIds" in listing]


def a_day_later(nvd: NvdDouble, corpus: Corpus, scores: dict[str, tuple[float, float]]) -> str:
    nvd.epss(scores, date="2026-03-01")
    nvd.now = "2026-03-02T12:00:00.000"
    corpus.put.clear()
    return corpus.last.seen_until


def test_estimate_in_another_band_is_read_again(nvd: NvdDouble, web: HttpWeb) -> None:
    for number in range(30):
        nvd.put(f"CVE-2026-{number:04d}")
    nvd.epss({"CVE-2026-0001": (0.2, 0.96), "CVE-2026-0002": (0.2, 0.96)})
    corpus = Corpus().pull(connector(nvd, web))
    assert "probability 10 % to 25 %, percentile 95 to 99" in corpus.text("CVE-2026-0001")
    since = a_day_later(nvd, corpus, {"CVE-2026-0001": (0.3, 0.97), "CVE-2026-0002": (0.21, 0.961)})
    corpus.pull(connector(nvd, web), since)
    assert corpus.put == ["CVE-2026-0001"]
    assert "probability 25 % to 50 %" in corpus.text("CVE-2026-0001")


def test_estimate_within_its_band_rewrites_nothing(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001")
    nvd.epss({"CVE-2026-0001": (0.2, 0.96)})
    corpus = Corpus().pull(connector(nvd, web))
    since = a_day_later(nvd, corpus, {"CVE-2026-0001": (0.24, 0.98)})
    corpus.pull(connector(nvd, web), since)
    assert corpus.put == []


def test_without_the_earlier_estimates_everything_is_read_again(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = seven(nvd)
    nvd.most = 2000
    nvd.epss(dict.fromkeys(ids, (0.2, 0.96)), date="2026-04-30")
    nvd.site.remove("/epss_scores-2026-02-28.csv.gz")
    nvd.site.remove("/epss_scores-2026-02-27.csv.gz")
    assert sorted(Corpus().pull(connector(nvd, web), SINCE).documents) == ids


def test_if_most_estimates_change_all_records_are_listed_instead(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = [f"CVE-2026-{number:04d}" for number in range(250)]
    for name in ids:
        nvd.put(name)
    nvd.epss(dict.fromkeys(ids, (0.2, 0.96)), date="2026-03-01")
    corpus = Corpus().pull(connector(nvd, web), SINCE)
    assert list(corpus.documents) == ids
    assert not [listing for listing in nvd.listings if "cveIds" in listing]
    assert corpus.last.complete


def test_interrupted_pull_resumes_with_the_estimates_it_began_with(
    nvd: NvdDouble, web: HttpWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opx_connectors.security.nvd.PAGE_RECORDS", 2)
    ids = seven(nvd)
    nvd.epss(dict.fromkeys(ids, (0.2, 0.96)), date="2026-02-28")
    corpus = Corpus()
    cursor = corpus.interrupted(connector(nvd, web), after=1)
    nvd.epss(dict.fromkeys(ids, (0.8, 0.96)), date="2026-03-01")
    corpus.pull(connector(nvd, web), cursor=cursor)
    assert all("10 % to 25 %" in corpus.text(name) for name in ids)


def test_interruption_while_records_are_read_again_repeats_no_batch(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = [f"CVE-2026-{number:04d}" for number in range(150)]
    for name in ids:
        nvd.put(name)
    for number in range(2000):
        nvd.put(f"CVE-2020-{number:04d}")
    nvd.kev(*({"cveID": name} for name in ids), released="2026-03-01T15:00:00Z")
    corpus = Corpus()
    cursor = corpus.interrupted(connector(nvd, web), after=3, since=SINCE)
    assert (cursor["stage"], cursor["after"]) == ("again", "CVE-2026-0099")
    nvd.listings.clear()
    corpus.pull(connector(nvd, web), SINCE, cursor=cursor)
    assert [listing["cveIds"].count(",") for listing in nvd.listings] == [49]
    assert set(corpus.documents) == set(ids)


def test_feeds_can_be_left_out(nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    nvd.put("CVE-2026-0001", cisaExploitAdd="2026-02-01", cisaVulnerabilityName="Flaw")
    corpus = Corpus().pull(connector(nvd, web, kev_url="", epss_url=""))
    assert corpus.documents["CVE-2026-0001"].metadata["tags"] == ["kev"]
    assert not site.request_count("/kev.json")


# -- what goes wrong


def test_key_is_sent_in_its_header_and_allows_more_requests(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.key = "the-key"
    nvd.put("CVE-2026-0001")
    keyed = connector(nvd, web, api_key_secret="secret")
    assert Corpus().pull(keyed).documents
    slow, quick = (type(keyed).rate_limit(each.options) for each in (connector(nvd, web), keyed))
    assert slow is not None
    assert quick is not None
    assert 30 / slow.seconds * slow.calls <= 5
    assert 40 < 30 / quick.seconds * quick.calls <= 50


def test_wrong_key_is_reported_with_nvds_message(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.key = "another"
    health = connector(nvd, web, api_key_secret="secret").check()
    assert not health.ok
    assert "Invalid apiKey." in health.reason


def test_well_source_is_found_well(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001")
    assert connector(nvd, web).check().ok


def test_missing_catalogue_makes_the_source_unwell(nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    site.remove("/kev.json")
    assert "kev_url" in connector(nvd, web).check().reason


def test_missing_estimates_end_the_pull_before_any_document(
    nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite
) -> None:
    nvd.put("CVE-2026-0001")
    site.remove("/epss_scores-current.csv.gz")
    with pytest.raises(SourceRefusedError, match="epss_url"):
        Corpus().pull(connector(nvd, web))


def test_403_of_the_firewall_is_worth_another_try(nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    nvd.put("CVE-2026-0001")
    site.fail("/cves", status=403)
    with pytest.raises(SourceUnavailableError) as caught:
        Corpus().pull(connector(nvd, web))
    assert caught.value.retry_after == 30


def test_429_is_retried_after_the_given_pause(nvd: NvdDouble, site: MisbehavingSite) -> None:
    nvd.put("CVE-2026-0001")
    time = FakeTime()
    site.fail("/cves", status=429, retry_after="7")
    with closing(a_web(site, time=time)) as web:
        assert Corpus().pull(connector(nvd, web)).documents
    assert 7 in time.slept


def test_json_that_ends_in_the_middle_is_not_read(nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    nvd.put("CVE-2026-0001")
    site.once("/cves", Answer(200, b'{"totalResults": 1, "vulnerabilities": [{"cve": {"id": "CVE-20'))
    with pytest.raises(SourceShapeError, match="not JSON"):
        Corpus().pull(connector(nvd, web))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"result": []}, "'vulnerabilities'"),
        ({"vulnerabilities": [], "timestamp": "2026-03-01T00:00:00"}, "'totalResults'"),
        ({"vulnerabilities": [], "totalResults": "1", "timestamp": "2026-03-01T00:00:00"}, "'totalResults'"),
        ({"vulnerabilities": [], "totalResults": 1}, "'timestamp'"),
    ],
)
def test_reply_of_another_shape_is_refused(
    nvd: NvdDouble, web: HttpWeb, site: MisbehavingSite, reply: Any, expected: str
) -> None:
    site.once("/cves", Answer(200, reply))
    with pytest.raises(SourceShapeError, match=expected):
        Corpus().pull(connector(nvd, web))


def test_odd_record_is_refused_and_the_others_are_read(nvd: NvdDouble, web: HttpWeb) -> None:
    nvd.put("CVE-2026-0001", descriptions=[])
    nvd.put("CVE-2026-0002")
    corpus = Corpus().pull(connector(nvd, web))
    assert list(corpus.documents) == ["CVE-2026-0002"]
    assert "English" in corpus.refused["CVE-2026-0001"]


def test_cursor_of_before_an_upgrade_is_taken_as_far_as_it_is_known(nvd: NvdDouble, web: HttpWeb) -> None:
    ids = seven(nvd)
    corpus = Corpus().pull(connector(nvd, web), cursor={"stage": "all", "index": 3, "whole": True, "older": 1})
    assert list(corpus.documents) == ids[3:]


def test_records_that_are_all_odd_mean_that_the_shape_changed(nvd: NvdDouble, web: HttpWeb) -> None:
    for name in seven(nvd):
        nvd.put(name, published=None)
    with pytest.raises(SourceShapeError, match="published"):
        Corpus().pull(connector(nvd, web))
