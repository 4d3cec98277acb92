"""Pulls of documents in repositories: what is fetched, what is only named, and how a pull stays on its commit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.web import HttpWeb
from opx.connectors.connector import Connector
from opx.connectors.registry import checked_options, resolved
from opx.connectors.repository import definition_of
from opx.domain.sources import Page, PullRequest
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx.settings import Settings
from opx_connectors.github import repository_docs
from tests.doubles.github_api import REPOSITORY, GitHubDouble
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.cli_support import word_services
from tests.support.feed_support import Corpus, a_connector

SINCE = "2026-03-01T00:00:00Z"
FILES: dict[str, str | bytes] = {
    "README.md": "# Shop\n\nWelcome.\n",
    "docs/a.md": "# A\n\nFirst.\n",
    "docs/a-b/x.md": "# X\n\nDeeper.\n",
    "docs/z.md": "# Z\n\nLast.\n",
    "docs/picture.png": b"\x89PNG",
    "src/main.py": "print()",
}


def connector(github: GitHubDouble, web: HttpWeb, **options: Any) -> Connector[Any]:
    site = github.site
    given = {
        "repository": REPOSITORY,
        "paths": ("docs",),
        "base_url": site.url(),
        "raw_url": site.url("/raw"),
        **options,
    }
    return a_connector("github_docs", web, given)


def pages(source: Connector[Any], left: Mapping[str, Any] | None = None, **request: Any) -> list[Page]:
    return list(source.pull(PullRequest(SINCE if left else "", left=left or {}, **request)))


def fetched(site: MisbehavingSite) -> list[str]:
    found = [request.path.split("/", 5)[5] for request in site.requests if request.path.startswith("/raw/")]
    site.requests.clear()
    return found


def named(found: list[Page]) -> list[str]:
    return [key for page in found for key in (*(document.key for document in page.documents), *page.unchanged)]


# -- what is read


def test_documents_below_the_paths_are_read_in_order_and_all_named(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit(FILES)
    corpus = Corpus().pull(connector(github, web))
    assert list(corpus.documents) == ["docs/a-b/x.md", "docs/a.md", "docs/z.md"]
    assert corpus.text("docs/a.md") == "# A\n\nFirst.\n"
    assert corpus.last.complete


def test_whole_repository_without_paths(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit(FILES)
    assert next(iter(Corpus().pull(connector(github, web, paths=())).documents)) == "README.md"


def test_patterns_choose_and_exclude_leaves_out(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit({**FILES, "docs/b.txt": "text", "docs/includes/part.MD": "part"})
    source = connector(github, web, patterns=("*.md",), exclude=("*/INCLUDES/*", "docs/z*"))
    assert list(Corpus().pull(source).documents) == ["docs/a-b/x.md", "docs/a.md"]


def test_next_pull_fetches_changed_files_and_lists_the_rest(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite
) -> None:
    github.commit(FILES)
    left = pages(connector(github, web))[-1].cursor
    fetched(site)
    changed = {**FILES, "docs/a.md": "# A\n\nSecond.\n", "docs/new.md": "# New\n\nNew.\n"}
    del changed["docs/z.md"]
    github.commit(changed)
    found = pages(connector(github, web), left)
    assert fetched(site) == ["docs/a.md", "docs/new.md"]
    assert sorted(named(found)) == ["docs/a-b/x.md", "docs/a.md", "docs/new.md"]
    assert found[-1].complete


def test_nothing_is_listed_if_the_tree_is_the_same(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    github.commit(FILES)
    left = pages(connector(github, web))[-1].cursor
    site.requests.clear()
    found = pages(connector(github, web), left)
    assert len(site.requests) == 1
    assert not named(found)
    assert not found[-1].complete
    assert found[-1].cursor == left


def test_all_is_fetched_again_by_a_pull_of_everything(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite
) -> None:
    github.commit(FILES)
    left = pages(connector(github, web))[-1].cursor
    fetched(site)
    list(connector(github, web).pull(PullRequest("", left=left)))
    assert len(fetched(site)) == 3


def test_other_options_fetch_all_again(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    github.commit(FILES)
    left = pages(connector(github, web))[-1].cursor
    fetched(site)
    pages(connector(github, web, exclude=("docs/z.md",)), left)
    assert fetched(site) == ["docs/a-b/x.md", "docs/a.md"]


def test_tree_that_is_gone_means_that_all_is_fetched(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    github.commit(FILES)
    left = pages(connector(github, web))[-1].cursor
    fetched(site)
    site.remove(f"/repos/{REPOSITORY}/git/trees/{left['trees'][REPOSITORY]}")
    github.commit({**FILES, "docs/a.md": "changed"})
    pages(connector(github, web), left)
    assert len(fetched(site)) == 3


def test_pull_stays_on_the_commit_that_it_began_with(
    github: GitHubDouble, web: HttpWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_docs, "FILES_A_PAGE", 1)
    github.commit(FILES)
    corpus = Corpus()
    cursor = corpus.interrupted(connector(github, web), after=2)
    assert list(corpus.documents) == ["docs/a-b/x.md", "docs/a.md"]
    github.commit({"docs/other.md": "new"})
    fetched(github.site)
    corpus.pull(connector(github, web), cursor=cursor)
    assert fetched(github.site) == ["docs/z.md"]
    assert list(corpus.documents) == ["docs/a-b/x.md", "docs/a.md", "docs/z.md"]
    assert corpus.last.complete


def test_cut_listings_are_read_folder_by_folder(github: GitHubDouble, web: HttpWeb) -> None:
    github.most_entries = 2
    github.commit({**FILES, "docs/a/y.md": "y"})
    corpus = Corpus().pull(connector(github, web))
    assert list(corpus.documents) == ["docs/a-b/x.md", "docs/a.md", "docs/a/y.md", "docs/z.md"]


def test_cut_listings_are_compared_like_whole_ones(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    many = {f"docs/{folder}/{name}.md": f"{folder}{name}" for folder in ("a", "a-b", "a.c", "b") for name in "xyz"}
    github.most_entries = 5
    github.commit({**many})
    left = pages(connector(github, web))[-1].cursor
    fetched(site)
    github.commit({**many, "docs/a.c/y.md": "other", "docs/a.md": "new"})
    assert len(named(pages(connector(github, web), left))) == 13
    assert fetched(site) == ["docs/a.c/y.md", "docs/a.md"]


def test_several_paths_are_one_listing(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit({**FILES, "guides/g.md": "g"})
    found = pages(connector(github, web, paths=("guides/", "docs")))
    assert named(found) == ["docs/a-b/x.md", "docs/a.md", "docs/z.md", "guides/g.md"]
    assert [page.complete for page in found] == [False, True]


def test_paths_within_each_other_are_refused(github: GitHubDouble, web: HttpWeb) -> None:
    with pytest.raises(InvalidInputError, match="docs/a is within docs"):
        connector(github, web, paths=("docs/a", "docs"))


# -- documents


def test_address_is_githubs_page_of_the_branch(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    github.commit({"docs/a b.md": "# A"})
    document = Corpus().pull(connector(github, web)).documents["docs/a b.md"]
    assert document.metadata["source_uri"] == f"http://{site.host}/acme/shop/blob/HEAD/docs/a%20b.md"


def test_address_follows_the_pattern(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit(FILES)
    source = connector(github, web, source_uri="https://docs.acme.test/{page}?from={path}")
    document = Corpus().pull(source).documents["docs/a-b/x.md"]
    assert document.metadata["source_uri"] == "https://docs.acme.test/a-b/x?from=docs/a-b/x.md"


def test_files_of_other_formats_are_given_as_they_are(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit({"docs/p.html": "<h1>Page</h1><p>Text"})
    assert Corpus().pull(connector(github, web)).documents["docs/p.html"].content == b"<h1>Page</h1><p>Text"


def test_private_repositories_are_read_through_the_api(
    github: GitHubDouble, web: HttpWeb, site: MisbehavingSite
) -> None:
    github.commit(FILES)
    assert len(Corpus().pull(connector(github, web, raw_url="")).documents) == 3
    assert not fetched(site)


# -- what goes wrong


def test_files_that_cannot_be_documents_are_reported(github: GitHubDouble, web: HttpWeb) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\n"
    github.commit({"docs/a.md": "# A", "docs/big.md": "x" * 200, "docs/blank.md": " \n", "docs/lfs.md": pointer})
    corpus = Corpus().pull(connector(github, web, max_bytes=100))
    assert list(corpus.documents) == ["docs/a.md"]
    assert {key: reason.split()[0] for key, reason in corpus.refused.items()} == {
        "docs/big.md": "has",
        "docs/blank.md": "is",
        "docs/lfs.md": "is",
    }
    assert corpus.last.complete


def test_missing_folder_withdraws_nothing(github: GitHubDouble, web: HttpWeb) -> None:
    github.commit({"README.md": "# Shop"})
    with pytest.raises(SourceRefusedError, match="no folder docs; check the option paths"):
        Corpus().pull(connector(github, web))


def test_file_that_cannot_be_fetched_ends_the_pull(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    commit = github.commit(FILES)
    site.remove(f"/raw/{REPOSITORY}/{commit}/docs/z.md")
    with pytest.raises(SourceRefusedError, match="raw_url"):
        Corpus().pull(connector(github, web))


def test_tree_of_another_shape_ends_the_pull(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    github.commit(FILES)
    tree = next(iter(pages(connector(github, web))[-1].cursor["trees"].values()))
    site.page(f"/repos/{REPOSITORY}/git/trees/{tree}", {"tree": [{"name": "docs"}]})
    with pytest.raises(SourceShapeError):
        Corpus().pull(connector(github, web))
    site.page(f"/repos/{REPOSITORY}/git/trees/{tree}", {"entries": []})
    with pytest.raises(SourceShapeError, match="'tree' is missing"):
        Corpus().pull(connector(github, web))


def test_reply_that_breaks_off_is_fetched_again(github: GitHubDouble, web: HttpWeb, site: MisbehavingSite) -> None:
    commit = github.commit(FILES)
    site.cut(f"/raw/{REPOSITORY}/{commit}/docs/z.md")
    assert Corpus().pull(connector(github, web)).text("docs/z.md") == "# Z\n\nLast.\n"


def test_health_reports_missing_things(github: GitHubDouble, web: HttpWeb) -> None:
    assert "no such repository" in connector(github, web).check().reason
    github.commit(FILES)
    assert connector(github, web).check().ok
    assert "no folder" in connector(github, web, paths=("nowhere",)).check().reason


# -- presets and topics


@pytest.mark.parametrize("kind", ["azure_docs", "linux_kernel", "owasp"])
def test_presets_are_options_of_the_connector(github: GitHubDouble, web: HttpWeb, kind: str) -> None:
    definition = a_connector("github_docs", web, {"repository": "a/b"}).definition
    filled = resolved(type(definition)("feed", kind, definition.category, definition.tier))
    assert filled.kind == "github_docs"
    assert checked_options(filled).repository.count("/") == 1


def test_topics_of_microsoft_learn_are_read_from_their_repositories(github: GitHubDouble, web: HttpWeb) -> None:
    support, monitor = "MicrosoftDocs/SupportArticles-docs", "MicrosoftDocs/azure-monitor-docs"
    github.commit({"support/windows-server/dns/x.md": "# X", "support/sql/y.md": "# Y"}, support)
    github.commit({"articles/azure-monitor/alerts/a.md": "# A", "articles/azure-monitor/includes/i.md": "i"}, monitor)
    site = github.site
    source = a_connector("microsoft_learn", web, {"base_url": site.url(), "raw_url": site.url("/raw")})
    corpus = Corpus().pull(source)
    assert {key: document.metadata["source_uri"] for key, document in corpus.documents.items()} == {
        "azure-monitor-docs/articles/azure-monitor/alerts/a.md": (
            "https://learn.microsoft.com/azure/azure-monitor/alerts/a"
        ),
        "SupportArticles-docs/support/windows-server/dns/x.md": (
            "https://learn.microsoft.com/troubleshoot/windows-server/dns/x"
        ),
    }
    assert corpus.last.complete


def test_unknown_topic_is_refused(web: HttpWeb) -> None:
    with pytest.raises(InvalidInputError, match="unknown topic 'cooking'; allowed: azure/monitoring"):
        a_connector("microsoft_learn", web, {"topics": ("cooking",)})


# -- with the puller


def test_puller_keeps_the_tree_until_the_next_pull(tmp_path: Path, github: GitHubDouble, site: MisbehavingSite) -> None:
    settings = Settings(home=str(tmp_path / "home"), allowed_hosts=site.host)
    options = {"repository": REPOSITORY, "paths": ["docs"], "base_url": site.url(), "raw_url": site.url("/raw")}
    with word_services(settings) as services:
        given = {"kind": "github_docs", "category": "vendor/linux", "options": options}
        services.connectors.sources.register(definition_of("docs", given, services.installation.knowledge))
        github.commit(FILES)
        assert len(services.connectors.puller().pull("docs").put) == 3
        fetched(site)
        changed = {**FILES, "docs/a.md": "# A\n\nSecond.\n"}
        del changed["docs/z.md"]
        github.commit(changed)
        report = services.connectors.puller().pull("docs", accept_missing=True)
        assert fetched(site) == ["docs/a.md"]
        assert (len(report.put), len(report.withdrawn), report.unchanged) == (1, 1, 1)
        services.connectors.puller().pull("docs", everything=True)
        assert len(fetched(site)) == 2
