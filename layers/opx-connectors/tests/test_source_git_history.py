"""The history of a repository."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from dulwich.server import DictBackend
from dulwich.web import make_wsgi_chain

from opx.connectors.connector import Connector
from opx.domain.sources import PullRequest
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    SourceRefusedError,
    SourceShapeError,
    SourceUnavailableError,
)
from opx_connectors import git_history
from tests.doubles.git_repository import Repository
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.workplace_support import a_connector, documents_of, named, pulled, resumed_after_each, text_of


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo.git")


def test_a_commit_states_its_changes_and_reason(repository: Repository) -> None:
    first = repository.commit("Begin", {"a.py": b"1\n2\n", "old.txt": b"x\n", "logo.png": b"\0"})
    files = {"a.py": b"1\n3\n4\n", "new.txt": b"hello\n", "logo.png": b"\0\1"}
    second = repository.commit("Raise the limit (OPS-12)\n\n# Why\nIt was UTF-8, see OPS-7", files, first)
    found = documents_of(pulled(repository.connector(web_url="https://x.example/p/commit/")))[second]
    assert text_of(found) == (
        "# Raise the limit (OPS-12)\n\n"
        f"- **Commit**: {second}\n- **Author**: Ann A\n- **Date**: 2024-01-02T10:02:00Z\n\n"
        "### Why\nIt was UTF-8, see OPS-7\n\n"
        "## Changed files\n\n"
        "- `a.py` (+2, -1)\n- `logo.png`\n- `new.txt` (+1, -0), add\n- `old.txt` (+0, -1), delete\n\n"
        "relationships:\n"
        f"- commit:{second}|MODIFIES|file:a.py\n- commit:{second}|MODIFIES|file:logo.png\n"
        f"- commit:{second}|MODIFIES|file:new.txt\n- commit:{second}|MODIFIES|file:old.txt\n"
        f"- commit:{second}|FIXES|jira:OPS-12\n- commit:{second}|FIXES|jira:OPS-7\n"
    )
    assert found.metadata == {
        "title": "Raise the limit (OPS-12)",
        "author": "Ann A",
        "created_at": "2024-01-02T10:02:00Z",
        "last_updated": "2024-01-02T10:02:00Z",
        "tags": ["commit"],
        "source_uri": f"https://x.example/p/commit/{second}",
    }


def test_only_issues_of_the_declared_projects_are_named(repository: Repository) -> None:
    only = repository.commit("See OPS-1 and ABC-2", {})
    text = text_of(documents_of(pulled(repository.connector(issue_projects=["ABC"])))[only])
    assert "jira:ABC-2" in text
    assert "jira:OPS-1" not in text


def test_every_commit_is_named_in_every_pull(repository: Repository) -> None:
    made = repository.line(5)
    pages = pulled(repository.connector(known=made[:3]), since="2024-01-01T00:00:00Z")
    assert set(documents_of(pages)) == set(made[3:])
    assert named(pages) == set(made)
    assert pages[-1].complete


def test_a_pull_that_stops_after_any_page_resumes_there(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_history, "PAGE_COMMITS", 4)
    made = repository.line(18)
    for rest, both in resumed_after_each(repository.connector()):
        assert both == set(made)
        assert len(named(rest)) < 18


def test_commits_that_are_made_meanwhile_hide_no_others(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_history, "PAGE_COMMITS", 4)
    made = repository.line(10)
    first = next(iter(repository.connector().pull(PullRequest())))
    repository.commit("Meanwhile", {}, made[-1])
    rest = pulled(repository.connector(), cursor=first.cursor)
    assert named([first, *rest]) == set(made)


def test_commits_that_are_reached_no_more_are_not_named(repository: Repository) -> None:
    made = repository.line(3)
    other = repository.commit("Rewritten", {}, made[0])
    assert named(pulled(repository.connector())) == {made[0], other}


def test_a_cursor_of_commits_that_are_gone_starts_again(repository: Repository) -> None:
    made = repository.line(3)
    assert named(pulled(repository.connector(), cursor={"tips": ["0" * 40], "done": 2})) == set(made)


def test_a_merge_names_what_it_merged_and_no_files(repository: Repository) -> None:
    base = repository.commit("Base", {"a": b"1"})
    left = repository.commit("Left", {"a": b"2"}, base)
    right = repository.commit("Right", {"a": b"1", "b": b"1"}, base, branch="other")
    merge = repository.commit("Merge", {"a": b"2", "b": b"1"}, left, right)
    found = documents_of(pulled(repository.connector()))
    assert set(found) == {base, left, right, merge}
    assert f"- **Merges**: {right[:12]}" in text_of(found[merge])
    assert "Changed files" not in text_of(found[merge])
    assert set(documents_of(pulled(repository.connector(skip_merges=True)))) == {base, left, right}


def test_branches_are_read_beside_each_other(repository: Repository) -> None:
    base = repository.commit("Base", {})
    left = repository.commit("Left", {"a": b"2"}, base)
    right = repository.commit("Right", {"b": b"1"}, base, branch="other")
    repository.repo.refs[b"refs/remotes/origin/fetched"] = left.encode()
    assert named(pulled(repository.connector(branches=["other"]))) == {base, right}
    assert named(pulled(repository.connector(branches=["other", "fetched"]))) == {base, left, right}


def test_of_many_files_the_first_are_listed(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_history, "MAX_FILES", 3)
    only = repository.commit("Import", {f"f{number}": b"x" for number in range(10)})
    text = text_of(documents_of(pulled(repository.connector()))[only])
    assert "- `f2` (+1, -0), add\n- and 7 more files" in text
    assert text.count("MODIFIES") == 3


def test_bytes_of_another_encoding_are_read(repository: Repository) -> None:
    latin = repository.commit("", {}, raw="Größe".encode("latin-1"), encoding=b"ISO-8859-1")
    wrong = repository.commit("", {}, latin, raw=b"Gr\xf6\xdfe\0", encoding=b"no-such")
    found = documents_of(pulled(repository.connector()))
    assert found[latin].metadata["title"] == "Größe"
    assert "\0" not in text_of(found[wrong])


def test_a_commit_without_words_has_a_title(repository: Repository) -> None:
    only = repository.commit("", {}, author=b"<x@example.org>")
    found = documents_of(pulled(repository.connector()))[only]
    assert found.metadata["title"] == f"Commit {only[:12]}"
    assert found.metadata["author"] == "x@example.org"


def test_a_commit_whose_files_are_missing_is_refused(repository: Repository) -> None:
    base = repository.commit("Base", {"a": b"1"})
    tree = repository.tree({"a": b"2"}).decode()
    top = repository.commit("Top", {"a": b"2"}, base)
    (repository.path / "objects" / tree[:2] / tree[2:]).unlink()
    pages = pulled(repository.connector())
    assert set(documents_of(pages)) == {base}
    assert [each.key for page in pages for each in page.refused] == [top]


def test_a_history_with_holes_withdraws_nothing(repository: Repository) -> None:
    made = repository.line(3)
    (repository.path / "objects" / made[0][:2] / made[0][2:]).unlink()
    with pytest.raises(SourceShapeError, match="is incomplete"):
        pulled(repository.connector())


def test_the_end_of_a_shallow_clone_is_read_without_files(repository: Repository) -> None:
    made = repository.line(3)
    (repository.path / "objects" / made[0][:2] / made[0][2:]).unlink()
    (repository.path / "shallow").write_text(made[1] + "\n")
    found = documents_of(pulled(repository.connector()))
    assert set(found) == set(made[1:])
    assert "Changed files" not in text_of(found[made[1]])
    assert "Changed files" in text_of(found[made[2]])


def test_health_reports_a_folder_without_repository(tmp_path: Path) -> None:
    assert "not a readable git repository" in a_connector("git_history", path=str(tmp_path)).check().reason


def test_a_repository_without_commits_shows_in_the_health(repository: Repository) -> None:
    assert "no commits on" in repository.connector().check().reason
    repository.line(1)
    assert repository.connector().health_check()
    with pytest.raises(SourceRefusedError, match="nope"):
        pulled(repository.connector(branches=["nope"]))


@pytest.mark.parametrize("options", [{}, {"path": "/a", "url": "https://x.example/p"}, {"path": "here"}])
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="path"):
        a_connector("git_history", **options)


# -- at an address


class GitServer:
    """A repository as dulwich serves it. `passed` are the requests, `password` what they must have."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.passed: list[str] = []
        self.authorization = ""
        self._application = make_wsgi_chain(DictBackend({"/team/p.git": repository.repo}))
        self.server = make_server("127.0.0.1", 0, self._answer, handler_class=_Quiet)
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def _answer(self, environ: dict[str, Any], start: Any) -> Any:
        self.passed.append(environ["PATH_INFO"])
        if self.authorization and environ.get("HTTP_AUTHORIZATION") != self.authorization:
            start("401 Unauthorized", [])
            return [b""]
        return self._application(environ, start)

    def connector(self, **options: Any) -> Connector[Any]:
        known, tools = options.pop("known", ()), options.pop("tools", None)
        url = f"http://127.0.0.1:{self.server.server_port}/team/p.git"
        return a_connector("git_history", known=known, tools=tools, **{"url": url, **options})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(repository: Repository) -> Iterator[GitServer]:
    with GitServer(repository) as server:
        yield server


