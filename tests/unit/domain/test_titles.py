"""Titles that say nothing are completed by their documents' paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.domain.titles import chosen, completed, disambiguated, is_completed, is_generic, readable, repeats
from opx.ingestion.chunking import ChunkOwner
from opx.text.procedures.outline import outline_of
from tests.support.archive_support import put, services_at
from tests.support.parsing_support import chunk_document

TITLES = st.text(st.sampled_from("aA1 ()-") | st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["README", "Steps to check", "README (cart)", "Architecture", "Quorum (lost)", "etcdMembersDown"]
)
NAMES = st.sampled_from(
    ["docs", "kafka", "architecture", "errors", "etcdMembersDown", "ORA-01555", "a b", "é", "0123456789"]
)
PATHS = st.lists(NAMES, max_size=5).map(lambda names: "/".join([*names, "README.md"]))


@pytest.mark.parametrize(
    ("title", "path", "expected"),
    [
        ("Troubleshooting", "docs/kafka/consumer/troubleshooting.md", "Troubleshooting (kafka consumer)"),
        ("README", "services/checkout/README.md", "README (checkout)"),
        ("Steps to check", "alerts/etcd/etcdMembersDown.md", "Steps to check (etcd etcdMembersDown)"),
        ("Alert details", "kafka-consumer_lag.md", "Alert details (kafka consumer lag)"),
        ("Kafka runbook", "docs/kafka/consumer/lag.md", "Kafka runbook"),
        ("Kafka: README", "services/checkout/README.md", "Kafka: README"),
        ("Overview", "docs/architecture/README.md", "Overview (architecture)"),
        ("Overview", "docs/kafka/architecture/README.md", "Overview (kafka)"),
        ("Runbook", "pages/0123456789abcdef0123456789abcdef.md", "Runbook"),
        ("Index", "big%20cluster/index.html", "Index (big cluster)"),
        ("README", "README.md", "README"),
        ("README", "runbooks/streams/shardId-000000000001/49590338.json", "README"),
        ("A", "letters/b.md", "A"),
        ("Docs", "sources/127.0.0.1%3A8080/docs.html", "Docs"),
        ("Snapshot too old", "oracle/ORA-01555.md", "Snapshot too old (ORA-01555)"),
        ("A consumer lags", "alerts/KafkaConsumerLag.md", "A consumer lags"),
        ("Optional log gathering", "helpers/gatherLogs.md", "Optional log gathering"),
        ("Übersicht", "kafka/README.md", "Übersicht"),
        ("502", "errors/502.md", "502"),
    ],
)
def test_generic_titles_are_completed_by_telling_words_of_the_path(title: str, path: str, expected: str) -> None:
    assert completed(title, path) == expected


@given(TITLES, PATHS)
def test_completed_title_is_recognised_and_its_chosen_part_recovered(title: str, path: str) -> None:
    title = readable(title, "")
    whole = completed(title, path)
    assert is_completed(whole, path)
    if whole != title:
        assert chosen(whole, path) == title
        assert repeats(title, whole)


def test_title_without_words_is_not_generic() -> None:
    assert not is_generic("!?")


@pytest.mark.parametrize(
    ("heading", "title", "expected"),
    [
        ("readme", "README (kafka)", True),
        ("Kafka", "Kafka", True),
        ("Kafka", "Kafka (in the cloud)", False),
        ("Quorum is lost", "Quorum is lost (etcdMembersDown)", True),
        ("README", "README", True),
        ("kafka", "README (kafka)", False),
    ],
)
def test_heading_repeats_the_title_that_was_completed(heading: str, title: str, expected: bool) -> None:
    assert repeats(heading, title) is expected


def test_documents_with_one_title_are_disambiguated_by_their_paths() -> None:
    paths = [
        "openshift/alerts/cluster-etcd-operator/etcdNoLeader.md",
        "https://host/runbooks/etcd/etcdNoLeader",
        "a/b.md",
    ]
    assert disambiguated(["etcdNoLeader", "etcdNoLeader", "Disk full"], paths) == [
        "etcdNoLeader (openshift cluster operator)",
        "etcdNoLeader (host)",
        "Disk full",
    ]


def test_documents_of_one_place_keep_their_common_title() -> None:
    assert disambiguated(["Lag", "Lag"], ["kafka/1.md", "kafka/2.md"]) == ["Lag", "Lag"]


@pytest.mark.parametrize("name", ["A" * 79 + "-", "A" + "1" * 78 + "x", "aA" * 39 + "-", "a" * 100_000])
def test_long_names_take_no_time(name: str) -> None:
    assert completed("Quorum is lost", name) == "Quorum is lost"


PAGE = "# Runbook\n\n## Mitigation\n\n1. Stop the writer.\n2. Remove old logs.\n"


def test_completed_title_changes_neither_chunk_ids_nor_sections() -> None:
    chunks = [
        next(chunk_document(PAGE.splitlines(keepends=True), ChunkOwner("d1", title, "runbooks/procedures")))
        for title in ("Runbook", "Runbook (kafka consumer)")
    ]
    assert chunks[0].chunk_id == chunks[1].chunk_id
    assert [chunk.section for chunk in chunks] == 2 * [("Mitigation",)]


def test_completed_title_changes_no_step_id() -> None:
    plain, completed_one = (outline_of("d1", title, PAGE) for title in ("Runbook", "Runbook (kafka consumer)"))
    assert plain.sections == completed_one.sections
    assert [step.step_id for step in plain.steps] == [step.step_id for step in completed_one.steps]


def test_documents_of_an_answer_with_one_title_are_disambiguated(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        for name, text in (("etcd", "The heron elects one."), ("consul", "The heron restarts all servers.")):
            put(services, f"{name}/leader", text, title="No leader")
        results = services.questions.for_reader().search("heron", QueryConfig(min_confidence=0.0)).results
        handed_over = services.questions.handover(services.corpus.projects.reader(Identity()))
        documents = handed_over.documents("heron", results, 2000)
    assert {result.title for result in results} == {"No leader"}
    assert {document.title for document in documents} == {"No leader (etcd)", "No leader (consul)"}


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("c2b77d22b1ea2b01243dd389ac52207b", "The replica lags"),
        ("04919336e3d4a1b2c3d4e5f6~", "The replica lags"),
        ("123e4567 e89b 12d3 a456 426614174000", "The replica lags"),
        ("cve 50~", "cve 50"),
        ("~", "The replica lags"),
        ("2026-01-02 10-00-00", "2026-01-02 10-00-00"),
        ("Decade facade", "Decade facade"),
    ],
)
def test_a_sentence_stands_in_place_of_a_hash(title: str, shown: str) -> None:
    assert readable(title, "The replica lags") == shown
    assert is_completed(shown, "")
    assert is_completed(title, "") == (title == shown)


def test_a_document_without_words_is_without_a_title() -> None:
    assert readable("c2b77d22b1ea2b01243dd389ac52207b", "") == "Without a title"


GRAPH = "http://vm:19090/graph?g0.expr=vector%281%29&g0.tab=1"


def test_documents_with_one_title_are_disambiguated_by_the_labels_that_differ() -> None:
    labels = [[f"instance=10.0.0.{n}:8080", f"namespace=web-{n}", f"pod=api-{n}", "severity=critical"] for n in (1, 2)]
    assert disambiguated(["Pod crashes"] * 2, [GRAPH] * 2, labels) == [
        "Pod crashes (web-1/api-1)",
        "Pod crashes (web-2/api-2)",
    ]


def test_the_query_of_an_address_disambiguates_nothing() -> None:
    paths = [GRAPH, GRAPH.replace("tab=1", "tab=2"), "http://other/graph?x=1"]
    assert disambiguated(["Pod crashes"] * 2, paths[:2]) == ["Pod crashes"] * 2
    assert all("expr" not in one for one in disambiguated(["Pod crashes"] * 3, paths))
