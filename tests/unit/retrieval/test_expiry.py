"""Expired documents are hidden from readers, and overdue reviews are flagged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.errors import DocumentNotFoundError
from opx.lifecycle.retention.reviews import ReviewReport
from opx.operations.context import Caller, Context
from opx.operations.documents import GetDocument, ListDocuments, ReadChunks, get_document, list_documents, read_chunks
from opx.operations.lifecycle import ListReviews, list_reviews
from opx.operations.search import Query, query
from opx.retrieval.citations import citation
from tests.e2e.systems import SystemUnderTest, a_system

DAY = 86_400
ANYTHING = QueryConfig(min_confidence=0)
DOCUMENTS = {
    "documents/operations/alerts/disk.md": ("# Disk alert\n\nDisk of db-1 is full.\n", {}),
    "documents/runbooks/disk.md": ("# Disk runbook\n\nDisk of db-1: grow it.\n", {"review_by": "2023-12-01"}),
    "documents/runbooks/pool.md": ("# Disk pool\n\nDisk of db-1: use the pool.\n", {"expires": "2023-11-20"}),
    "clients/acme/documents/runbooks/own.md": (
        "---\nowner: team-a\n---\n# Own disk\n\nDisk of db-2.\n",
        {"review_by": "2023-11-30"},
    ),
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemUnderTest]:
    with a_system("embedded", tmp_path_factory.mktemp("home"), boto3.Session()) as made:
        for key, (text, facts) in DOCUMENTS.items():
            made.put(key, text, json.dumps(facts))
        made.work()
        yield made


@pytest.fixture(autouse=True)
def from_the_start(system: SystemUnderTest) -> None:
    system.time.now = system.time.started


def client_of(system: SystemUnderTest, client: str = "") -> LocalClient:
    return LocalClient(Context(system.services, Caller(Identity(client))))


def searched(system: SystemUnderTest, config: QueryConfig) -> Answer:
    return client_of(system).call(query, Query(query="disk of db-1", config=config))


def reviews(system: SystemUnderTest, client: str, **parts: Any) -> ReviewReport:
    return client_of(system, client).call(list_reviews, ListReviews(**parts))


def titles(system: SystemUnderTest, config: QueryConfig = ANYTHING) -> set[str]:
    return {result.title for result in searched(system, config).results}


def listed(system: SystemUnderTest) -> set[str]:
    return {document.title for document in client_of(system).call(list_documents, ListDocuments()).documents}


def test_document_is_shown_until_the_day_before_it_expires(system: SystemUnderTest) -> None:
    system.time.sleep(5 * DAY)
    assert titles(system) == listed(system) == {"Disk alert", "Disk runbook", "Disk pool"}
    system.time.sleep(DAY)
    assert titles(system) == listed(system) == {"Disk alert", "Disk runbook"}


def test_document_past_the_retention_of_its_category_is_hidden(system: SystemUnderTest) -> None:
    system.time.sleep(179 * DAY)
    assert "Disk alert" in titles(system)
    system.time.sleep(DAY)
    assert titles(system) == listed(system) == {"Disk runbook"}


def test_a_question_about_an_earlier_day_is_answered_as_of_then(system: SystemUnderTest) -> None:
    system.time.sleep(300 * DAY)
    assert "Disk pool" in titles(system, QueryConfig(min_confidence=0, as_of="2023-11-19T12:00Z"))
    assert "Disk pool" not in titles(system, QueryConfig(min_confidence=0, as_of="2023-11-21T12:00Z"))


def test_a_document_that_expired_can_not_be_read(system: SystemUnderTest) -> None:
    document = system.document("documents/runbooks/pool.md").document_id
    client, wanted = client_of(system), GetDocument(document_id=document)
    assert client.call(get_document, wanted).document.title == "Disk pool"
    system.time.sleep(7 * DAY)
    with pytest.raises(DocumentNotFoundError, match="expired on 2023-11-20"):
        client.call(get_document, wanted)
    with pytest.raises(DocumentNotFoundError):
        client.call(read_chunks, ReadChunks(document_id=document))


def test_document_with_an_overdue_review_is_shown_with_a_warning(system: SystemUnderTest) -> None:
    def runbook() -> tuple[tuple[str, ...], str]:
        (found,) = [one for one in searched(system, ANYTHING).results if one.title == "Disk runbook"]
        assert found.metadata["reviewBy"] == "2023-12-01"
        return found.flags, citation(found)

    system.time.sleep(17 * DAY)  # the day itself
    assert runbook()[0] == ()
    system.time.sleep(DAY)
    flags, text = runbook()
    assert flags == ("review_overdue",)
    assert "Warning: the day by which this was to be reviewed is over" in text


class TestReviews:
    def test_due_and_overdue_reviews_are_listed_with_their_owners(self, system: SystemUnderTest) -> None:
        system.time.sleep(17 * DAY)
        report = reviews(system, "acme", days=0)
        assert [(item.title, item.owner, item.overdue) for item in report.items] == [
            ("Own disk", "team-a", 1),
            ("Disk runbook", "", 0),
        ]
        assert [(one.owner, one.overdue, one.items) for one in report.owners] == [("team-a", 1, 1), ("(nobody)", 0, 1)]
        assert type(report).from_json(report.to_json()) == report

    def test_nothing_of_another_scope_is_revealed(self, system: SystemUnderTest) -> None:
        assert [item.title for item in reviews(system, "other", days=3650).items] == ["Disk runbook"]

    def test_an_owner_sees_what_is_its_own(self, system: SystemUnderTest) -> None:
        assert [item.title for item in reviews(system, "acme", owner="Team-A", days=60).items] == ["Own disk"]

    def test_review_due_after_the_requested_days_is_left_out(self, system: SystemUnderTest) -> None:
        assert reviews(system, "acme", days=10).items == ()
