"""What commits say of authors, files and issues, and what pages point at."""

from __future__ import annotations

import pytest

from tests.support.extraction_support import Extraction, Said

SHA = "1f0e" * 10
GITHUB = f"https://github.com/acme/shop/commit/{SHA}"
GITLAB = f"https://git.example.org/ops/infra/shop/-/commit/{SHA}"


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("commits"))


def edges(said: Said) -> set[str]:
    return {f"{one.source} {one.edge_type} {one.target}" for one in said.statements.edges}


def commit(extraction: Extraction, text: str, address: str = GITHUB) -> Said:
    source = f"sources/shop/{SHA}.md"
    return extraction.said(text, source, tags=["commit"], author="Jane Doe", source_uri=address)


def test_author_makes_the_commit(extraction: Extraction) -> None:
    said = commit(extraction, "# Retry\n\nAuthor: Jane Doe\n")
    assert edges(said) == {f"user:jane doe creates commit:{SHA}"}
    assert said.node("user:jane doe").properties["name"] == "Jane Doe"


def test_files_are_modified_in_the_way_that_the_listing_says(extraction: Extraction) -> None:
    said = commit(
        extraction,
        "# Retry\n\n## Changed files\n\n- `src/UserService.kt` (+3, -1)\n- `old.txt`, delete\n- `logo.png`, add\n\n"
        f"relationships:\n- commit:{SHA}|MODIFIES|file:src/UserService.kt\n",
    )
    modified = {one.target: dict(one.properties) for one in said.statements.edges if one.edge_type == "modifies"}
    assert modified == {
        "file:src/userservice.kt": {"change": "modify", "added": 3, "removed": 1},
        "file:old.txt": {"change": "delete"},
        "file:logo.png": {"change": "add"},
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Retry (#12)", {"references github:acme/shop#12"}),
        ("Fixes #12, closes: #13", {"fixes github:acme/shop#12", "fixes github:acme/shop#13"}),
        ("See other/repo#7", {"references github:other/repo#7"}),
        ("Merge pull request #9 from jane/retry", {"references github:acme/shop#9"}),
        ("prefix#12 and color #fff and issue-#x and !5", set()),
        ("https://example.org/page/#12", set()),
    ],
)
def test_issues_are_those_of_the_repository(extraction: Extraction, text: str, found: set[str]) -> None:
    said = edges(commit(extraction, f"# Retry\n\n{text}\n"))
    assert said - {f"user:jane doe creates commit:{SHA}"} == {f"commit:{SHA} {one}" for one in found}


def test_merge_requests_are_gitlab_s(extraction: Extraction) -> None:
    said = edges(commit(extraction, "# Retry\n\nSee merge request !8. Resolves #3\n", GITLAB))
    assert f"commit:{SHA} references gitlab:ops/infra/shop!8" in said
    assert f"commit:{SHA} fixes gitlab:ops/infra/shop#3" in said


def test_without_a_repository_numbers_are_no_issues(extraction: Extraction) -> None:
    assert edges(commit(extraction, "# Retry\n\nFixes #12\n", "")) == {f"user:jane doe creates commit:{SHA}"}


# -- pages


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("[x](ingress-502.md)", "runbook:linux/ingress-502"),
        ("[x](../ingress-502.md#step-2)", "runbook:ingress-502"),
        ('[x](<../ingress-502.md> "Title")', "runbook:ingress-502"),
        ("[x](./../../postmortems/2024-01-rds.md)", "incident:2024-01-rds"),
        ("[x](../../code/src/UserService.kt)", "file:code/src/userservice.kt"),
        ("[x](disk%20full.md)", "runbook:linux/disk full"),
    ],
)
def test_relative_links_lead_to_documents(extraction: Extraction, link: str, target: str) -> None:
    said = extraction.said(f"# Page\n\nSee {link}.\n", "runbooks/linux/page.md")
    assert edges(said) == {f"runbook:linux/page references {target}"}


@pytest.mark.parametrize(
    "link",
    [
        "[x](https://example.org/a.md)",
        "[x](//example.org/a.md)",
        "[x](/a.md)",
        "[x](#step)",
        "[x](mailto:a@example.org)",
        "![x](shot.md)",
        "[x](page.md)",
        "[x](../../../../secret.md)",
        "[x](../../../clients/other/documents/runbooks/a.md)",
        "[x](notes)",
        "[x](..\\a.md)",
        "[x](" + "a" * 600 + ".md)",
    ],
)
def test_other_links_lead_nowhere(extraction: Extraction, link: str) -> None:
    assert edges(extraction.said(f"# Page\n\nSee {link}.\n", "runbooks/linux/page.md")) == set()


def test_link_s_reference_is_what_the_linked_document_calls_itself(extraction: Extraction) -> None:
    for source in ("runbooks/db/failover.md", "postmortems/2024-01.md", "architecture/stores.md", "runbooks/notes.txt"):
        linked = extraction.said("# Linked\n\ntext\n", source).own
        said = extraction.said(f"# Page\n\n[x](../{source})\n", "runbooks/page.md")
        assert edges(said) == {f"runbook:page references {linked}"}


def test_a_page_does_not_reference_itself(extraction: Extraction) -> None:
    said = extraction.said(
        "---\nentity: service:shop\n---\n# Page\n\n[x](./page.md) [y](page.md#z)\n", "runbooks/page.md"
    )
    assert edges(said) == set()


def test_pages_document_classes_and_methods_in_code_format(extraction: Extraction) -> None:
    said = extraction.said("# Page\n\n`UserService.login()` fails, see `OrderRepository`.\n", "runbooks/page.md")
    assert edges(said) == {
        "runbook:page documents class:userservice",
        "runbook:page documents method:userservice.login",
        "runbook:page documents class:orderrepository",
    }
    assert said.node("method:userservice.login").properties["name"] == "UserService.login"


def test_what_only_looks_a_little_like_a_class_is_none(extraction: Extraction) -> None:
    text = "`KubePodCrashLooping` `CPUUtilization` `Service` `OutOfMemoryError` UserService `os.path()` `a.b()` `Never.run`"
    assert edges(extraction.said(f"# Page\n\n{text}\n", "architecture/page.md")) == set()


def test_commits_document_no_classes(extraction: Extraction) -> None:
    assert not any("documents" in edge for edge in edges(commit(extraction, "# Retry\n\n`UserService` retries\n")))
