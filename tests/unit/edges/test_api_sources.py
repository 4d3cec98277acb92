"""Sources over the HTTP API: permissions, stored definitions, and refusals of a deployed system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler
from opx.connectors.control import connected
from opx.domain.record import replace
from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError
from opx.operations.system import System
from opx.runtime.knowledge_file import Installation
from opx.settings import Settings
from tests.support.agent_calls import Handler
from tests.support.api_requests import a_token, call, refusal
from tests.support.cli_support import word_services
from tests.support.fakes import SentMessages, function_logs

ADMIN = a_token(scopes="opx/admin")
CLIENTS_ADMIN = a_token("acme", scopes="opx/admin")
WRITER = a_token("acme", scopes="opx/write")
FEED = {"kind": "feed", "category": "web/blogs", "options": {"urls": ["https://example.org/feed.xml"]}}


@pytest.fixture
def pulls() -> SentMessages:
    return SentMessages()


@pytest.fixture
def services(tmp_path: Path, pulls: SentMessages) -> Iterator[System]:
    with function_logs(), word_services(Settings(home=str(tmp_path / "home"))) as made:
        made.ports.functions.pulls = pulls  # type: ignore[assignment,misc]
        yield made


@pytest.fixture
def handler(services: System) -> Handler:
    return make_handler(lambda: services)


def register(handler: Handler, definition: dict[str, Any], caller: dict[str, Any] = ADMIN) -> tuple[int, Any]:
    return call(handler, "register_source", caller=caller, sourceId="blog", body={"definition": definition})


def test_a_source_is_registered_listed_pulled_and_removed(handler: Handler, pulls: SentMessages) -> None:
    status, view = register(handler, FEED)
    assert (status, view["sourceId"], view["kind"], view["state"]["lastSuccess"]) == (200, "blog", "feed", "")
    listed = call(handler, "list_sources", caller=ADMIN)[1]["sources"]
    assert "blog" in [one["sourceId"] for one in listed]
    assert call(handler, "pull_source", caller=ADMIN, sourceId="blog", body={"everything": True})[0] == 202
    assert pulls.sent == ['{"source": "blog", "everything": true, "by_hand": true}']
    assert call(handler, "remove_source", caller=ADMIN, sourceId="blog") == (200, {"removed": "blog"})
    assert refusal(call(handler, "pull_source", caller=ADMIN, sourceId="blog", body={})) == (400, "invalid_argument")


@pytest.mark.parametrize("caller", [WRITER, CLIENTS_ADMIN, a_token(scopes="opx/write"), {}, None])
@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("list_sources", {}),
        ("list_source_kinds", {}),
        ("list_streams", {}),
        ("list_webhooks", {}),
        ("try_source", {"body": {"definition": FEED}}),
        ("change_source", {"sourceId": "nvd", "body": {"enabled": True}}),
        ("register_source", {"sourceId": "blog", "body": {"definition": FEED}}),
        ("remove_source", {"sourceId": "nvd"}),
        ("pull_source", {"sourceId": "nvd", "body": {}}),
        ("check_source", {"sourceId": "nvd"}),
        ("crawl_site", {"body": {"category": "vendor/cloud", "urls": ["https://example.org/"]}}),
    ],
)
def test_only_the_installations_administrator_manages_sources(
    handler: Handler, pulls: SentMessages, caller: dict[str, Any] | None, name: str, request_: dict[str, Any]
) -> None:
    assert refusal(call(handler, name, caller=caller, **request_)) == (403, "forbidden")
    assert pulls.sent == []


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {**FEED, "kind": "carrier-pigeon"},
        {**FEED, "category": "nothing"},
        {**FEED, "options": {"uri": "x"}},
        {**FEED, "schedule": "every day"},
        {**FEED, "extra": 1},
    ],
)
def test_wrong_definitions_are_refused_and_not_kept(
    handler: Handler, services: System, definition: dict[str, Any]
) -> None:
    status, code = refusal(register(handler, definition))
    assert (status, code) in [(400, "invalid_argument"), (400, "unknown_category")]
    assert "blog" not in [source.source_id for source in services.connectors.sources.all()]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("directory", {"path": "/proc/self", "pattern": "environ"}),
        ("mailbox", {"path": "/proc/self/environ"}),
        ("slack_export", {"path": "/var/task"}),
        ("git_history", {"path": "/var/task"}),
    ],
)
def test_a_deployed_system_reads_no_files_of_its_functions(
    services: System, kind: str, options: dict[str, Any]
) -> None:
    tier = services.installation.knowledge.category("runbooks/procedures").tier
    definition = SourceDefinition("files", kind, "runbooks/procedures", tier, options=options)
    deployed = Installation(replace(services.settings, backend="aws"), services.clock)
    with pytest.raises(InvalidInputError, match="reads files of a machine"):
        connected(definition, replace(services.connectors._system, installation=deployed))


class TestWithoutInternet:
    @pytest.fixture
    def offline(self, services: System) -> Any:
        settings = replace(services.settings, backend="aws", internet="off")
        return replace(services.connectors._system, installation=Installation(settings, services.clock))

    @pytest.mark.parametrize(
        ("kind", "options"),
        [
            ("feed", FEED["options"]),
            ("nvd", {}),
            ("aws_docs", {}),
            ("imap", {"host": "mail.example.org", "user": "ops", "password_secret": "mail"}),
            ("git_history", {"url": "https://example.org/ops.git"}),
        ],
    )
    def test_a_source_there_is_refused_at_once_with_the_reason(
        self, offline: Any, kind: str, options: dict[str, Any]
    ) -> None:
        tier = offline.installation.knowledge.category("web/blogs").tier
        definition = SourceDefinition("blog", kind, "web/blogs", tier, options=options)
        with pytest.raises(
            InvalidInputError, match=r"blog: \w+ fetches from the internet, .* use s3_prefix, or deploy"
        ):
            connected(definition, offline)

    def test_a_bucket_is_none(self, offline: Any) -> None:
        tier = offline.installation.knowledge.category("web/blogs").tier
        definition = SourceDefinition("notes", "s3_prefix", "web/blogs", tier, options={"bucket": "notes"})
        connected(definition, offline).close()

    def test_a_request_for_a_crawl_is_answered_so_and_queues_nothing(
        self, services: System, pulls: SentMessages, offline: Any
    ) -> None:
        services.connectors.__dict__["_system"] = offline
        body = {"category": "vendor/cloud", "urls": ["https://docs.example.org/"]}
        status, _ = refusal(call(make_handler(lambda: services), "crawl_site", caller=ADMIN, body=body))
        assert status == 400
        assert pulls.sent == []

    def test_the_setting_is_on_or_off(self) -> None:
        with pytest.raises(InvalidInputError, match="OPX_INTERNET must be 'on' or 'off', not 'no'"):
            Settings(internet="no")


def test_a_crawl_is_a_source_that_is_pulled_at_once(handler: Handler, services: System, pulls: SentMessages) -> None:
    body = {"category": "vendor/cloud", "urls": ["https://docs.example.org/"], "depth": 2, "maxPages": 50}
    status, found = call(handler, "crawl_site", caller=ADMIN, body=body)
    definition = services.connectors.sources.get(found["sourceId"])
    assert (status, definition.kind, definition.schedule) == (202, "crawl", "")
    assert (definition.options["depth"], definition.options["max_pages"]) == (2, 50)
    assert pulls.sent == [f'{{"source": "{found["sourceId"]}", "by_hand": true}}']


def test_the_same_site_again_is_the_same_source(handler: Handler) -> None:
    body = {"category": "vendor/cloud", "urls": ["https://docs.example.org/"]}
    assert (
        call(handler, "crawl_site", caller=ADMIN, body=body)[1]
        == call(handler, "crawl_site", caller=ADMIN, body=body)[1]
    )


def test_the_health_of_a_source_is_that_of_its_connector(handler: Handler, services: System, tmp_path: Path) -> None:
    given = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(tmp_path / "gone")}}
    register(handler, given)
    assert call(handler, "check_source", caller=ADMIN, sourceId="blog")[1]["health"]["ok"] is False
    (tmp_path / "gone").mkdir()
    assert call(handler, "check_source", caller=ADMIN, sourceId="blog")[1]["health"] == {"ok": True, "reason": ""}
