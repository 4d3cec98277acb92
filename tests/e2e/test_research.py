"""Research on a real embedded system: a topic of two parts, of which no document answers both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.domain.queries import QueryConfig, SearchMode
from opx.operations.system import System
from opx_web.reports import Stopped
from opx_web.research.researcher import Researchers
from tests.support.agent_calls import a_system

DISKS = {
    f"documents/runbooks/disk-{host}.md": f"# Disk full on the {host} host\n\nThe disk of the {host} host is full of logs. "
    f"Find the {host} logs that fill the disk and delete them."
    for host in ("database", "web", "mail", "build")
}
CERTIFICATE = "documents/runbooks/certificate.md"
OTHERS = {
    CERTIFICATE: "# Renew a certificate\n\nThe TLS certificate has expired. Renew it with the certificate tool.",
    "documents/runbooks/dns.md": "# Name lookups time out\n\nCheck the resolver and its forwarders.",
    "documents/runbooks/cpu.md": "# High load\n\nLook at top and restart the worker that spins.",
}
TOPIC = "the disk of the database host is full of logs that fill the disk, and an expired certificate to renew"
SURE = QueryConfig(min_confidence=0.5, mode=SearchMode.THOROUGH)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), {**DISKS, **OTHERS}) as system:
        yield system


def test_both_parts_are_found_where_one_search_is_not_sure_of_both(services: System) -> None:
    both = {"Disk full on the database host", "Renew a certificate"}
    assert not both <= {result.title for result in services.questions.for_reader().query(TOPIC, SURE)}
    report = services.part(Researchers).of().research_topic(TOPIC, config=SURE)
    assert both <= {finding.title for finding in report.findings}
    assert (report.stopped_because, report.gaps, report.partial) == (Stopped.ENOUGH, (), False)


def test_the_same_corpus_gives_the_same_report(services: System) -> None:
    def seen() -> object:
        report = services.part(Researchers).of().research_topic(TOPIC + " and quantum llamas", 4)
        steps = [(step.text, step.why, step.results, step.new, step.best_confidence) for step in report.trace]
        return report.findings, steps, report.gaps, report.nearest

    assert seen() == seen()