def test_a_history_is_fetched_from_an_address(served: GitServer) -> None:
    made = served.repository.line(5)
    pages = pulled(served.connector(known=made[:2]), since="2024-01-01T00:00:00Z")
    assert set(documents_of(pages)) == set(made[2:])
    assert named(pages) == set(made)
    assert "- `a`" in text_of(documents_of(pages)[made[4]])


def test_branches_are_fetched_by_name(served: GitServer) -> None:
    base = served.repository.commit("Base", {})
    right = served.repository.commit("Right", {"b": b"1"}, base, branch="other")
    served.repository.commit("Left", {"a": b"2"}, base)
    assert named(pulled(served.connector(branches=["other"]))) == {base, right}
    with pytest.raises(SourceRefusedError, match="nope"):
        pulled(served.connector(branches=["nope"]))


def test_a_fetch_that_stops_after_any_page_resumes_there(served: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_history, "PAGE_COMMITS", 4)
    made = served.repository.line(10)
    for _, both in resumed_after_each(served.connector()):
        assert both == set(made)


def test_a_token_logs_in(served: GitServer) -> None:
    served.repository.line(1)
    served.authorization = "Basic eC1hY2Nlc3MtdG9rZW46Z2l0LXZhbHVl"
    assert served.connector(token_secret="git").health_check()
    assert "credentials" in served.connector().check().reason


