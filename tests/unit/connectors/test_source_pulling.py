"""Pulling sources into the corpus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opx.connectors.connector import Connector, Options, SourceTools
from opx.connectors.repository import SourceItems, definition_of
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.sources import Page, PullReport, PullRequest, Refused, SourceDefinition, SourceDocument
from opx.errors import (
    InvalidInputError,
    SourceBusyError,
    SourceRefusedError,
    SourceShapeError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from opx.ingestion.channels import arrival_of
from opx.ingestion.events import Result
from opx.ingestion.object_names import object_name
from opx.operations.system import System
from opx.ports.tables import SOURCES
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

CATEGORY = "vendor/linux"
Script = list[Page | Exception]


class NoOptions(Options, frozen=True):
    pass


class Scripted(Connector[NoOptions]):
    """Gives the pages of a script from where the cursor says; what is an error there is raised."""

    options_type = NoOptions
    script: Script
    requests: list[PullRequest]

    def pull(self, request: PullRequest) -> Iterator[Page]:
        self.requests.append(request)
        for page in self.script[int(request.cursor.get("at", 0)) :]:
            if isinstance(page, Exception):
                raise page
            yield page

    def probe(self) -> None:
        pass


@dataclass
class SystemUnderTest:
    """An embedded system with one source, whose pages are `script`."""

    services: System
    script: Script = field(default_factory=list)
    requests: list[PullRequest] = field(default_factory=list)
    commits: int = 0
    now: float = 1_750_000_000.0

    def connect(self, definition: SourceDefinition) -> Any:
        system = self
        connector = Scripted(definition, NoOptions(), SourceTools(None, None, lambda: self.now))  # type: ignore[arg-type]
        connector.script, connector.requests = self.script, self.requests

        class Connected:
            items = SourceItems(system.services.tables.table(SOURCES), definition.source_id)

            def __init__(self) -> None:
                self.connector = connector

            def commit(self) -> None:
                system.commits += 1

            def close(self) -> None:
                pass

        return Connected()

    def pull(self, *pages: Page | Exception, **options: Any) -> PullReport:
        """Pulls these pages, and ingests their documents."""
        self.script[:] = pages
        report = self.services.connectors.puller().pull("docs", **options)
        failed = [outcome for outcome in self.services.manager.work() if outcome.result is Result.FAILED]
        assert not failed
        return report

    @property
    def state(self) -> Any:
        return self.services.connectors.sources.state("docs")

    @property
    def titles(self) -> list[str]:
        return sorted(document.title for document in self.services.corpus.catalog.in_category(CATEGORY))


@pytest.fixture
def system(tmp_path: Path) -> Iterator[SystemUnderTest]:
    made: list[SystemUnderTest] = []
    services = bootstrap(
        Settings(home=str(tmp_path / "home"), retry_base_seconds=0.0),
        clock=lambda: made[0].now if made else 0.0,
        embedder=WordsEmbedder(),
    )
    with services:
        services.connectors.connected = lambda definition: made[0].connect(definition)  # type: ignore[method-assign]  # noqa: PLW0108 - made later
        made.append(SystemUnderTest(services))
        given = {"kind": "scripted", "category": CATEGORY}
        services.connectors.sources.register(definition_of("docs", given, services.installation.knowledge))
        yield made[0]


def a_document(key: str, text: str = "", **metadata: Any) -> SourceDocument:
    return SourceDocument(key, f"# {key}\n\n{text or 'text of ' + key}\n", metadata)


def a_page(*keys: str, at: int = 0, **more: Any) -> Page:
    return Page(tuple(map(a_document, keys)), cursor={"at": at} if at else {}, **more)


def ten(*, without: int = 0) -> Page:
    return a_page(*(f"page-{number}" for number in range(10 - without)), complete=True)


class TestDocuments:
    def test_documents_become_knowledge(self, system: SystemUnderTest) -> None:
        report = system.pull(a_page("a", "b"))
        assert (len(report.put), system.titles) == (2, ["a", "b"])

    def test_unchanged_document_is_not_put_again(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", "b"))
        report = system.pull(Page((a_document("a"), a_document("b", "other"))))
        assert (len(report.put), report.unchanged, system.titles) == (1, 1, ["a", "b"])

    def test_changed_metadata_are_a_change(self, system: SystemUnderTest) -> None:
        system.pull(Page((a_document("a"),)))
        report = system.pull(Page((a_document("a", tags=["new"]),)))
        assert len(report.put) == 1

    def test_the_last_of_a_document_that_changes_during_the_pull_counts(self, system: SystemUnderTest) -> None:
        system.pull(
            Page((a_document("a", "first"), a_document("a", "second")), cursor={"at": 1}),
            Page((a_document("a", "third"),)),
        )
        (document,) = system.services.corpus.catalog.in_category(CATEGORY)
        chunks = system.services.ingestion.pipeline.read_chunks(document.key, document.document_id)
        assert "third" in "".join(chunk.content for chunk in chunks)

    def test_tags_of_the_source_are_added(self, system: SystemUnderTest) -> None:
        given = {"kind": "scripted", "category": CATEGORY, "tags": ["kernel"]}
        system.services.connectors.sources.register(
            definition_of("docs", given, system.services.installation.knowledge)
        )
        system.pull(Page((a_document("a", tags=["own"]),)))
        (document,) = system.services.corpus.catalog.in_category(CATEGORY)
        assert document.tags == ("own", "kernel")

    def test_records_of_the_category_are_read_by_its_mapping(self, system: SystemUnderTest) -> None:
        given = {"kind": "scripted", "category": "web/github_issues"}
        system.services.connectors.sources.register(
            definition_of("docs", given, system.services.installation.knowledge)
        )
        system.pull(Page((SourceDocument("1", {"title": "Leak", "body": "It leaks."}),)))
        (document,) = system.services.corpus.catalog.in_category("web/github_issues")
        assert document.title == "Leak"

    def test_metadata_too_large_for_an_object_are_kept(self, system: SystemUnderTest) -> None:
        tags = [f"tag-{number:02}-{'x' * 90}" for number in range(50)]
        system.pull(Page((a_document("a", tags=tags, author="Ada"),)))
        (document,) = system.services.corpus.catalog.in_category(CATEGORY)
        assert (len(document.tags), document.author) == (50, "Ada")

    def test_a_document_that_moves_to_another_category_leaves_the_first(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a"))
        given = {"kind": "scripted", "category": "vendor/cloud"}
        system.services.connectors.sources.register(
            definition_of("docs", given, system.services.installation.knowledge)
        )
        system.pull(a_page("a"))
        assert system.titles == []
        assert len(list(system.services.corpus.catalog.in_category("vendor/cloud"))) == 1

    def test_document_that_can_not_be_stored_is_reported_and_the_rest_ingested(self, system: SystemUnderTest) -> None:
        report = system.pull(Page((SourceDocument("bad", {"x": float}), a_document("good"))))
        assert [one.key for one in report.refusals] == ["bad"]
        assert system.titles == ["good"]

    @pytest.mark.parametrize("key", ["", "x" * 501, "ä" * 300])
    def test_invalid_key_is_refused_and_the_rest_ingested(self, system: SystemUnderTest, key: str) -> None:
        report = system.pull(Page((a_document(key, "text"), a_document("good"))))
        assert (len(report.refusals), system.titles) == (1, ["good"])

    def test_a_text_with_and_one_without_extension_are_two_documents(self, system: SystemUnderTest) -> None:
        system.pull(a_page("guide", "guide.md"))
        assert system.titles == ["guide", "guide.md"]
        system.pull(Page(withdrawn=("guide",)))
        assert system.titles == ["guide.md"]

    def test_refused_documents_are_counted_and_named_in_the_state(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", refused=(Refused("b", "no date"),)))
        assert (system.state.refused, system.state.refusals) == (1, (("b", "no date"),))


class TestWithdrawal:
    def test_document_withdrawn_by_its_source_is_removed(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", "b"))
        report = system.pull(Page(withdrawn=("a", "never-seen")))
        assert (len(report.withdrawn), system.titles) == (1, ["b"])

    def test_documents_missing_from_a_complete_listing_are_withdrawn(self, system: SystemUnderTest) -> None:
        system.pull(ten())
        report = system.pull(ten(without=2))
        assert (len(report.withdrawn), len(system.titles), report.flag) == (2, 8, "")

    def test_unchanged_keys_are_not_missing(self, system: SystemUnderTest) -> None:
        system.pull(ten())
        report = system.pull(Page(unchanged=tuple(f"page-{number}" for number in range(10)), complete=True))
        assert (len(report.withdrawn), report.unchanged, len(system.titles)) == (0, 10, 10)

    def test_an_unchanged_document_that_was_never_ingested_is_reported(self, system: SystemUnderTest) -> None:
        report = system.pull(a_page("a", unchanged=("b",)))
        assert [(one.key, "never ingested" in one.reason) for one in report.refusals] == [("b", True)]

    def test_refused_documents_are_not_missing(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", "b"))
        report = system.pull(Page((a_document("a"),), refused=(Refused("b", "broken today"),), complete=True))
        assert (system.titles, report.flag) == (["a", "b"], "")

    def test_nothing_is_missing_after_a_part_of_the_source(self, system: SystemUnderTest) -> None:
        system.pull(ten())
        system.pull(a_page("page-1"))
        assert len(system.titles) == 10

    @pytest.mark.parametrize("missing", [3, 10])
    def test_a_listing_that_misses_more_than_its_share_withdraws_nothing_and_raises_a_flag(
        self, system: SystemUnderTest, missing: int
    ) -> None:
        system.pull(ten())
        report = system.pull(ten(without=missing))
        assert (report.withdrawn, len(system.titles)) == ((), 10)
        assert f"misses {missing} of 10" in report.flag == system.state.flag

    def test_a_person_may_accept_what_is_missing(self, system: SystemUnderTest) -> None:
        system.pull(ten())
        system.pull(ten(without=5))
        report = system.pull(ten(without=5), accept_missing=True)
        assert (len(report.withdrawn), len(system.titles), system.state.flag) == (5, 5, "")

    def test_the_last_document_of_a_source_is_withdrawn(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", complete=True))
        report = system.pull(Page((), complete=True))
        assert (len(report.withdrawn), system.titles, report.flag) == (1, [], "")

    def test_a_whole_listing_takes_the_flag_away(self, system: SystemUnderTest) -> None:
        system.pull(ten())
        system.pull(ten(without=5))
        assert system.pull(ten()).flag == ""

    def test_accepting_reads_a_listing_again_that_did_not_change(self, system: SystemUnderTest) -> None:
        system.pull(ten())
        items = SourceItems(system.services.tables.table(SOURCES), "docs")
        items.put("https://x.org/list", {"etag": "1"})
        system.pull(ten(without=5))
        system.pull(ten(without=5), accept_missing=True)
        assert items.get("https://x.org/list") == {}

    def test_many_are_withdrawn_in_portions_that_can_be_interrupted(self, system: SystemUnderTest) -> None:
        keys = [f"k{number:03}" for number in range(250)]
        system.pull(a_page(*keys, "stays", complete=True))
        stops = iter([True])
        report = system.pull(a_page("stays", complete=True), accept_missing=True, stop=lambda: next(stops, False))
        assert (len(report.withdrawn), report.more) == (100, True)
        report = system.pull(a_page("stays", complete=True), accept_missing=True)
        assert (len(report.withdrawn), system.titles) == (150, ["stays"])

    def test_the_share_is_the_sources_own(self, system: SystemUnderTest) -> None:
        given = {"kind": "scripted", "category": CATEGORY, "max_missing_share": 0.5}
        system.services.connectors.sources.register(
            definition_of("docs", given, system.services.installation.knowledge)
        )
        system.pull(ten())
        assert len(system.pull(ten(without=5)).withdrawn) == 5

    def test_withdrawn_document_returns_when_its_source_has_it_again(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", "b"))
        system.pull(Page(withdrawn=("a",)))
        system.pull(a_page("a", "b"))
        assert system.titles == ["a", "b"]

    def test_pages_before_an_interruption_count_as_listed(self, system: SystemUnderTest) -> None:
        system.pull(a_page(*"abcde", at=1), a_page(*"fghij", complete=True))
        system.pull(a_page(*"abcde", at=1), SourceUnavailableError("gone"), a_page(*"fghij", complete=True))
        report = system.pull(a_page(*"abcde", at=1), a_page(*"fghij", complete=True))
        assert (report.withdrawn, report.flag, len(system.titles)) == ((), "", 10)


class TestGoingOn:
    @pytest.mark.parametrize(
        "error",
        [
            SourceUnavailableError("no answer", 30.0),
            SourceRefusedError("no such key", 401),
            SourceShapeError("no field"),
            StoreUnavailableError("disk"),
        ],
    )
    def test_an_interrupted_pull_keeps_what_it_had_and_resumes_there(
        self, system: SystemUnderTest, error: Exception
    ) -> None:
        report = system.pull(a_page("a", at=1), error, a_page("c"))
        assert (system.titles, report.error, system.state.failures) == (["a"], str(error), 1)
        system.pull(a_page("a", at=1), a_page("b", at=2), a_page("c"))
        assert [dict(request.cursor) for request in system.requests] == [{}, {"at": 1}]
        assert (system.titles, system.state.error, system.state.failures) == (["a", "b", "c"], "", 0)

    def test_a_resumed_pull_has_the_same_start_of_changes(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", seen_until="2025-06-01T00:00:00Z"))
        system.now += 86_400
        system.pull(a_page("b", at=1, seen_until="2025-06-02T00:00:00Z"), SourceUnavailableError("gone"))
        system.now += 86_400
        system.pull(a_page("b", at=1), a_page("c", seen_until="2025-06-03T00:00:00Z"))
        assert [request.since for request in system.requests] == ["", *["2025-05-31T23:55:00Z"] * 2]
        assert system.state.since == "2025-06-02T23:55:00Z"

    def test_a_pull_stops_on_request(self, system: SystemUnderTest) -> None:
        report = system.pull(a_page("a", at=1), a_page("b"), stop=lambda: True)
        assert (report.more, system.titles, system.state.owner) == (True, ["a"], "")
        system.pull(a_page("a", at=1), a_page("b"))
        assert (system.titles, system.state.run) == (["a", "b"], "")

    def test_changes_of_a_source_without_times_are_requested_from_before_the_last_pull_began(
        self, system: SystemUnderTest
    ) -> None:
        system.pull(a_page("a"))
        system.pull(a_page("a"))
        assert system.requests[1].since == "2025-06-15T14:06:40Z"

    def test_a_source_whose_clock_is_behind_does_not_move_backwards(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", seen_until="2025-06-03T00:00:00Z"))
        system.pull(a_page("b", seen_until="2024-01-01T00:00:00Z"))
        assert system.state.since == "2025-06-02T23:55:00Z"

    def test_a_date_in_the_future_does_not_silence_the_source(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", seen_until="2099-01-01T00:00:00Z"))
        assert system.state.since == "2025-06-15T15:06:40Z"

    def test_an_invalid_time_is_a_shape_error(self, system: SystemUnderTest) -> None:
        report = system.pull(a_page("a", seen_until="yesterday"))
        assert "is not a time of a change" in report.error

    def test_failures_are_over_once_a_page_comes_through(self, system: SystemUnderTest) -> None:
        for _ in range(5):
            system.pull(a_page("a", at=1), SourceUnavailableError("hiccup"))
        system.pull(a_page("a", at=1), a_page("b", at=2), SourceUnavailableError("hiccup"))
        assert system.state.failures == 1

    def test_a_connector_that_refuses_its_options_leaves_a_trace_and_the_source_free(
        self, system: SystemUnderTest
    ) -> None:
        assert system.pull(InvalidInputError("no such domain")).error == "no such domain"
        assert (system.state.error, system.state.owner) == ("no such domain", "")

    def test_everything_puts_again_what_did_not_change(self, system: SystemUnderTest) -> None:
        (key,) = system.pull(a_page("a")).put
        system.services.manager.delete_object(key)
        list(system.services.manager.work())
        assert system.pull(a_page("a")).put == ()
        system.pull(a_page("a"), everything=True)
        assert system.titles == ["a"]

    def test_another_definition_has_everything_read_again(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", seen_until="2025-06-01T00:00:00Z"))
        given = {"kind": "scripted", "category": "vendor/cloud"}
        system.services.connectors.sources.register(
            definition_of("docs", given, system.services.installation.knowledge)
        )
        system.pull(a_page("a"))
        assert system.requests[-1].since == ""
        assert len(list(system.services.corpus.catalog.in_category("vendor/cloud"))) == 1

    def test_everything_is_requested_again_on_demand(self, system: SystemUnderTest) -> None:
        system.pull(a_page("a", at=1), SourceUnavailableError("gone"))
        system.pull(a_page("a", at=1), a_page("b"), everything=True)
        assert (system.requests[1].since, dict(system.requests[1].cursor)) == ("", {})

    def test_the_object_states_its_source(self, system: SystemUnderTest) -> None:
        (key,) = system.pull(a_page("a")).put
        info = system.services.store.head(key)
        assert info
        assert arrival_of(system.services.store, info).channel == Channel(
            ChannelKind.SOURCE, "docs", "scripted", "read by the installation"
        )

    def test_replies_are_committed_only_after_their_page_is_stored(self, system: SystemUnderTest) -> None:
        class Full:
            def by(self, _: object) -> Full:
                return self

            def put_document(self, *_: Any) -> str:
                raise StoreUnavailableError("disk full")

        system.script[:] = [a_page("a")]
        puller = system.services.connectors.puller()
        puller.store.writer = Full()  # type: ignore[assignment]
        assert puller.pull("docs").error == "disk full"
        assert (system.commits, system.state.cursor) == (0, {})

    def test_two_pulls_of_one_source_do_not_run_at_once(self, system: SystemUnderTest) -> None:
        with system.services.work.exclusive_pull("docs"), pytest.raises(SourceBusyError, match="already"):
            system.pull(a_page("a"))

    def test_a_lease_keeps_others_away_until_it_ends(self, system: SystemUnderTest) -> None:
        sources = system.services.connectors.sources
        sources.claim("docs", seconds=60)
        with pytest.raises(SourceBusyError, match="already"):
            sources.claim("docs", seconds=60)
        system.now += 61
        assert sources.claim("docs", seconds=60).owner

    def test_a_pull_whose_lease_was_taken_over_writes_nothing_more(self, system: SystemUnderTest) -> None:
        sources = system.services.connectors.sources
        mine = sources.claim("docs", seconds=60)
        system.now += 61
        sources.claim("docs", seconds=60)
        with pytest.raises(SourceBusyError, match="taken over"):
            sources.save(mine, mine.owner)

    def test_a_claim_does_not_take_back_what_another_pull_wrote_meanwhile(self, system: SystemUnderTest) -> None:
        sources = system.services.connectors.sources
        system.pull(a_page("a"))
        real = sources._read

        def late(source_id: str) -> Any:
            found = real(source_id)
            sources._read = real  # type: ignore[method-assign]
            system.pull(a_page("b"))
            return found

        sources._read = late  # type: ignore[method-assign]
        with pytest.raises(SourceBusyError):
            sources.claim("docs", seconds=60)

    def test_a_source_whose_category_is_gone_does_not_hide_the_others(self, system: SystemUnderTest) -> None:
        table = system.services.tables.table(SOURCES)
        gone = {"kind": "feed", "category": "web/gone"}
        table.put({"sourceId": "#registered", "entry": "old", "definition": gone})
        assert "docs" in [source.source_id for source in system.services.connectors.sources.all()]
        system.services.connectors.sources.remove("old")
        assert not [item for item in table.query("#registered") if item["entry"] == "old"]

    def test_an_unknown_source_is_named_with_the_known_ones(self, system: SystemUnderTest) -> None:
        with pytest.raises(InvalidInputError, match=r"no source 'x'; known are: .*docs"):
            system.services.connectors.puller().pull("x")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("CVE-2024-23113", "CVE-2024-23113"),
        ("docs/a b.md", "docs/a b.md"),
        ("https://x.org/?a=1&b", "https%3A%2F%2Fx.org%2F%3Fa=1%26b"),
    ],
)
def test_keys_are_readable_in_object_keys(key: str, name: str) -> None:
    assert object_name(key).replace("/", "%2F") == name.replace("/", "%2F") or len(object_name(key)) == 32


@pytest.mark.parametrize(
    "key", ["../x", "a/../b.md", "/a", "a/", "a//b", "x" * 600 + ".pdf", "a.metadata.json", "", "..", "a/."]
)
def test_keys_that_no_object_can_have_become_hashes(key: str) -> None:
    name = object_name(key)
    assert len(name.partition(".")[0]) == 32
    assert "/" not in name


def test_different_keys_have_different_names() -> None:
    keys = ["a", "/a", "a/", "a//b", "a/b", "a%2Fb", "a b", "a%20b"]
    assert len({object_name(key) for key in keys}) == len(keys)
