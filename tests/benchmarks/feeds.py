"""Feeds of realistic size for `source_speed`: NVD, ATT&CK and the RFC Editor, served by another process."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from opx.adapters.web import RateWindow, open_web
from opx.domain.sources import PullRequest, RateLimit, SourceDocument
from opx.ports.sources import WebReply
from opx_testing.fake_time import FakeTime
from tests.doubles.attack_bundles import a_link, a_tactic, a_technique, an_object, publish
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.doubles.nvd_api import NvdDouble, a_record
from tests.doubles.rfc_editor import RfcEditor
from tests.support.feed_support import a_connector

SENTENCE = "An attacker who can reach the management interface sends a crafted request and runs code as the service. "
ALL_CVES = 250_000
PAGE = 2_000


@dataclass(frozen=True, slots=True)
class FirstLoad:
    """A first pull of NVD: `waiting` hours for its rate limit, and our own share in seconds of CPU."""

    documents: int
    requests: int
    waiting_hours: float
    cpu_seconds: float


def nvd_documents() -> Iterator[SourceDocument]:
    """20,000 CVEs, in replies of 2,000."""
    yield from _fetched("nvd", {"base_url": "/cves", "kev_url": "/kev.json", "epss_url": "/epss_scores-current.csv.gz"})


def attack_documents() -> Iterator[SourceDocument]:
    """A bundle of 45 MB: 1,700 documents and 20,000 relationships."""
    yield from _fetched("attack", {"base_url": ""})


def rfc_documents() -> Iterator[SourceDocument]:
    """300 RFCs of 60 KB each, of an index of 9,800."""
    yield from _fetched("rfc", {"base_url": ""}, numbers=["1-300"])


def nvd_first_load(*, key: bool) -> FirstLoad:
    """Pulls all CVEs through the connector, from replies made here; time passes only while it waits for its rate limit."""
    fake = FakeTime()
    options = {"api_key_secret": "nvd"} if key else {}
    probe = a_connector("nvd", _Replies(fake, None), options, nvd="key")
    web = _Replies(fake, type(probe).rate_limit(probe.options))
    connector = a_connector("nvd", web, options, nvd="key")
    started = time.process_time()
    documents = sum(len(page.documents) for page in connector.pull(PullRequest()))
    cpu = time.process_time() - started - web.seconds
    return FirstLoad(documents, web.requests, fake.elapsed / 3600, cpu)


class _Replies:
    """A client whose replies are made here; `seconds` of CPU that took, which are not the connector's."""

    def __init__(self, fake: FakeTime, rate: RateLimit | None) -> None:
        self._window = RateWindow(rate, clock=fake.clock, sleep=fake.sleep)
        self.requests = 0
        self.seconds = 0.0

    def get(
        self,
        url: str,
        *,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        conditional: bool = False,
        limit: int = 0,
    ) -> WebReply:
        started = time.process_time()
        self._window.wait()
        self.requests += 1
        reply = WebReply(url, 200, {}, self._body(url, dict(query or {})))
        self.seconds += time.process_time() - started
        return reply

    def post(self, url: str, *, json: Any, headers: Mapping[str, str] | None = None, limit: int = 0) -> WebReply:
        raise AssertionError(f"{url}: nothing is posted")

    def _body(self, url: str, query: dict[str, str | int]) -> bytes:
        if "known_exploited" in url:
            return json.dumps({"dateReleased": "2026-01-01T00:00:00Z", "vulnerabilities": []}).encode()
        if "epss" in url:
            return _estimates(ALL_CVES)
        at = int(query["startIndex"]) if "lastModStartDate" not in query else ALL_CVES
        found = [a_large_record(number) for number in range(at, min(at + PAGE, ALL_CVES))]
        total = ALL_CVES if "lastModStartDate" not in query else 0
        return json.dumps(
            {"totalResults": total, "timestamp": "2026-03-01T12:00:00.000", "vulnerabilities": found}
        ).encode()


