"""Connectors of each sort, on files of this machine and on doubles of services, pass the contract of connectors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from opx.connectors import files
from opx.connectors.connector import Connector
from opx_connectors.web import feed
from opx_testing.connector import Connect, ConnectorContract
from tests.doubles.github_api import REPOSITORY, GitHubDouble, a_discussion, an_issue
from tests.doubles.misbehaving_site import Answer, MisbehavingSite, a_web
from tests.support.feed_support import a_connector
from tests.support.web_support import a_directory, html, rss, rss_item


class TestDirectory(ConnectorContract):
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(files, "PAGE_BYTES", 10)
        folder = tmp_path / "runbooks"
        (folder / "deep").mkdir(parents=True)
        for name in ("a.md", "b.md", "deep/a.md"):
            (folder / name).write_text(f"# Runbook {name}\n")
        return folder

    @pytest.fixture
    def connect(self, folder: Path) -> Connect:
        return lambda: a_directory(folder, max_bytes=100)

    @pytest.fixture
    def malform(self, folder: Path) -> Callable[[], str]:
        def write_too_much() -> str:
            (folder / "b.md").write_text("x" * 101)
            return "b.md"

        return write_too_much

    @pytest.fixture(params=["missing", "a file"])
    def fail(self, request: pytest.FixtureRequest, folder: Path) -> Callable[[], None]:
        def remove() -> None:
            shutil.rmtree(folder)
            if request.param != "missing":
                folder.write_text("no folder")

        return remove


class ServiceContract(ConnectorContract):
    """A connector of an HTTP API or a site: with the failures that all have, at the address `target`."""

    kind = target = ""

    def options(self, site: MisbehavingSite) -> dict[str, Any]:
        raise NotImplementedError

    @pytest.fixture
    def connect(self, site: MisbehavingSite) -> Iterator[Connect]:
        with ExitStack() as opened:

            def connector() -> Connector[Any]:
                web = opened.enter_context(closing(a_web(site)))
                return a_connector(self.kind, web, self.options(site), token="t")

            yield connector

    @pytest.fixture(
        params=[
            *(Answer(status) for status in (400, 401, 403, 404, 410, 429, 500, 503)),
            *(
                Answer(200, body)
                for body in (b"", b"\x00\xff", b"[", b"{}", b"null", b'[{"number": null}]', html("Sorry"))
            ),
            Answer(hang_up=True),
            Answer(200, b"[]", declared_length=9),
        ],
        ids=lambda answer: f"{answer.status} {answer.body[:12]!r} {answer.hang_up or answer.declared_length}",
    )
    def fail(self, request: pytest.FixtureRequest, site: MisbehavingSite) -> Callable[[], None]:
        return lambda: site.on(self.target, request.param)


class TestFeed(ServiceContract):
    kind, target = "feed", "/feed"

    def options(self, site: MisbehavingSite) -> dict[str, Any]:
        return {"urls": [site.url("/feed")]}

    @pytest.fixture(autouse=True)
    def entries(self, site: MisbehavingSite) -> list[str]:
        entries = [rss_item(number) for number in range(2 * feed.BATCH + 1)]
        site.page("/feed", rss(entries))
        return entries

    @pytest.fixture
    def malform(self, site: MisbehavingSite, entries: list[str]) -> Callable[[], str]:
        def empty_one() -> str:
            site.page("/feed", rss(["<item><guid isPermaLink='false'>post-0</guid></item>", *entries[1:]]))
            return f"{site.host}/post-0"

        return empty_one


class GitHubContract(ServiceContract):
    @pytest.fixture(autouse=True)
    def github(self, site: MisbehavingSite) -> GitHubDouble:
        github = GitHubDouble(site, most=2)
        for number in range(1, 6):
            github.put(an_issue(number))
            github.discussions[number] = a_discussion(number)
        return github

    def options(self, site: MisbehavingSite) -> dict[str, Any]:
        return {"repository": REPOSITORY, "base_url": site.url()}


class TestGitHubIssues(GitHubContract):
    kind, target = "github_issues", f"/repos/{REPOSITORY}/issues"

    @pytest.fixture
    def malform(self, github: GitHubDouble) -> Callable[[], str]:
        def change_a_title() -> str:
            github.put(an_issue(3, title=["no", "text"]))
            return "issues/3"

        return change_a_title


class TestGitHubDiscussions(GitHubContract):
    kind, target = "github_discussions", "/graphql"

    def options(self, site: MisbehavingSite) -> dict[str, Any]:
        return {**super().options(site), "token_secret": "token"}

    @pytest.fixture
    def malform(self, github: GitHubDouble) -> Callable[[], str]:
        def change_a_title() -> str:
            github.discussions[3] = a_discussion(3, title=["no", "text"])
            return "discussions/3"

        return change_a_title
