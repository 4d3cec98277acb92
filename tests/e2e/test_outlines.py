"""Outlines are kept, moved, hidden and removed with the versions that they were made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.domain.procedures import Outline
from opx.domain.scopes import Identity, Reader, Scope
from opx.errors import DocumentNotFoundError
from opx.ingestion import prepared
from opx.ingestion.corpus.chunk_files import OUTLINE_SUFFIX
from opx.operations.system import System
from opx_assurance.archive.report import Fate
from opx_assurance.capability import assurance
from tests.e2e.systems import SystemUnderTest, created, key_of, outline_key
from tests.support.archive_support import services_at

RUNBOOK = "documents/runbooks/kafka-lag.md"
OWN = "clients/acme/documents/runbooks/kafka-lag.md"
STEPS = "# Kafka lag\n\n## Steps\n\n1. {}\n2. Page the team.\n"


class Died(BaseException):
    """The process is gone: nobody catches this."""


def ingest(system: SystemUnderTest, key: str, first: str = "Check the lag.") -> str:
    """Its document id."""
    system.put(key, STEPS.format(first))
    system.work()
    return system.document(key).document_id


def outlines(services: System, prefix: str = "") -> list[str]:
    return [info.key for info in services.store.list(prefix) if info.key.endswith(OUTLINE_SUFFIX)]


def titles(outline: Outline) -> list[str]:
    return [step.title for step in outline.steps]


def reader(system: SystemUnderTest, client: str) -> Reader:
    return system.services.corpus.projects.reader(Identity(client))


def forget_outlines(services: System) -> None:
    for name in outlines(services):
        services.store.delete(name)


class TestArchives:
    def test_outlines_are_exported_and_put_back(self, embedded: SystemUnderTest, tmp_path: Path) -> None:
        ingest(embedded, OWN, "Check the lag.")
        ingest(embedded, OWN, "Look at the lag.")
        embedded.services.part(assurance).exporter().write(tmp_path / "x")
        with services_at(tmp_path / "to") as other:
            assert other.part(assurance).importer().run(tmp_path / "x").documents == {Fate.RESTORED: 1}
            assert outlines(other) == outlines(embedded.services)
            for version in other.corpus.catalog.versions(key_of(OWN)):
                found = other.questions.documents.outline_of(version)
                assert found == embedded.services.questions.documents.outline_of(version)

    def test_archive_of_before_there_were_outlines_gets_them_from_its_chunks(
        self, embedded: SystemUnderTest, tmp_path: Path
    ) -> None:
        first = ingest(embedded, OWN)
        ingest(embedded, OWN, "Look at the lag.")
        old = next(version for version in embedded.versions(OWN) if version.document_id == first)
        kept = embedded.services.questions.documents.outline_of(old)
        forget_outlines(embedded.services)
        embedded.services.part(assurance).exporter().write(tmp_path / "x")
        with services_at(tmp_path / "to") as other:
            report = other.part(assurance).importer().run(tmp_path / "x")
            assert (report.notes, outlines(other, f"clients/acme/chunks/{first}")) == ([], [])
            put_back = next(one for one in other.corpus.catalog.versions(key_of(OWN)) if one.document_id == first)
            assert other.questions.documents.outline_of(put_back) == kept


class TestVersions:
    def test_each_version_has_the_outline_of_its_text(self, embedded: SystemUnderTest) -> None:
        ingest(embedded, RUNBOOK, "Check the lag.")
        ingest(embedded, RUNBOOK, "Look at the lag.")
        documents = embedded.services.questions.documents
        assert [titles(documents.outline_of(version))[0] for version in embedded.versions(RUNBOOK)] == [
            "Look at the lag.",
            "Check the lag.",
        ]

    def test_outline_that_is_missing_is_no_difference_and_is_made_from_the_chunks(
        self, embedded: SystemUnderTest
    ) -> None:
        ingest(embedded, RUNBOOK)
        documents = embedded.services.questions.documents
        before = documents.outline_of(embedded.document(RUNBOOK))
        forget_outlines(embedded.services)
        assert embedded.services.part(assurance).reconciler().run().differences == []
        assert documents.outline_of(embedded.document(RUNBOOK)) == before


class TestTenants:
    def test_outline_is_the_clients_own(self, embedded: SystemUnderTest) -> None:
        document_id = ingest(embedded, OWN)
        documents = embedded.services.questions.documents
        assert titles(documents.outline(reader(embedded, "acme"), document_id)[1])
        with pytest.raises(DocumentNotFoundError):
            documents.outline(reader(embedded, "other"), document_id)

    def test_no_outline_is_left_of_a_client_that_was_removed(self, embedded: SystemUnderTest) -> None:
        ingest(embedded, OWN, "Check the lag.")
        ingest(embedded, OWN, "Look at the lag.")
        everybodys = ingest(embedded, RUNBOOK)
        prefix = Scope("acme").prefix
        assert len(outlines(embedded.services, prefix)) == 2
        assert embedded.services.tenants.offboarding().remove("acme").left == {}
        assert outlines(embedded.services) == [outline_key(RUNBOOK, everybodys)]


@pytest.mark.parametrize(("where", "step"), [(prepared.Chunks, "_keep"), (prepared, "outline_file")])
def test_outline_is_written_again_after_a_death_before_it(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, where: object, step: str
) -> None:
    """The process dies before the chunk file is written, or between the chunk file and the outline."""

    def die(*_: object) -> None:
        raise Died

    embedded.put_silently(RUNBOOK, STEPS.format("Check the lag."))
    with monkeypatch.context() as dying:
        dying.setattr(where, step, die)
        with pytest.raises(Died):
            embedded.deliver(created(RUNBOOK, 1))
    assert outlines(embedded.services) == []
    assert list(embedded.versions(RUNBOOK)) == []
    embedded.lease_over()
    embedded.deliver(created(RUNBOOK, 1), receives=2)
    assert outlines(embedded.services) == [outline_key(RUNBOOK, embedded.document(RUNBOOK).document_id)]
