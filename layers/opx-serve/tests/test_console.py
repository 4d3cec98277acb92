"""The console's sessions and files: who may use the server once the console is open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve.console import HEADERS, KEY_SECONDS, MAX_SESSIONS, ConsoleFiles, ConsoleSessions, MissingConsoleError
from tests.support.cli_support import WordEmbedder
from tests.support.serving_support import LocalServer, Reply, serving

pytestmark = pytest.mark.enable_socket

STATUS = "/status"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with bootstrap(Settings(home=str(tmp_path_factory.mktemp("home"))), embedder=WordEmbedder()) as system:
        yield system


@pytest.fixture
def sessions() -> ConsoleSessions:
    return ConsoleSessions()


@pytest.fixture
def server(system: System, sessions: ConsoleSessions) -> Iterator[LocalServer]:
    with serving(system, sessions=sessions) as server:
        yield server


def opened(server: LocalServer, sessions: ConsoleSessions) -> dict[str, str]:
    """The header with the cookie of a browser that opened the console."""
    reply = server("GET", f"/console/?key={sessions.new_key()}")
    assert (reply.status, reply.headers["location"]) == (303, "/console/")
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


def from_page(server: LocalServer, cookie: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request by the console's own page."""
    return {**cookie, "origin": f"http://{server.address}", "sec-fetch-site": "same-origin"}


class TestSessions:
    def test_without_one_nobody_gets_anything(self, server: LocalServer) -> None:
        assert server("GET", STATUS).refusal == (401, "unauthenticated")
        assert server("GET", STATUS, headers={"cookie": "opx_console_1=guess"}).status == 401

    def test_the_key_of_the_address_opens_one(self, server: LocalServer, sessions: ConsoleSessions) -> None:
        cookie = opened(server, sessions)
        assert server("GET", STATUS, headers=from_page(server, cookie)).json["documents"] == 0

    def test_its_cookie_is_out_of_reach_of_scripts_and_other_sites(
        self, server: LocalServer, sessions: ConsoleSessions
    ) -> None:
        cookie = server("GET", f"/console/?key={sessions.new_key()}").headers["set-cookie"]
        assert re.fullmatch(r"opx_console_\d+=[\w-]{32}; Path=/; HttpOnly; SameSite=Strict", cookie)

    def test_a_key_opens_one_only(self, server: LocalServer, sessions: ConsoleSessions) -> None:
        key = sessions.new_key()
        assert server("GET", f"/console/?key={key}").status == 303
        again = server("GET", f"/console/?key={key}")
        assert (again.status, "set-cookie" in again.headers) == (403, False)
        assert b"Enter in `opx console` prints a new one" in again.data

    @pytest.mark.parametrize("key", ["", "x", "é" * 9, "%00"])
    def test_another_key_opens_none(self, server: LocalServer, sessions: ConsoleSessions, key: str) -> None:
        sessions.new_key()
        reply = server("GET", "/console/?key=" + "".join(c if c.isascii() else "%C3%A9" for c in key))
        assert (reply.status, "set-cookie" in reply.headers) == (403, False)

    def test_the_oldest_ends_for_one_too_many(self) -> None:
        sessions = ConsoleSessions()
        found = [sessions.open(sessions.new_key()) or "" for _ in range(MAX_SESSIONS + 1)]
        assert [sessions.has(one) for one in found] == [False, *[True] * MAX_SESSIONS]

    @pytest.mark.parametrize(
        "headers",
        [
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {},
        ],
    )
    @pytest.mark.parametrize("path", ["/gaps/close", "/failures/retry"])
    def test_the_pages_of_others_can_do_nothing_with_it(
        self, server: LocalServer, sessions: ConsoleSessions, headers: Mapping[str, str], path: str
    ) -> None:
        cookie = opened(server, sessions)
        assert server("POST", path, {}, headers={**cookie, **headers}).status in (401, 403)

    def test_an_old_key_opens_none(self) -> None:
        now = [0.0]
        sessions = ConsoleSessions(lambda: now[0])
        fresh, old = sessions.new_key(), sessions.new_key()
        now[0] = KEY_SECONDS
        assert sessions.open(fresh)
        now[0] += 1
        assert sessions.open(old) is None

    def test_a_page_of_another_site_may_lead_to_it(self, server: LocalServer, sessions: ConsoleSessions) -> None:
        """As the file that opens a browser does."""
        reply = server("GET", f"/console/?key={sessions.new_key()}", headers={"sec-fetch-site": "cross-site"})
        assert (reply.status, "set-cookie" in reply.headers) == (303, True)


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "assets").mkdir()
        (tmp_path / "index.html").write_text("<!doctype html>")
        (tmp_path / "assets" / "index-1a2b.js").write_text("export {}")
        (tmp_path / ".secret").write_text("no")
        return tmp_path

    def test_the_page_is_checked_again_and_the_rest_kept(self, folder: Path) -> None:
        files = ConsoleFiles(folder)
        page, script = files.get(""), files.get("assets/index-1a2b.js")
        assert page is not None
        assert script is not None
        assert (page.headers["content-type"], page.headers["cache-control"]) == ("text/html", "no-cache")
        assert "javascript" in script.headers["content-type"]
        assert "immutable" in script.headers["cache-control"]

    def test_each_has_the_policy(self, folder: Path) -> None:
        page = ConsoleFiles(folder).get("index.html")
        assert page is not None
        assert page.headers.items() >= HEADERS.items()
        assert "unsafe" not in HEADERS["content-security-policy"]

    @pytest.mark.parametrize(
        "path",
        ["../index.html", "assets/../index.html", ".secret", "/etc/passwd", "assets", "a/b/c", "assets/", "..\\x"],
    )
    def test_nothing_else_is_served(self, folder: Path, path: str) -> None:
        assert ConsoleFiles(folder).get(path) is None

    def test_a_console_that_was_not_built_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(MissingConsoleError, match="make console"):
            ConsoleFiles(tmp_path).check()


class TestPages:
    def test_the_root_leads_to_it(self, server: LocalServer) -> None:
        assert server("GET", "/").headers["location"] == "/console/"

    def test_an_unknown_file_is_an_error(self, server: LocalServer) -> None:
        assert server("GET", "/console/assets/nope.js").refusal == (404, "not_found")

    def test_a_server_without_the_console_has_none(self, system: System) -> None:
        with serving(system) as server:
            reply: Reply = server("GET", "/console/")
        assert reply.status == 404