def a_large_record(number: int) -> dict[str, Any]:
    """A record of 7 KB, as analysed ones are."""
    metric = {
        "source": "nvd@nist.gov",
        "type": "Primary",
        "cvssData": {
            "baseScore": 9.8,
            "baseSeverity": "CRITICAL",
            "vectorString": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H",
        },
    }
    matches = [
        {
            "vulnerable": True,
            "criteria": f"cpe:2.3:o:vendor_{number % 97}:product_{each}:*:*:*:*:*:*:*:*",
            "versionStartIncluding": "7.0.0",
            "versionEndExcluding": f"7.{each}.14",
            "matchCriteriaId": "94C6FBEA-B8B8-4A92-9CAF-F4A125577C3C",
        }
        for each in range(16)
    ]
    return a_record(
        f"CVE-2020-{number:06d}",
        descriptions=[{"lang": "en", "value": SENTENCE * 4}, {"lang": "es", "value": SENTENCE * 4}],
        metrics={"cvssMetricV31": [metric, {**metric, "type": "Secondary", "source": "cna@example.org"}]},
        weaknesses=[{"source": "nvd@nist.gov", "description": [{"lang": "en", "value": "CWE-79"}]}],
        configurations=[{"nodes": [{"operator": "OR", "negate": False, "cpeMatch": matches}]}],
        references=[{"url": f"https://vendor.example/{number}/{each}", "tags": ["Patch"]} for each in range(6)],
    )


def _estimates(count: int) -> bytes:
    rows = "\n".join(f"CVE-2020-{number:06d},0.0{number % 1000:03d},0.{number % 100:02d}" for number in range(count))
    return gzip.compress(f"#score_date:2026-02-28T00:00:00Z\ncve,epss,percentile\n{rows}\n".encode(), 1)


# -- servers


def _fetched(kind: str, addresses: Mapping[str, str], **options: Any) -> Iterator[SourceDocument]:
    with _served(kind) as root, closing(open_web(allowed_hosts=(root.partition("//")[2],))) as web:
        yield from a_connector(
            kind, web, {**{name: root + path for name, path in addresses.items()}, **options}
        ).fetch()


@contextmanager
def _served(name: str) -> Iterator[str]:
    """The address of a site in another process."""
    command = [sys.executable, "-m", __name__, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def serve(name: str) -> None:
    """Serve until the other end of the input is closed."""
    with MisbehavingSite() as site:
        {"attack": _serve_attack, "nvd": _serve_nvd, "rfc": _serve_rfcs}[name](site)
        print(site.url(), flush=True)
        sys.stdin.read()


def _serve_nvd(site: MisbehavingSite) -> None:
    total = 20_000
    nvd = NvdDouble(site)
    bodies = {}
    for at in range(0, total, PAGE):
        found = [a_large_record(number) for number in range(at, at + PAGE)]
        reply = {"totalResults": total, "timestamp": "2026-03-01T12:00:00.000", "vulnerabilities": found}
        bodies[str(at)] = json.dumps(reply).encode()
    nothing = {"totalResults": 0, "timestamp": "2026-03-01T12:00:00.000", "vulnerabilities": []}

    def answer(request: Any) -> Answer:
        if "lastModStartDate" in request.parameters:
            return Answer(200, nothing)
        return Answer(200, bodies[request.parameters["startIndex"]], {"Content-Type": "application/json"})

    nvd.epss({f"CVE-2020-{number:06d}": (number % 100 / 100, 0.5) for number in range(total)})
    site.on("/cves", answer)


def _serve_attack(site: MisbehavingSite) -> None:
    tactic = a_tactic("TA0002", "Execution", "execution")
    techniques = [a_technique(f"T{number:04d}", "Technique", description=SENTENCE * 25) for number in range(1, 700)]
    users = [an_object("malware", f"S{number:04d}", "Software", description=SENTENCE * 8) for number in range(1, 800)]
    groups = [
        an_object("intrusion-set", f"G{number:04d}", "Group", description=SENTENCE * 8) for number in range(1, 170)
    ]
    helps = [an_object("course-of-action", f"M{number:04d}", "Mitigation") for number in range(1, 45)]
    citations = [
        {"source_name": f"Report {each}", "description": SENTENCE, "url": "https://example.org/" + "x" * 60}
        for each in range(8)
    ]
    links = []
    for number in range(20_000):
        user, technique = [*users, *groups][number % 960], techniques[(number * 7 + number // 960) % len(techniques)]
        links.append(a_link("uses", user, technique, SENTENCE * 2) | {"external_references": citations})
    links += [a_link("mitigates", helps[n % 44], technique, SENTENCE) for n, technique in enumerate(techniques)]
    publish(site, "enterprise", tactic, *techniques, *users, *groups, *helps, *links)


def _serve_rfcs(site: MisbehavingSite) -> None:
    editor = RfcEditor(site)
    paragraph = "\n".join(["   " + SENTENCE[:66]] * 5)
    chapters = "\n\n".join(f"{number}.  Chapter\n\n" + "\n\n".join([paragraph] * 12) for number in range(1, 14))
    for number in range(1, 9_801):
        editor.rfc(number, text=f"Abstract\n\n   Short.\n\n{chapters}\n" if number <= 300 else "")
    editor.publish()


if __name__ == "__main__":
    serve(sys.argv[1])
