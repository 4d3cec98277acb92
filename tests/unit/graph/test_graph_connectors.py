"""Extraction reads the documents of connectors: techniques, issues, pages and commits, each with its own node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.connectors.atlassian.confluence import page_document
from opx.connectors.atlassian.confluence_api import LoadedPage
from opx.connectors.atlassian.jira_documents import issue_document
from opx.connectors.security.attack import attack_document
from opx.connectors.security.attack_bundle import AttackKnowledge
from opx.domain.sources import SourceDocument
from tests.doubles.attack_bundles import a_link, a_technique, an_object
from tests.support.extraction_support import Extracted, Extraction

SHELL = a_technique("T1059", "Command and Scripting Interpreter")
POWERSHELL = a_technique("T1059.001", "PowerShell")
PREVENTION = an_object("course-of-action", "M1038", "Execution Prevention")
BEAR = an_object("intrusion-set", "G0007", "Bear")
LINKS = (
    a_link("subtechnique-of", POWERSHELL, SHELL),
    a_link("mitigates", PREVENTION, SHELL),
    a_link("uses", BEAR, SHELL),
)


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("connectors"))


def pulled(extraction: Extraction, document: SourceDocument, category: str) -> Extracted:
    assert isinstance(document.content, str)
    return extraction.extract(
        document.content, f"{category}/sources/s/{document.key}.md", category=category, **document.metadata
    )


def of_attack(extraction: Extraction, found: dict[str, Any]) -> Extracted:
    known = AttackKnowledge()
    for each in (SHELL, POWERSHELL, PREVENTION, BEAR, *LINKS):
        known.add(each)
    return pulled(extraction, attack_document(known.entries[found["id"]], known), "security/mitre")


def test_technique_and_mitigation_state_the_same_relation(extraction: Extraction) -> None:
    technique, mitigation = of_attack(extraction, SHELL), of_attack(extraction, PREVENTION)
    assert (technique.own, mitigation.own) == ("technique:t1059", "mitigation:m1038")
    assert "mitigation:m1038 mitigates technique:t1059" in technique.edges & mitigation.edges
    assert technique.edges == {
        "mitigation:m1038 mitigates technique:t1059",
        "technique:t1059.001 subtechnique_of technique:t1059",
        "group:g0007 uses technique:t1059",
    }
    assert technique.remarks == mitigation.remarks == ""


def test_issue_is_the_node_of_its_relations(extraction: Extraction) -> None:
    link = {"type": {"name": "Blocks", "outward": "blocks"}, "outwardIssue": {"key": "OPS-9"}}
    fields = {
        "summary": "Login fails",
        "assignee": {"displayName": "Jörg  Müller"},
        "created": "2026-01-01T00:00:00Z",
        "updated": "2026-01-02T00:00:00Z",
        "issuelinks": [link],
    }
    issue = {"key": "OPS-12", "fields": fields}
    document = issue_document(issue, comments=(), more=0, extra={}, root="https://jira.example")
    extracted = pulled(extraction, document, "web/forums")
    assert extracted.own == "jira:ops-12"
    assert extracted.edges == {"jira:ops-12 assigned_to user:jörg müller", "jira:ops-12 blocks jira:ops-9"}


def test_page_is_the_node_of_its_relations(extraction: Extraction) -> None:
    page = LoadedPage(
        id="98304",
        title="Deploy",
        space="OPS",
        body="<p>text</p>",
        parent="98000",
        ancestors=("Home",),
        author="Ann",
        created="2026-01-01T00:00:00Z",
        changed="2026-01-02T00:00:00Z",
        labels=(),
        address="https://acme.atlassian.net/wiki/spaces/OPS/pages/98304/Deploy",
    )
    extracted = pulled(extraction, page_document(page, ()), "web/forums")
    assert extracted.own == "confluence:98304"
    assert extracted.edges == {"confluence:98304 parent confluence:98000"}


def test_commit_is_the_node_of_its_relations(extraction: Extraction, tmp_path: Path) -> None:
    from dulwich import porcelain
    from dulwich.repo import Repo

    from opx.connectors.git_history import CommitReader

    with Repo.init(str(tmp_path)) as repo:
        (tmp_path / "a file.py").write_text("x = 1\n")
        porcelain.add(repo, [str(tmp_path / "a file.py")])
        commit = porcelain.commit(
            repo, message=b"Fix login (OPS-12)", author=b"Ann <a@example.com>", committer=b"Ann <a@example.com>"
        )
        extracted = pulled(extraction, CommitReader(repo, "", ()).document(commit), "web/forums")
    own = f"commit:{commit.decode()}"
    assert extracted.own == own
    assert extracted.edges == {f"{own} modifies file:a file.py", f"{own} fixes jira:ops-12"}
