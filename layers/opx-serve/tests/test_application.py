"""The ASGI application of a local server: which requests reach an operation, and as whose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from opx.domain.policy import ADMIN_SCOPE, ORCHESTRATE_SCOPE, READ_SCOPE, WRITE_SCOPE
from opx.domain.scopes import Identity
from opx.edges.http import MAX_BODY_BYTES
from opx.operations.context import Caller
from opx.operations.system import System
from opx.ports.tables import GAPS
from opx.records.gaps.log import GapLog
from opx_serve import bodies
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of
from tests.support.records_support import ESPRESSO, BrokenTable, HeldTable
from tests.support.serving_support import OWN_TOKEN, LocalServer, over_mcp, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RIVALS = {"clients/rival/documents/runbooks/safe.md": "# Open the rival safe\n\nTurn the rival wheel twice."}
OF_ACME = "clients/acme/documents/runbooks/vault.md"
(OF_RIVAL,) = RIVALS


def a_token(client: str, *scopes: str, name: str = "bot") -> Caller:
    return Caller(Identity(client, "", name), token_scopes=frozenset(scopes))


TOKENS = {
    "acme-token": a_token("acme", READ_SCOPE),
    "rival-token": a_token("rival", READ_SCOPE),
    "acme-writer": a_token("acme", WRITE_SCOPE),
    "acme-admin": a_token("acme", ADMIN_SCOPE),
    "operator": a_token("", ADMIN_SCOPE),
    "orchestrator": a_token("acme", ORCHESTRATE_SCOPE),
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), {**CORPUS, **RIVALS}) as found:
        yield found


@pytest.fixture
def unserved(tmp_path: Path) -> Iterator[System]:
    with a_system(tmp_path, CORPUS) as found:
        yield found


@pytest.fixture(scope="module")
def open_to_all(system: System) -> Iterator[LocalServer]:
    """On loopback, with its own token alone."""
    with serving(system) as found:
        yield found


@pytest.fixture(scope="module")
def server(system: System) -> Iterator[LocalServer]:
    """With tokens."""
    with serving(system, TOKENS) as found:
        yield found


class TestTokens:
    @pytest.mark.parametrize("token", ["", "acme-toke", "acme-tokens", "ACME-TOKEN"])
    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", "/status"), ("POST", "/mcp"), ("GET", "/metrics"), ("POST", "/research"), ("GET", "/x")],
    )
    def test_without_a_known_one_nothing_is_answered(
        self, server: LocalServer, token: str, method: str, path: str
    ) -> None:
        found = server(method, path, {"topic": "disk"} if method == "POST" else None, token=token)
        assert found.refusal == (401, "unauthenticated")
        assert found.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/healthz"])
    def test_pages_without_knowledge_need_none(self, server: LocalServer, path: str) -> None:
        assert (server("GET", path).status, server("HEAD", path).data) == (200, b"")

    @pytest.mark.parametrize(
        ("token", "method", "path", "status"),
        [
            ("acme-token", "GET", "/status", 200),
            ("acme-token", "POST", "/ingest/internal/runbooks%2Fprocedures", 403),
            ("acme-writer", "POST", "/ingest/internal/runbooks%2Fprocedures", 202),
            ("acme-token", "GET", "/audit", 403),
            ("acme-admin", "GET", "/audit", 200),
            ("acme-admin", "GET", "/prunings", 403),
            ("operator", "GET", "/prunings", 200),
            ("acme-writer", "GET", "/learning/patterns", 403),
            ("orchestrator", "GET", "/learning/patterns", 200),
            ("acme-token", "GET", "/metrics", 403),
            ("operator", "GET", "/metrics", 200),
        ],
    )
    def test_scopes_decide_as_those_of_tokens_on_aws(
        self, server: LocalServer, token: str, method: str, path: str, status: int
    ) -> None:
        body = {"document": "# Disk\n\nGrow it.", "metadata": {"source": "a.md"}} if method == "POST" else None
        assert server(method, path, body, token=token).status == status


class TestTenants:
    @pytest.mark.parametrize(
        ("token", "own", "of_others", "words"),
        [
            ("acme-token", OF_ACME, OF_RIVAL, "rival safe wheel"),
            ("rival-token", OF_RIVAL, OF_ACME, "acme vault unseal"),
        ],
    )
    def test_two_see_nothing_of_each_other_over_rest(
        self, server: LocalServer, system: System, token: str, own: str, of_others: str, words: str
    ) -> None:
        hidden, seen = id_of(system, of_others), id_of(system, own)
        assert server("GET", f"/documents/{seen}", token=token).status == 200
        assert server("GET", f"/documents/{hidden}", token=token).refusal == (404, "not_found")
        assert server("GET", f"/documents/{hidden}/chunks", token=token).refusal == (404, "not_found")
        assert seen in server("GET", "/documents", token=token).data.decode()
        pages = [
            "/documents",
            f"/search?q={words.replace(' ', '+')}",
            "/objects?under=runbooks",
            "/graph/find?q=" + words.split()[1],
        ]
        for page in pages:
            found = server("GET", page if "search" not in page else f"/knowledge/default{page}", token=token)
            assert hidden.encode() not in found.data
            assert of_others.rpartition("/")[2].encode() not in found.data

    @pytest.mark.parametrize(
        ("token", "own", "of_others"), [("acme-token", OF_ACME, OF_RIVAL), ("rival-token", OF_RIVAL, OF_ACME)]
    )
    def test_nor_over_mcp(self, server: LocalServer, system: System, token: str, own: str, of_others: str) -> None:
        assert not over_mcp(server, token, "read_document", document=id_of(system, own)).is_error
        refused = over_mcp(server, token, "read_document", document=id_of(system, of_others))
        assert (refused.is_error, "no document" in refused.content[0].text) == (True, True)
        found = over_mcp(server, token, "search_docs", query="open the safe, unseal the vault", limit=20)
        text = found.content[0].text
        mine, theirs = (DOCUMENT_TITLES[key] for key in (own, of_others))
        assert (mine in text, theirs in text) == (True, False)


DOCUMENT_TITLES = {OF_ACME: "Unseal the acme vault", OF_RIVAL: "Open the rival safe"}


class TestTools:
    def test_they_answer_over_mcp_with_the_servers_own_token(self, open_to_all: LocalServer) -> None:
        found = over_mcp(open_to_all, OWN_TOKEN, "search_docs", query=DISK_TITLE)
        assert found.content[0].text.startswith(f"Source: {DISK_TITLE}\n")

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
    def test_messages_are_posted(self, open_to_all: LocalServer, method: str) -> None:
        found = open_to_all(method, "/mcp")
        assert (found.status, found.headers["allow"]) == (405, "POST")

    def test_a_message_is_as_limited_as_other_bodies(self, open_to_all: LocalServer) -> None:
        request = f"POST /mcp HTTP/1.1\r\n{own_head(open_to_all)}content-length: {MAX_BODY_BYTES + 1}\r\n\r\n"
        assert open_to_all.raw(request.encode()).startswith(b"HTTP/1.1 413 ")


def own_head(server: LocalServer) -> str:
    """Lines of a head that reach the server."""
    return f"host: {server.address}\r\nauthorization: Bearer {server.token}\r\n"


FOREIGN: list[Mapping[str, str]] = [
    {"host": "knowledge.example.com"},
    {"host": "127.0.0.1.example.com:PORT"},
    {"host": "evil@127.0.0.1:PORT"},
    {"host": "127.0.0.1:PORT#x"},
    {"host": "127.0.0.1:PORT/x"},
    {"host": "127.0.0.1#x"},
    {"host": "127.0.0.1"},
    {"host": "localhost:1"},
    {"host": "[::1"},
    {"host": ""},
    {"origin": "https://example.com"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://127.0.0.1.example.com"},
    {"origin": "http://localhost:1"},
    {"origin": "http://127.0.0.1"},
    {"origin": "https://127.0.0.1:PORT"},
    {"origin": "http://evil@127.0.0.1:PORT"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]
OWN: list[Mapping[str, str]] = [
    {},
    {"host": "localhost:PORT"},
    {"host": "LOCALHOST:PORT"},
    {"host": "[::1]:PORT", "origin": "http://[::1]:PORT"},
    {"origin": "http://localhost:PORT", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
]


def at_port(server: LocalServer, headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text.replace("PORT", server.address.rpartition(":")[2]) for name, text in headers.items()}


class TestThisMachineAlone:
    """A server with its own token alone."""

    @pytest.mark.parametrize("headers", FOREIGN)
    @pytest.mark.parametrize(("method", "path"), [("GET", "/status"), ("POST", "/mcp"), ("GET", "/metrics")])
    def test_requests_for_other_hosts_and_of_other_pages_are_refused(
        self, open_to_all: LocalServer, headers: Mapping[str, str], method: str, path: str
    ) -> None:
        assert open_to_all(method, path, headers=at_port(open_to_all, headers)).refusal == (403, "forbidden")

    @pytest.mark.parametrize("headers", OWN)
    def test_programs_and_own_pages_are_answered(self, open_to_all: LocalServer, headers: Mapping[str, str]) -> None:
        assert open_to_all("GET", "/status", headers=at_port(open_to_all, headers)).status == 200

    @pytest.mark.parametrize("headers", [{}, {"via": "1.1 proxy"}, {"x-forwarded-for": "192.0.2.1"}])
    def test_without_the_token_nobody_is_an_administrator(
        self, open_to_all: LocalServer, headers: Mapping[str, str]
    ) -> None:
        """As behind a proxy that sends the address of the server as its host."""
        assert open_to_all("GET", "/status", token="", headers=headers).refusal == (401, "unauthenticated")

    def test_a_form_of_another_page_is_refused(self, open_to_all: LocalServer) -> None:
        """Browsers send forms to other sites without a request for permission."""
        part = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.md"\r\n\r\n# A\r\n--b--\r\n'
        headers = {"content-type": "multipart/form-data; boundary=b"}
        path = "/ingest/internal/runbooks%2Fprocedures"
        assert open_to_all("POST", path, part.encode(), token="", headers=headers).status == 401

    def test_the_refusal_of_a_wrong_host_names_the_right_one(self, open_to_all: LocalServer) -> None:
        message = open_to_all("GET", "/status", headers={"host": "localhost:1"}).json["error"]["message"]
        assert f"http://{open_to_all.address}" in message


class TestOtherSites:
    def test_with_a_token_a_proxy_may_pass_on_any_host(self, server: LocalServer) -> None:
        headers = {"host": "knowledge.example.com", "x-forwarded-for": "192.0.2.1"}
        assert server("GET", "/status", token="acme-token", headers=headers).status == 200


class TestPaths:
    def test_the_head_of_a_route_is_that_of_its_reply(self, open_to_all: LocalServer) -> None:
        found = open_to_all("HEAD", "/knowledge/default/search?q=disk")
        assert (found.status, found.headers["content-type"], found.data) == (
            200,
            "application/json; charset=utf-8",
            b"",
        )
        assert open_to_all("HEAD", "/nowhere").status == 404

    def test_a_category_may_have_encoded_and_plain_slashes(self, open_to_all: LocalServer) -> None:
        for category in ("runbooks/procedures", "runbooks%2Fprocedures"):
            body = {"document": f"# {category}\n\nGrow it.", "metadata": {"source": f"{category}.md"}}
            assert open_to_all("POST", f"/ingest/internal/{category}", body).status == 202

    @pytest.mark.parametrize(
        "path", ["//status", "/status/", "/Status", "/status%2F", "/../status", "/documents//chunks", "/", "//", "/%00"]
    )
    def test_other_spellings_are_no_routes(self, open_to_all: LocalServer, path: str) -> None:
        assert open_to_all("GET", path).refusal[0] in (400, 404)

    def test_a_host_is_no_part_of_the_path(self, server: LocalServer) -> None:
        assert server("GET", "/status", headers={"host": "x/docs?"}).status == 401
        assert server("GET", "/docs%3Fx", token="acme-token").refusal == (404, "no_such_route")

    @pytest.mark.parametrize("method", ["OPTIONS", "PATCH", "TRACE", "BREW"])
    def test_other_methods_are_no_routes(self, open_to_all: LocalServer, method: str) -> None:
        assert open_to_all(method, "/status").status == 404

    def test_a_wrong_method_names_the_right_ones(self, open_to_all: LocalServer) -> None:
        found = open_to_all("DELETE", "/status")
        assert found.json["error"]["message"] == "there is no route DELETE /status; it takes GET"

    @pytest.mark.parametrize("path", ["/documents/%FF", "/knowledge/default/search?q=%FF", "/status?" + "a=1&" * 1001])
    def test_what_is_not_utf8_or_too_much_is_refused(self, open_to_all: LocalServer, path: str) -> None:
        assert open_to_all("GET", path).refusal == (400, "invalid_argument")


class TestBodies:
    @pytest.mark.parametrize(
        ("content_type", "length"),
        [("application/json", MAX_BODY_BYTES + 1), ("multipart/form-data; boundary=x", bodies.MAX_FORM_BYTES + 1)],
    )
    def test_one_that_is_too_large_is_refused_unread(
        self, open_to_all: LocalServer, content_type: str, length: int
    ) -> None:
        head = f"POST /research HTTP/1.1\r\n{own_head(open_to_all)}content-type: {content_type}\r\ncontent-length: {length}"
        found = open_to_all.raw(f"{head}\r\n\r\n".encode())
        assert found.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in found.lower()

    def test_all_of_them_share_a_limited_memory(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bodies, "MEMORY_BYTES", 100_000)
        half = b"x" * 60_000
        with serving(system) as server, server.connect() as first:
            head = f"POST /research HTTP/1.1\r\n{own_head(server)}content-length: 70000\r\n\r\n".encode()
            assert server("POST", "/research", half).refusal == (400, "invalid_argument")
            first.sendall(head + half)
            while (found := server("POST", "/research", half)).status == 400:
                pass  # the first is not read yet
            assert (found.refusal, found.headers["retry-after"]) == ((503, "unavailable"), "5")
            first.close()
            while server("POST", "/research", half).status == 503:
                pass  # its memory is given back when the server notices

    def test_a_form_of_several_megabytes_becomes_knowledge(self, open_to_all: LocalServer) -> None:
        text = "# Large\n\n" + "Grow the volume by a gigabyte.\n\n" * 200_000
        part = f'--b\r\ncontent-disposition: form-data; name="file"; filename="large.md"\r\n\r\n{text}\r\n--b--\r\n'
        assert len(part) > MAX_BODY_BYTES
        headers = {"content-type": "multipart/form-data; boundary=b"}
        found = open_to_all("POST", "/ingest/internal/runbooks/procedures", part.encode(), headers=headers)
        assert found.status == 202


def test_a_search_is_answered_as_by_the_api(open_to_all: LocalServer, system: System) -> None:
    found = open_to_all("GET", f"/knowledge/default/search?q={DISK_TITLE.replace(' ', '+')}")
    assert found.status == 200
    assert id_of(system, DISK) in str(found.json["results"][0])
    assert found.headers["cache-control"] == "no-store"


def test_an_error_discloses_no_details(
    open_to_all: LocalServer, system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("x-marker-x")

    monkeypatch.setattr(system.questions, "for_reader", broken)
    found = open_to_all("GET", "/knowledge/default/search?q=disk")
    assert (found.refusal, b"x-marker-x" in found.data) == ((500, "internal"), False)
    assert "x-marker-x" in caplog.text


def test_health_is_that_of_the_index(open_to_all: LocalServer, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise OSError("x-marker-x")

    assert open_to_all("GET", "/healthz").json == {"status": "ok"}
    monkeypatch.setattr(system.indexing.index, "count", broken)
    found = open_to_all("GET", "/healthz")
    assert (found.refusal, b"x-marker-x" in found.data) == ((503, "unavailable"), False)


def test_the_folder_of_a_model_is_not_chosen_over_http(open_to_all: LocalServer) -> None:
    found = open_to_all("POST", "/index", {"modelPath": "/etc"})
    assert found.refusal == (403, "forbidden")
    assert "opx reindex --model-path" in found.json["error"]["message"]


# -- gaps are recorded after the reply


def over_rest(server: LocalServer) -> str:
    return server("GET", f"/knowledge/default/search?q={ESPRESSO.replace(' ', '+')}").data.decode()


def over_tools(server: LocalServer) -> str:
    return str(over_mcp(server, server.token, "search_docs", query=ESPRESSO).content[0].text)


@pytest.mark.parametrize("ask", [over_rest, over_tools])
def test_no_reply_waits_for_its_gap_and_the_end_of_the_server_does(
    unserved: System, monkeypatch: pytest.MonkeyPatch, ask: Callable[[LocalServer], str]
) -> None:
    table = unserved.tables.table(GAPS)
    held = HeldTable(table)
    monkeypatch.setattr(unserved.records, "gaps", GapLog(held, days=1, clock=unserved.clock))
    with serving(unserved) as server:
        assert "not recorded" not in ask(server)
        assert list(GapLog(table, days=1, clock=unserved.clock).gaps("global")) == []
        held.free.set()
    assert [gap.question for gap in GapLog(table, days=1, clock=unserved.clock).gaps("global")] == [ESPRESSO]


def test_a_gap_that_can_not_be_recorded_is_logged_and_counted(
    unserved: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unserved.records, "gaps", GapLog(BrokenTable(), days=1, clock=unserved.clock))
    with serving(unserved) as server:
        assert "not recorded" not in over_rest(server)
        while "opx_recording_failures_total 1.0" not in server("GET", "/metrics").data.decode():
            time.sleep(0.02)
    assert "a question without an answer is not among the gaps" in caplog.text