def test_a_private_address_is_not_requested(served: GitServer) -> None:
    served.repository.line(1)
    with pytest.raises(ForbiddenAddressError):
        pulled(served.connector(tools={"addresses": None}))
    assert not served.passed


def test_a_redirect_is_not_followed(served: GitServer) -> None:
    with MisbehavingSite() as site:
        site.redirect("/p/info/refs", f"http://127.0.0.1:{served.server.server_port}/team/p.git/info/refs")
        with pytest.raises(SourceUnavailableError, match="302"):
            pulled(a_connector("git_history", url=site.url("/p")))
    assert not served.passed


def test_a_history_that_is_too_large_is_refused(served: GitServer) -> None:
    served.repository.commit("Large", {f"f{number}": b"x" for number in range(200)})
    with pytest.raises(SourceRefusedError, match="max_bytes"):
        pulled(served.connector(max_bytes=1000))


@pytest.mark.parametrize("body", [b"", b"hello", b"0004", b"001e# service=git-upload-pack\n0000zzzz", b"0000" * 9])
def test_a_malformed_history_ingests_nothing(body: bytes) -> None:
    with MisbehavingSite() as site:
        site.page("/p/info/refs", body, kind="application/x-git-upload-pack-advertisement")
        with pytest.raises((SourceUnavailableError, SourceShapeError, SourceRefusedError)):
            pulled(a_connector("git_history", url=site.url("/p")))


def test_an_address_without_a_repository_shows_in_the_health() -> None:
    with MisbehavingSite() as site:
        assert "no repository" in a_connector("git_history", url=site.url("/p")).check().reason
