"""Rules of sharing patterns in knowledge.yaml: they never reach another client."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.domain.scopes import Scope
from opx.errors import KnowledgeConfigError
from opx.learning.rules import LearningRules, Share, read_learning_rules

KNOWLEDGE = Path(__file__).parents[3] / "corpus/knowledge.yaml"
SHOP, LONE, CLIENT = Scope("acme", project_id="shop"), Scope("acme", project_id="lone"), Scope("acme")


def group_of(client: str, project: str) -> str:
    return "web" if (client, project) == ("acme", "shop") else ""


def a_file(folder: Path, section: str) -> Path:
    head, _, _ = KNOWLEDGE.read_text().partition("\nlearning:\n")
    path = folder / "knowledge.yaml"
    path.write_text(head + "\n" + section)
    return path


def test_the_shipped_file_shares_with_the_client() -> None:
    rules = read_learning_rules()
    assert (rules.share, "orchestrator" in rules.orchestrators) == (Share.CLIENT, True)


def test_without_a_section_no_principal_may_query_patterns(tmp_path: Path) -> None:
    assert read_learning_rules(a_file(tmp_path, "")) == LearningRules(Share.CLIENT, frozenset())


def test_the_file_names_share_and_orchestrators(tmp_path: Path) -> None:
    found = read_learning_rules(a_file(tmp_path, "learning: {share: group, orchestrators: [planner, lead]}\n"))
    assert found == LearningRules(Share.GROUP, frozenset({"planner", "lead"}))


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("learning: {share: everybody}", "unknown share 'everybody'; allowed: client, group, project"),
        ("learning: {shared: client}", "unknown key 'shared'"),
        ("learning: {orchestrators: planner}", "must be a list"),
    ],
)
def test_mistakes_are_refused_with_file_and_line(tmp_path: Path, section: str, problem: str) -> None:
    with pytest.raises(KnowledgeConfigError, match=r"knowledge\.yaml:\d+: .*" + problem):
        read_learning_rules(a_file(tmp_path, section + "\n"))


@pytest.mark.parametrize(
    ("share", "scope", "shared"),
    [
        (Share.CLIENT, SHOP, CLIENT),
        (Share.GROUP, SHOP, Scope("acme", group_id="web")),
        (Share.GROUP, LONE, LONE),
        (Share.PROJECT, SHOP, SHOP),
        (Share.GROUP, CLIENT, CLIENT),
        (Share.CLIENT, Scope(), Scope()),
    ],
)
def test_a_project_shares_with_its_own(share: Share, scope: Scope, shared: Scope) -> None:
    assert LearningRules(share).shared(scope, group_of) == shared
