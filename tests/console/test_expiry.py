"""Tokens that expire while a file is sent in parts, and a browser whose clock is wrong, on the console as it is deployed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.curation.steps import eventually
from tests.console.deployed import DeployedConsole, LocalIssuer
from tests.console.test_ask import QUESTION, ask
from tests.console.test_robustness import AHEAD
from tests.console.test_sign_in import issuer, opened, signed_in, site
from tests.console.test_uploads import DATA, PARTS

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["issuer", "opened", "site"]

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "large.pdf"
    found.write_bytes(DATA)
    return found


def choose(page: Page, file: Path) -> None:
    page.get_by_role("button", name="Upload documents").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").first.click()
    chooser.value.set_files(str(file))


def stored(page: Page, site: DeployedConsole) -> list[Path]:
    page.wait_for_timeout(100)
    found = (site.home / "corpus").rglob("*")
    return [one for one in found if one.is_file() and one.stat().st_size == len(DATA)]


def test_an_upload_goes_on_after_its_token_has_expired(
    opened: Callable[..., Page], site: DeployedConsole, issuer: LocalIssuer, file: Path
) -> None:
    page = signed_in(opened, "#/documents")

    def expire() -> None:
        issuer.ahead = 3600

    site.after_part = expire
    choose(page, file)
    (found,) = eventually(lambda: stored(page, site))
    assert found.read_bytes() == DATA
    assert site.parts == list(range(1, PARTS + 1))
    assert 401 in [call.status for call in site.calls if call.route == "POST /uploads/parts"]
    assert len({call.token for call in site.calls}) == 2


def test_an_upload_whose_session_has_ended_goes_on_after_a_new_sign_in(
    opened: Callable[..., Page], site: DeployedConsole, issuer: LocalIssuer, file: Path
) -> None:
    page = signed_in(opened, "#/documents")

    def end() -> None:
        issuer.ahead = 3600
        issuer.refresh_tokens.clear()

    site.after_part = end
    choose(page, file)
    page.get_by_role("row").filter(has_text="large.pdf").get_by_text("the session of this page has ended").wait_for()
    assert site.parts == [1]
    issuer.ahead = 0
    site.after_part = lambda: None
    page.get_by_role("dialog").get_by_role("button", name="Sign in again").click()
    page.get_by_role("link", name="Sign out (").wait_for()
    choose(page, file)
    (found,) = eventually(lambda: stored(page, site))
    assert found.read_bytes() == DATA
    assert site.parts == list(range(1, PARTS + 1))


def test_a_browser_whose_clock_is_wrong_signs_in_and_stays_so(
    opened: Callable[..., Page], site: DeployedConsole
) -> None:
    page = opened("#/", AHEAD)
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("link", name="Sign out (").wait_for()
    ask(page, QUESTION)
    page.get_by_role("button", name="Resolved it").click()
    page.get_by_text("recorded: resolved").wait_for()
    assert len({call.token for call in site.calls}) == 1
    assert 401 not in [call.status for call in site.calls]
