"""Documents of connectors, pulled and shown by `opx graph show`: each is the node of its own relations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.doubles import github_api, jira
from tests.doubles.attack_bundles import a_link, a_technique, an_object, publish
from tests.doubles.confluence_wiki import Wiki, Written
from tests.doubles.git_repository import Repository
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.doubles.nvd_api import NvdDouble
from tests.doubles.rfc_editor import RfcEditor
from tests.support.cli_support import Opx

PERMANENT = "runbooks/architecture"
"""A category that keeps documents of any age."""


class PulledHome:
    """Adds sources to a home and pulls them, with the command alone."""

    def __init__(self, opx: Opx, site: MisbehavingSite) -> None:
        self._opx = opx
        self._site = site

    def pull(self, source_id: str, kind: str, options: Mapping[str, Any], category: str = PERMANENT) -> None:
        given = [text for name, value in options.items() for text in ("--option", f"{name}={json.dumps(value)}")]
        self._run("source", "add", source_id, "--kind", kind, "--category", category, *given)
        self._run("source", "pull", source_id)

    def node(self, reference: str) -> dict[str, Any]:
        """The answer of `opx graph show`."""
        found: dict[str, Any] = json.loads(self._run("graph", "show", reference, "--json"))
        return found

    def edges(self, reference: str) -> set[str]:
        found = self.node(reference)
        return {f"{one['from']} {one['edgeType']} {one['to']}" for one in found["edges"]}

    def title(self, reference: str) -> str:
        """The title that the node has from its own document."""
        node = self.node(reference)["node"]
        assert node["declared"], f"{reference} is only mentioned"
        return str(node["properties"]["title"])

    def has(self, reference: str) -> bool:
        return self._opx("graph", "show", reference).exit_code == 0

    def _run(self, *arguments: str) -> str:
        result = self._opx(*arguments, OPX_ALLOWED_HOSTS=self._site.host)
        assert result.exit_code == 0, result.output
        return result.stdout


FILE = b"x = 1\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("git") / "shop.git")


@pytest.fixture(scope="module")
def commits(repository: Repository) -> tuple[str, str, str]:
    """Two commits one after the other, and their merge."""
    first = repository.commit("Begin", {"a file.py": FILE})
    second = repository.commit("Fix login (OPS-12)\n\nSee OPS-9.", {"a file.py": b"x = 2\n", "B.py": FILE}, first)
    return first, second, repository.commit("Merge it", {"a file.py": b"x = 2\n", "B.py": FILE}, first, second)


@pytest.fixture(scope="module")
def home(
    tmp_path_factory: pytest.TempPathFactory, repository: Repository, commits: tuple[str, ...]
) -> Iterator[PulledHome]:
    assert commits
    with MisbehavingSite() as site:
        made = PulledHome(Opx(tmp_path_factory.mktemp("pulled")), site)
        made.pull(
            "shop", "git_history", {"path": str(repository.path), "web_url": "https://github.com/acme/shop/commit"}
        )
        for add in (add_issues, add_pages, add_rfc, add_cve, add_attack, add_github_issue):
            add(made, site)
        yield made


def add_issues(home: PulledHome, site: MisbehavingSite) -> None:
    links = [{"type": {"name": "Blocks", "outward": "blocks"}, "outwardIssue": {"key": "OPS-9"}}]
    service = jira.Jira(site)
    service.issues = [
        jira.an_issue(12, summary="Login fails", assignee={"displayName": "Jörg  Müller"}, issuelinks=links)
    ]
    home.pull("tickets", "jira", {"base_url": site.url(), "projects": ["OPS"]})


def add_pages(home: PulledHome, site: MisbehavingSite) -> None:
    wiki = Wiki(site, "cloud")
    wiki.add(
        Written("98000", "Operations", files={"98001.txt": b"A list of hosts."}),
        Written("98304", "Deploy", "<p>Read it before</p>", "98000"),
    )
    wiki.start()
    options = {"base_url": site.url(), "spaces": ["OPS"], "deployment": "cloud", "attachments": True}
    home.pull("wiki", "confluence", options)


def add_rfc(home: PulledHome, site: MisbehavingSite) -> None:
    editor = RfcEditor(site)
    editor.rfc(793, "Transmission Control Protocol")
    editor.publish()
    home.pull("rfcs", "rfc", {"base_url": site.url()}, "standards/rfc")


def add_cve(home: PulledHome, site: MisbehavingSite) -> None:
    nvd = NvdDouble(site)
    nvd.put("CVE-2026-23113")
    home.pull("cves", "nvd", nvd.options, "security/cve")


def add_attack(home: PulledHome, site: MisbehavingSite) -> None:
    shell, powershell = a_technique("T1059", "Shell"), a_technique("T1059.001", "PowerShell")
    prevention = an_object("course-of-action", "M1038", "Execution Prevention")
    bear = an_object("intrusion-set", "G0007", "Bear")
    links = (
        a_link("subtechnique-of", powershell, shell),
        a_link("mitigates", prevention, shell),
        a_link("uses", bear, shell),
    )
    publish(site, "enterprise", shell, powershell, prevention, bear, *links)
    home.pull("techniques", "attack", {"base_url": site.url()}, "security/mitre")


def add_github_issue(home: PulledHome, site: MisbehavingSite) -> None:
    github_api.GitHubDouble(site).put(github_api.an_issue(7))
    home.pull("issues", "github_issues", {"repository": github_api.REPOSITORY, "base_url": site.url()})


def test_commit_is_the_node_of_its_author_files_and_issues(home: PulledHome, commits: tuple[str, ...]) -> None:
    own = f"commit:{commits[1]}"
    assert home.title(own) == "Fix login (OPS-12)"
    assert home.edges(own) == {
        f"user:ann a creates {own}",
        f"{own} modifies file:a file.py",
        f"{own} modifies file:b.py",
        f"{own} fixes jira:ops-12",
        f"{own} fixes jira:ops-9",
    }


def test_merge_is_a_node_with_its_author(home: PulledHome, commits: tuple[str, ...]) -> None:
    own = f"commit:{commits[2]}"
    assert home.title(own) == "Merge it"
    assert home.edges(own) == {f"user:ann a creates {own}"}


def test_issue_is_the_node_of_its_relations(home: PulledHome, commits: tuple[str, ...]) -> None:
    assert home.title("jira:ops-12") == "OPS-12: Login fails"
    assert home.edges("jira:ops-12") == {
        "jira:ops-12 assigned_to user:jörg müller",
        "jira:ops-12 blocks jira:ops-9",
        f"commit:{commits[1]} fixes jira:ops-12",
    }


def test_page_is_the_node_of_its_relations(home: PulledHome) -> None:
    assert home.title("confluence:98304") == "Deploy"
    assert home.edges("confluence:98304") == {"confluence:98304 parent confluence:98000"}


def test_attachment_is_not_a_page(home: PulledHome) -> None:
    assert not home.has("confluence:98001")


@pytest.mark.parametrize(
    ("reference", "title"),
    [
        ("rfc:793", "RFC 793: Transmission Control Protocol"),
        ("cve:cve-2026-23113", "CVE-2026-23113"),
        ("technique:t1059", "T1059: Shell"),
        ("mitigation:m1038", "M1038: Execution Prevention"),
        ("github:acme/shop#7", "Issue 7"),
    ],
)
def test_document_is_the_node_of_its_identity(home: PulledHome, reference: str, title: str) -> None:
    assert home.title(reference).startswith(title)


def test_technique_has_the_relations_that_both_ends_state(home: PulledHome) -> None:
    found = home.node("technique:t1059")
    assert home.edges("technique:t1059") == {
        "mitigation:m1038 mitigates technique:t1059",
        "technique:t1059.001 subtechnique_of technique:t1059",
        "group:g0007 uses technique:t1059",
    }
    assert all(len(edge["evidence"]) == 2 for edge in found["edges"])
