"""Authors, files and issues of commits, and links and code names of pages."""

from __future__ import annotations

import pytest

from opx.domain.sources import SourceDocument
from tests.support.extraction_support import Extracted, Extraction

SHA = "1f0e" * 10
GITHUB = f"https://github.com/acme/shop/commit/{SHA}"
GITLAB = f"https://git.example.org/ops/infra/shop/-/commit/{SHA}"


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("commits"))


def edges(extracted: Extracted) -> set[str]:
    return {f"{one.source} {one.edge_type} {one.target}" for one in extracted.statements.edges}


def commit(extraction: Extraction, text: str, address: str = GITHUB) -> Extracted:
    facts = {"tags": ["commit"], "author": "Jane Doe", "source_uri": address}
    return extraction.pulled(SourceDocument(SHA, text, facts), "web/forums")


def test_author_creates_the_commit(extraction: Extraction) -> None:
    extracted = commit(extraction, "# Retry\n\nAuthor: Jane Doe\n")
    assert edges(extracted) == {f"user:jane doe creates commit:{SHA}"}
    assert extracted.node("user:jane doe").properties["name"] == "Jane Doe"


def test_modified_files_have_their_kind_of_change(extraction: Extraction) -> None:
    extracted = commit(
        extraction,
        "# Retry\n\n## Changed files\n\n- `src/UserService.kt` (+3, -1)\n- `old.txt`, delete\n- `logo.png`, add\n\n"
        f"relationships:\n- commit:{SHA}|MODIFIES|file:src/UserService.kt\n",
    )
    modified = {one.target: dict(one.properties) for one in extracted.statements.edges if one.edge_type == "modifies"}
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
    extracted = edges(commit(extraction, f"# Retry\n\n{text}\n"))
    assert extracted - {f"user:jane doe creates commit:{SHA}"} == {f"commit:{SHA} {one}" for one in found}


def test_merge_requests_are_gitlab_s(extraction: Extraction) -> None:
    extracted = edges(commit(extraction, "# Retry\n\nSee merge request !8. Resolves #3\n", GITLAB))
    assert f"commit:{SHA} references gitlab:ops/infra/shop!8" in extracted
    assert f"commit:{SHA} fixes gitlab:ops/infra/shop#3" in extracted


def test_without_a_repository_numbers_are_not_issues(extraction: Extraction) -> None:
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
    extracted = extraction.extract(f"# Page\n\nSee {link}.\n", "runbooks/linux/page.md")
    assert edges(extracted) == {f"runbook:linux/page references {target}"}


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
    assert edges(extraction.extract(f"# Page\n\nSee {link}.\n", "runbooks/linux/page.md")) == set()


def test_link_target_is_the_own_reference_of_the_linked_document(extraction: Extraction) -> None:
    for source in ("runbooks/db/failover.md", "postmortems/2024-01.md", "architecture/stores.md", "runbooks/notes.txt"):
        linked = extraction.extract("# Linked\n\ntext\n", source).own
        extracted = extraction.extract(f"# Page\n\n[x](../{source})\n", "runbooks/page.md")
        assert edges(extracted) == {f"runbook:page references {linked}"}


def test_a_page_does_not_reference_itself(extraction: Extraction) -> None:
    extracted = extraction.extract(
        "---\nentity: service:shop\n---\n# Page\n\n[x](./page.md) [y](page.md#z)\n", "runbooks/page.md"
    )
    assert edges(extracted) == set()


def test_pages_document_classes_and_methods_in_code_format(extraction: Extraction) -> None:
    extracted = extraction.extract(
        "# Page\n\n`UserService.login()` fails, see `OrderRepository`.\n", "runbooks/page.md"
    )
    assert edges(extracted) == {
        "runbook:page documents class:userservice",
        "runbook:page documents method:userservice.login",
        "runbook:page documents class:orderrepository",
    }
    assert extracted.node("method:userservice.login").properties["name"] == "UserService.login"


def test_ambiguous_names_are_not_classes(extraction: Extraction) -> None:
    text = "`KubePodCrashLooping` `CPUUtilization` `Service` `OutOfMemoryError` UserService `os.path()` `a.b()` `Never.run`"
    assert edges(extraction.extract(f"# Page\n\n{text}\n", "architecture/page.md")) == set()


def test_commits_document_no_classes(extraction: Extraction) -> None:
    assert not any("documents" in edge for edge in edges(commit(extraction, "# Retry\n\n`UserService` retries\n")))
