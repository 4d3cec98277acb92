"""Operations on sources, crawls and streams, called as every interface calls them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.connectors.capability import NO_LEASE
from opx.domain.policy import Action
from opx.domain.record import replace, to_json
from opx.domain.requests import RequestError, read_request
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.errors import ForbiddenError, InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.registry import REGISTRY, Function
from opx.operations.sources import (
    CheckSource,
    CrawlSite,
    ListSources,
    PullSource,
    RegisterSource,
    RemoveSource,
    check_source,
    crawl_site,
    list_sources,
    pull_source,
    register_source,
    remove_source,
)
from opx.operations.system import System
from opx.settings import Settings
from opx_streams.operations.streams import (
    EndStream,
    ListStreams,
    SubscribeStream,
    end_stream,
    list_streams,
    subscribe_stream,
)
from tests.support.cli_support import word_services
from tests.support.fakes import SentMessages
from tests.support.stream_support import REDIS, SQS

STANDING = {
    "pulling": False,
    "unfinished": False,
    "since": "",
    "lastAttempt": "",
    "lastSuccess": "",
    "put": 0,
    "added": 0,
    "unchanged": 0,
    "withdrawn": 0,
    "refused": 0,
    "refusals": [],
    "keptOut": 0,
    "keptOutInAll": 0,
    "keptOutBy": "",
    "error": "",
    "failures": 0,
    "flag": "",
}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with word_services(Settings(home=str(tmp_path / "home"))) as made:
        yield made


@pytest.fixture
def context(system: System) -> Context:
    return Context(system, Caller(Identity(), owns_system=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    return tmp_path / "docs"


@pytest.fixture
def notes(context: Context, folder: Path) -> str:
    """The id of a source that reads the folder."""
    definition = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(folder)}}
    register_source(context, RegisterSource(source_id="notes", definition={**definition, "schedule": "0 4 * * *"}))
    return "notes"


class TestSources:
    def test_a_registered_source_is_listed_with_its_standing(self, context: Context, notes: str, folder: Path) -> None:
        (view,) = [one for one in list_sources(context, ListSources()).sources if one.source_id == notes]
        assert view.next_pull
        assert replace(view, next_pull="").to_json() == {
            "sourceId": "notes",
            "kind": "directory",
            "category": "runbooks/procedures",
            "tier": "internal",
            "schedule": "0 4 * * *",
            "timeZone": "UTC",
            "enabled": True,
            "declared": False,
            "options": {"path": str(folder)},
            "tags": [],
            "maxMissingShare": 0.2,
            "state": STANDING,
            "freshness": "never",
        }

    def test_reply_has_the_report_where_this_process_pulls(self, context: Context, notes: str, folder: Path) -> None:
        (folder / "a.md").write_text("# A\n\ntext\n")
        report = pull_source(context, PullSource(source_id=notes)).report
        assert report is not None
        assert (len(report.put), report.withdrawn, report.error, report.more) == (1, (), "", False)

    def test_pull_is_sent_to_the_function_where_functions_pull(
        self, context: Context, system: System, notes: str
    ) -> None:
        system.ports.functions.pulls = pulls = SentMessages()  # type: ignore[assignment,misc]
        reply = pull_source(context, PullSource(source_id=notes, accept_missing=True))
        assert to_json(reply) == {"sourceId": "notes"}
        assert pulls.sent == ['{"source": "notes", "accept_missing": true, "by_hand": true}']

    def test_a_pull_is_in_progress_while_its_process_runs(self, system: System, notes: str) -> None:
        with system.work.exclusive_pull(notes):
            assert system.connectors.sources.claim(notes, seconds=NO_LEASE).owner
            assert system.connectors.control.view(notes).state.pulling
        assert not system.connectors.control.view(notes).state.pulling

    def test_a_document_that_can_not_be_read_is_named(self, context: Context, system: System, notes: str) -> None:
        state = system.connectors.sources.claim(notes, seconds=1)
        system.connectors.sources.save(replace(state, refusals=(("b.md", "no text"),), owner=""), state.owner)
        (view,) = [one for one in list_sources(context, ListSources()).sources if one.source_id == notes]
        assert to_json(view)["state"]["refusals"] == [{"key": "b.md", "reason": "no text"}]

    def test_health_is_in_the_reply_where_it_was_checked(self, context: Context, notes: str, folder: Path) -> None:
        assert to_json(check_source(context, CheckSource(source_id=notes)))["health"] == {"ok": True, "reason": ""}
        folder.rmdir()
        health = check_source(context, CheckSource(source_id=notes)).health
        assert health is not None
        assert (health.ok, "not a directory" in health.reason) == (False, True)

    def test_a_removed_source_is_gone(self, context: Context, notes: str) -> None:
        assert to_json(remove_source(context, RemoveSource(source_id=notes))) == {"removed": "notes"}
        with pytest.raises(InvalidInputError, match="no source 'notes'"):
            remove_source(context, RemoveSource(source_id=notes))

    @pytest.mark.parametrize(
        ("definition", "problem"),
        [
            ({}, "needs a kind"),
            ({"kind": "carrier-pigeon", "category": "runbooks/procedures"}, "unknown kind of source"),
            ({"kind": "feed", "category": "web/blogs", "options": {"uri": "x"}}, "unknown option 'uri'"),
        ],
    )
    def test_a_wrong_definition_is_refused(self, context: Context, definition: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            register_source(context, RegisterSource(source_id="x", definition=definition))

    def test_whoever_is_of_another_scope_has_nothing_to_do_with_them(self, system: System) -> None:
        for caller in (Caller(Identity("acme")), Caller(Identity("acme"), owns_system=True)):
            client = LocalClient(Context(system, caller))
            with pytest.raises(ForbiddenError, match="belongs to global, and you are in client:acme"):
                client.call(list_sources, ListSources())
            with pytest.raises(ForbiddenError, match="manage sources, streams"):
                client.call(list_streams, ListStreams())


class TestCrawl:
    def test_a_site_becomes_a_source_that_is_pulled_at_once(self, context: Context, system: System) -> None:
        system.ports.functions.pulls = pulls = SentMessages()  # type: ignore[assignment,misc]
        request = CrawlSite(category="vendor/cloud", urls=("https://docs.example.org/",), depth=2, max_pages=50)
        source_id = crawl_site(context, request).source_id
        definition = system.connectors.sources.get(source_id)
        assert (definition.kind, definition.schedule, len(pulls.sent)) == ("crawl", "", 1)
        assert definition.options == {"start": ["https://docs.example.org/"], "depth": 2, "max_pages": 50}
        assert crawl_site(context, request).source_id == source_id

    def test_a_crawl_without_an_address_is_refused(self, context: Context) -> None:
        with pytest.raises(RequestError, match="give urls or sitemaps"):
            crawl_site(context, CrawlSite(category="vendor/cloud"))

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"depth": 21}, "depth must be a whole number from 0 to 20, not 21"),
            ({"maxPages": 0}, "maxPages must be a whole number from 1 to 100000, not 0"),
            ({"urls": [" "]}, "urls must have at least 1 characters that are not blank"),
            ({"urls": ["https://x.org/"] * 101}, "urls may have at most 100 entries, not 101"),
            ({"pages": 1}, "unknown field pages"),
        ],
    )
    def test_bounds_are_kept(self, given: dict[str, Any], problem: str) -> None:
        with pytest.raises(RequestError, match=problem):
            read_request(CrawlSite, {"category": "vendor/cloud", **given})


class TestStreams:
    def subscribed(self, context: Context, **given: Any) -> str:
        known = {"source": REDIS, "category": "operations/incidents", "topic": "incidents", "name": "live"}
        return subscribe_stream(context, SubscribeStream(**{**known, **given})).name

    def test_a_subscription_is_listed_until_it_is_ended(self, context: Context) -> None:
        assert self.subscribed(context, pattern={"severity": ["critical"]}, tags=("a",)) == "live"
        (found,) = to_json(list_streams(context, ListStreams()))["streams"]
        assert found == {
            "name": "live",
            "source": REDIS,
            "category": "operations/incidents",
            "topic": "incidents",
            "filter": {"severity": ["critical"]},
            "identity": "",
            "tags": ["a"],
            "password_secret": "",
            "credentials_arn": "",
            "network": [],
            "json": {},
        }
        assert end_stream(context, EndStream(name="live")).removed == "live"
        assert list_streams(context, ListStreams()).streams == ()

    def test_the_pattern_of_records_is_called_filter(self) -> None:
        given = {"source": REDIS, "category": "operations/incidents", "filter": {"a": [1]}}
        assert read_request(SubscribeStream, given).pattern == {"a": [1]}

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"source": SQS, "topic": ""}, "read by a function of a deployed system"),
            ({"topic": ""}, "needs a topic"),
            ({"pattern": {"a": "b"}}, "must be a list"),
            ({"name": "No name"}, "names are up to 48"),
        ],
    )
    def test_a_wrong_subscription_is_refused(self, context: Context, given: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            self.subscribed(context, **given)

    def test_ending_what_is_not_there_is_refused(self, context: Context) -> None:
        with pytest.raises(InvalidInputError, match="no stream 'never'"):
            end_stream(context, EndStream(name="never"))


@pytest.mark.parametrize("run", [list_sources, register_source, remove_source, pull_source, check_source, crawl_site])
def test_sources_are_for_operators_alone(run: Any) -> None:
    operation = REGISTRY.of(run)
    assert operation.route is not None
    assert (operation.actions, operation.route.function) == ((Action.MANAGE_SOURCES,), Function.MANAGE)
