"""Sign-in to the console as it is on AWS, in a browser: an issuer, tokens in memory, roles by groups."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import EXPECTED
from tests.console.deployed import DeployedConsole, LocalIssuer
from tests.console.test_ask import QUESTION, ask

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

PATIENCE_MS = 90_000
"""The functions start within their first request, in this process, as in a cold start."""


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    found = LocalIssuer()
    found.person = {"email": "ada@example.org", "groups": ["opx-curator", "staff"]}
    with found.running():
        yield found


@pytest.fixture
def site(demo_home: Path, tmp_path: Path, issuer: LocalIssuer) -> Iterator[DeployedConsole]:
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    found = DeployedConsole(home, issuer)
    with found.running():
        yield found


@pytest.fixture
def opened(browser: Browser, site: DeployedConsole) -> Iterator[Callable[..., Page]]:
    """Opens the console in a browser of its own. At the end, the page may have reported no error and no violation of its
    policy."""
    reports: list[str] = []
    with ExitStack() as stack:

        def open_page(address: str = "#/", script: str = "") -> Page:
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.on(
                "console",
                lambda message: (
                    reports.append(message.text)
                    if message.type in ("error", "warning") and not EXPECTED.search(message.text)
                    else None
                ),
            )
            page.on("pageerror", lambda error: reports.append(f"exception: {error}"))
            if script:
                page.add_init_script(script)
            page.goto(f"{site.address}/console/{address}")
            return page

        yield open_page
    assert reports == []


def signed_in(opened: Callable[..., Page], address: str = "#/") -> Page:
    page = opened(address)
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("link", name="Sign out (").wait_for()
    return page


def test_who_signs_in_comes_back_to_the_page_and_gets_an_answer(
    opened: Callable[..., Page], site: DeployedConsole
) -> None:
    page = signed_in(opened, "#/?q=KubePodCrashLooping%20checkout")
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_text("recorded: resolved").wait_for()
    assert page.url == f"{site.address}/console/#/?q=KubePodCrashLooping%20checkout"
    page.get_by_role("link", name="Sign out (ada@example.org)").wait_for()
    assert {call.status for call in site.calls} <= {200, 201, 202}


def test_tokens_are_nowhere_but_in_memory(opened: Callable[..., Page], site: DeployedConsole) -> None:
    page = signed_in(opened)
    ask(page, QUESTION)
    page.get_by_role("button", name="Resolved it").wait_for()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    tokens = {call.token for call in site.calls}
    assert len(tokens) == 1
    assert not [token for token in tokens if token[:20] in kept]
    assert json.loads(kept)[0] == {}
    assert page.context.cookies() == []


def test_a_role_without_an_action_is_refused_in_words(opened: Callable[..., Page], issuer: LocalIssuer) -> None:
    issuer.person["groups"] = ["opx-reader"]
    page = signed_in(opened)
    ask(page, QUESTION)
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_text("the caller may not change documents").wait_for()


def test_a_person_in_no_group_sees_nothing_but_why(opened: Callable[..., Page], issuer: LocalIssuer) -> None:
    issuer.person["groups"] = ["staff"]
    page = signed_in(opened)
    ask(page, QUESTION)
    page.get_by_text("you are in none of the groups that give a role here").first.wait_for()
    assert page.get_by_role("button", name="Resolved it").count() == 0


def test_it_goes_on_after_a_token_has_expired(
    opened: Callable[..., Page], site: DeployedConsole, issuer: LocalIssuer
) -> None:
    page = signed_in(opened)
    ask(page, QUESTION)
    page.get_by_role("button", name="Resolved it").wait_for()
    issuer.ahead = 3600
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_text("recorded: resolved").wait_for()
    last, again = [call for call in site.calls if call.route.startswith("POST /outcomes")][-2:]
    assert (last.status, again.status < 300) == (401, True)
    assert last.token != again.token


def test_a_session_that_ended_is_begun_again_at_the_same_page(
    opened: Callable[..., Page], site: DeployedConsole, issuer: LocalIssuer
) -> None:
    page = signed_in(opened, "#/?q=KubePodCrashLooping%20checkout")
    page.get_by_role("button", name="Resolved it").wait_for()
    issuer.ahead = 3600
    issuer.refresh_tokens.clear()
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_role("dialog").get_by_text("Your session has ended").wait_for()
    issuer.ahead = 0
    page.get_by_role("button", name="Sign in again").click()
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_text("recorded: resolved").wait_for()
    assert page.url.endswith("#/?q=KubePodCrashLooping%20checkout")


def test_who_signs_out_is_signed_out_at_the_issuer_too(opened: Callable[..., Page], issuer: LocalIssuer) -> None:
    page = signed_in(opened)
    page.get_by_role("link", name="Sign out (").click()
    page.get_by_text("You are signed out.").wait_for()
    assert not issuer.knows_browser
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Sign in").wait_for()


def test_a_reply_to_no_question_of_this_page_signs_nobody_in(
    opened: Callable[..., Page], site: DeployedConsole
) -> None:
    page = opened("?code=stolen&state=forged")
    page.get_by_text("not to a sign-in that this page began").wait_for()
    assert page.url == f"{site.address}/console/"
    assert site.calls == []


def test_without_webcrypto_the_page_names_the_remedy(opened: Callable[..., Page]) -> None:
    script = "Object.defineProperty(window, 'isSecureContext', {value: false}); delete Crypto.prototype.subtle"
    opened("#/", script).get_by_text("open the page by its https address").wait_for()


def test_a_token_of_another_issuer_is_refused(issuer: LocalIssuer) -> None:
    assert issuer.claims_of("a.b.c") is None
    forger = LocalIssuer()
    with forger.running():
        forged = json.loads(forger.tokens(iss=issuer.address).body)["id_token"]
    assert issuer.claims_of(json.loads(issuer.tokens().body)["id_token"]) is not None
    assert issuer.claims_of(forged) is None
