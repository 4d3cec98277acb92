"""Nothing in a document, a title, a link, a picture or a file's name does anything in the browser; nobody else gets in."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.served import OPX, Console, running
from tests.console.test_ask import ask

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

ATTACK = """# Router <img src=x onerror="document.title='owned'"> restart

<script>document.title = "owned"</script>

[click](javascript:document.title='owned') and ![pic](https://evil.example/p.png)

<svg onload="document.title='owned'"><a href="javascript:alert(1)">x</a></svg>

1. Restart the router zorblax: `systemctl restart <script>document.title='owned'</script>`
"""


@pytest.mark.core
def test_scripts_in_a_document_do_nothing(console: Console, opened: Callable[..., Page], tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "<img src=x onerror=document.title=1>.md").write_text(ATTACK)
    command = [str(OPX), "--home", str(console.home), "ingest", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    page = opened()
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    ask(page, "zorblax router restart")
    page.get_by_role("link", name="Open the document").click()
    page.get_by_role("heading", name="Router").first.wait_for()
    page.wait_for_timeout(500)
    assert page.title() == "OPX Knowledge"
    assert page.locator("a[href^='javascript:' i]").count() == 0
    assert [url for url in requested if not url.startswith((f"http://{console.host}/", "data:"))] == []


@pytest.mark.core
def test_an_address_opens_one_browser(console: Console, browser: Browser) -> None:
    address = console.address()
    for expected in (200, 403):
        context = browser.new_context()
        reply = context.new_page().goto(address)
        assert reply is not None
        assert reply.status == expected
        context.close()


def test_a_page_without_a_session_names_the_command(console: Console, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://{console.host}/console/#/inbox")
    page.get_by_text("run `opx console` for a new address").first.wait_for()
    context.close()


def test_a_server_that_comes_back_answers(console: Console, opened: Callable[..., Page]) -> None:
    page = opened()
    page.route("**/knowledge/**", lambda route: route.abort())
    ask(page, "KubePodCrashLooping")
    page.get_by_text("the server can't be reached").wait_for()
    page.unroute("**/knowledge/**")
    page.get_by_role("button", name="Resolved it").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_two_tenants_see_nothing_of_each_other(tmp_path: Path, browser: Browser, width: int, scheme: str) -> None:
    home = tmp_path / "home"
    for client in ("acme", "rival"):
        page_of = tmp_path / f"{client}.md"
        page_of.write_text(f"# Vault of {client}\n\nThe {client} vault xyzzy is sealed: call the {client} keepers.\n")
        command = [str(OPX), "--home", str(home), "--client", client, "ingest", str(page_of)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    with running(home, "--client", "acme") as acme, running(home, "--client", "rival") as rival:
        for own, other, console in (("acme", "rival", acme), ("rival", "acme", rival)):
            context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
            page = context.new_page()
            page.goto(console.address())
            ask(page, "xyzzy vault is sealed")
            page.get_by_text(f"Vault of {own}").first.wait_for()
            assert f"Vault of {other}" not in page.content()
            page.goto(f"http://{console.host}/console/#/documents")
            page.get_by_text(f"Vault of {own}").first.wait_for()
            assert f"Vault of {other}" not in page.content()
            context.close()
