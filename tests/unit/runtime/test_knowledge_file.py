"""`knowledge.yaml`: what is refused and where, and what the shipped file says; YAML that is parsed into nodes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opx import plugins
from opx.domain.knowledge import Category, KnowledgeModel, Speech, Tier, default_speech
from opx.domain.scopes import Scope
from opx.errors import KnowledgeConfigError
from opx.formats.data.json_mapping import compile_paths
from opx.learning.rules import LearningRules, Share, read_learning_rules
from opx.runtime import knowledge_file
from opx.runtime.knowledge_file import InvalidYamlError, as_plain, composed, load_knowledge, unread_sections

VALID = """\
default_category: notes/short
tiers:
  internal: {default_trust: 1.0}
  specialized: {default_trust: 0.9}
categories:
  notes/short:
    tier: internal
    description: Notes.
    retention: 2y
    schema: {title: string, content: string}
    embed: [content]
    schedule: "0 4 * * 1-5"
    folders: [notes]
    json: {title: $.title, content: $.content}
  advice:
    tier: specialized
    description: Advice.
    retention: permanent
    trust: 0.95
    schema: {content: string}
    embed: []
"""


def load(tmp_path: Path, text: str, *, check_json_paths: bool = False) -> KnowledgeModel:
    file = tmp_path / "knowledge.yaml"
    file.write_text(text, encoding="utf-8")
    return load_knowledge(file, check_json_path=compile_paths if check_json_paths else None)


def refusal(tmp_path: Path, text: str, *, check_json_paths: bool = False) -> str:
    """The message after the file's name: `line: problem`."""
    with pytest.raises(KnowledgeConfigError) as caught:
        load(tmp_path, text, check_json_paths=check_json_paths)
    file, _, message = str(caught.value).partition("knowledge.yaml:")
    assert file == f"{tmp_path}/"
    return message


# -- loading ---------------------------------------------------------------------------------------------------------


def test_a_category_is_read_with_all_its_parts(tmp_path: Path) -> None:
    category = load(tmp_path, VALID).category("notes/short")
    assert (category.tier, category.trust, category.retention_days) == (Tier.INTERNAL, 1.0, 730)
    assert (category.description, category.schedule, category.folders) == ("Notes.", "0 4 * * 1-5", ("notes",))
    assert (category.schema, category.embed) == ({"title": "string", "content": "string"}, ("content",))
    assert category.json_mapping == {"title": "$.title", "content": "$.content"}


def test_trust_is_the_tiers_unless_the_category_has_its_own(tmp_path: Path) -> None:
    assert load(tmp_path, VALID).category("advice").trust == 0.95
    assert load(tmp_path, VALID.replace("    trust: 0.95\n", "")).category("advice").trust == 0.9


def test_a_category_without_schedule_has_none(tmp_path: Path) -> None:
    assert load(tmp_path, VALID).category("advice").schedule is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("notes/short\ntiers", "other\ntiers", "1: unknown category 'other'; allowed: advice, notes/short"),
        ("default_category: notes/short\n", "", "1: the file needs the key 'default_category'"),
        ("tiers:\n", "extra: 1\ntiers:\n", "2: unknown key 'extra'; allowed: default_category, tiers, categories"),
        ("  specialized:", "  secret:", "4: unknown tier 'secret'; allowed: internal, specialized, internet"),
        ("default_trust: 1.0", "trust: 1.0", "3: unknown key 'trust'; allowed: default_trust"),
        ("default_trust: 1.0", "default_trust: 0.5", "3: trust 0.5 is wrong for tier internal; allowed: 0.8 to 1.0"),
        ("tier: internal", "tier: internet", "7: unknown tier 'internet'; allowed: internal, specialized"),
        ("notes/short:\n", "Notes/Short:\n", "7: category path 'Notes/Short'"),
        ("description: Notes.", "descripton: Notes.", "8: unknown key 'descripton'; allowed: tier, description"),
        ("    description: Notes.\n", "", "7: categories.notes/short needs the key 'description'"),
        ("retention: 2y", "retention: 2 years", "9: unknown retention '2 years'; allowed: permanent, or a number with"),
        ("retention: 2y", "retention: 0d", "9: unknown retention '0d'"),
        ("title: string", "title: text", "10: unknown JSON type 'text' of 'title'; allowed: string, number"),
        ("embed: [content]", "embed: [body]", "11: embed names 'body', which is not in the schema; allowed: title"),
        ("embed: [content]", "embed: content", "11: categories.notes/short.embed must be a list"),
        ("0 4 * * 1-5", "0 25 * * *", "12: schedule '0 25 * * *' is not a cron expression: bad hour"),
        ("0 4 * * 1-5", "0 4 * *", "12: schedule '0 4 * *' has 4 fields; needed: minute hour"),
        ("0 4 * * 1-5", "0 0 4 * * 1", "12: schedule '0 0 4 * * 1' has 6 fields"),
        ("folders: [notes]", "folders: [/notes]", "13: folder '/notes'"),
        ("folders: [notes]", "folders: [advice]", "13: folder 'advice' implies advice already"),
        ("folders: [notes]", "folders: ['']", "13: categories.notes/short.folders[0] must be a string"),
        ("{title: $.title, ", "{", "14: categories.notes/short.json needs the key 'title'"),
        ("content: $.content}", "content: $.content, body: $.b}", "14: unknown key 'body'; allowed: title, content"),
        ("  advice:\n", "  notes/short:\n", "15: duplicate key 'notes/short'"),
        ("    trust: 0.95", "    trust: 0.8", "19: trust 0.8 is wrong for tier specialized; allowed: 0.9 to 0.95"),
        ("    trust: 0.95", "    trust: high", "19: categories.advice.trust must be a number"),
        ("    trust: 0.95", "    trust: .nan", "19: categories.advice.trust must be a number"),
        ("    trust: 0.95", "    tier: specialized", "19: duplicate key 'tier'"),
        ("    embed: []\n", "    embed: [\n", "22: not valid YAML"),
        ("    embed: []\n", "    embed: \0\n", "1: not valid YAML"),
    ],
)
def test_a_mistake_is_refused_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert VALID.count(old) == 1
    assert refusal(tmp_path, VALID.replace(old, new)).startswith(message)


def test_a_wrong_json_path_is_refused_where_paths_are_checked(tmp_path: Path) -> None:
    text = VALID.replace("$.content}", "'$.content['}")
    assert load(tmp_path, text)
    message = refusal(tmp_path, text, check_json_paths=True)
    assert message.startswith("14: json.content: '$.content[' is not a JSONPath")


def test_a_default_category_that_is_no_text_is_refused(tmp_path: Path) -> None:
    text = VALID.replace("default_category: notes/short", "default_category: 2024-01-01")
    assert refusal(tmp_path, text).startswith("1: default_category must be a string")


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text) == "1: the file is empty"


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "- a\n").startswith("1: the file must be a mapping")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeConfigError, match=r"absent\.yaml: can't be read: No such file"):
        load_knowledge(tmp_path / "absent.yaml")


def test_without_cronsim_the_rest_of_the_file_is_checked_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "cronsim" else find(name))
    assert load(tmp_path, VALID).category("notes/short").schedule == "0 4 * * 1-5"
    assert "has 1 fields" in refusal(tmp_path, VALID.replace("0 4 * * 1-5", "daily"))


def test_loading_does_not_import_what_only_parsing_needs() -> None:
    code = "import sys, opx.runtime.knowledge_file as k; k.load_knowledge(); print({'jsonpath_ng', 'bs4'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# -- finding the file ------------------------------------------------------------------------------------------------


def installed_at(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package.mkdir(parents=True)
    monkeypatch.setattr(knowledge_file, "_PACKAGE", package)


def test_the_packaged_copy_is_used_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "python/opx"
    installed_at(package, monkeypatch)
    (package / "data").mkdir()
    (package / "data/knowledge.yaml").write_text(VALID)
    assert load_knowledge().default_category == "notes/short"


def test_the_checkouts_file_wins_over_a_packaged_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "layers/opx/python/opx"
    installed_at(package, monkeypatch)
    (package / "data").mkdir()
    (package / "data/knowledge.yaml").write_text("stale")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/knowledge.yaml").write_text(VALID)
    assert load_knowledge().default_category == "notes/short"


def test_errors_in_the_checkouts_file_name_it_from_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_at(tmp_path / "layers/opx/python/opx", monkeypatch)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/knowledge.yaml").write_text(VALID.replace("2y", "2 years"))
    with pytest.raises(KnowledgeConfigError, match=r"^corpus/knowledge\.yaml:9: unknown retention"):
        load_knowledge()


def test_a_missing_file_is_reported_with_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_at(tmp_path / "opx", monkeypatch)
    with pytest.raises(KnowledgeConfigError, match="OPX_KNOWLEDGE_FILE"):
        load_knowledge()


# -- the shipped file ------------------------------------------------------------------------------------------------

INTERNAL, SPECIALIZED, INTERNET = Tier.INTERNAL, Tier.SPECIALIZED, Tier.INTERNET
SHIPPED: list[tuple[str, Tier, float, str, tuple[str, ...], str | None]] = [
    ("operations/incidents", INTERNAL, 1.0, "2y", ("content", "metadata"), None),
    ("operations/baselines", INTERNAL, 1.0, "90d", (), "0 2 * * *"),
    ("operations/changes", INTERNAL, 1.0, "1y", ("description", "affected_systems"), None),
    ("operations/alerts", INTERNAL, 1.0, "6m", ("message", "metadata"), None),
    ("runbooks/procedures", INTERNAL, 1.0, "permanent", ("content", "steps"), None),
    ("runbooks/architecture", INTERNAL, 1.0, "permanent", ("description", "dependencies"), None),
    ("postmortems", INTERNAL, 1.0, "permanent", ("content",), None),
    ("evidence/agent_runs", INTERNAL, 1.0, "1y", ("conclusions", "observations"), None),
    ("evidence/remediation", INTERNAL, 1.0, "2y", ("problem", "solution"), None),
    ("security/cve", SPECIALIZED, 0.95, "permanent", ("description", "affected_products"), "0 4 * * *"),
    ("security/mitre", SPECIALIZED, 0.95, "permanent", ("technique_description",), "0 5 * * 0"),
    ("vendor/microsoft", SPECIALIZED, 0.9, "permanent", ("content", "symptoms"), "0 3 * * *"),
    ("vendor/linux", SPECIALIZED, 0.9, "permanent", ("content",), "0 3 * * 0"),
    ("vendor/cloud", SPECIALIZED, 0.9, "permanent", ("content", "services"), "0 3 * * *"),
    ("standards/rfc", SPECIALIZED, 0.95, "permanent", ("abstract", "content"), "0 6 1 * *"),
    ("standards/owasp", SPECIALIZED, 0.95, "permanent", ("content",), "0 6 1 * *"),
    ("web/search", INTERNET, 0.6, "30d", ("content",), None),
    ("web/stack_overflow", INTERNET, 0.7, "90d", ("content",), None),
    ("web/github_issues", INTERNET, 0.75, "90d", ("content",), None),
    ("web/forums", INTERNET, 0.65, "90d", ("content",), None),
    ("web/blogs", INTERNET, 0.5, "90d", ("content",), None),
]


@pytest.fixture(scope="module")
def shipped() -> KnowledgeModel:
    return load_knowledge(check_json_path=compile_paths)


@pytest.mark.parametrize("expected", SHIPPED, ids=lambda row: row[0])
def test_shipped_categories_have_the_agreed_values(
    shipped: KnowledgeModel, expected: tuple[str, Tier, float, str, tuple[str, ...], str | None]
) -> None:
    def facts(c: Category) -> tuple[str, Tier, float, str, tuple[str, ...], str | None]:
        return c.path, c.tier, c.trust, c.retention, c.embed, c.schedule

    assert facts(shipped.categories[expected[0]]) == expected


def test_learned_patterns_are_kept_a_year(shipped: KnowledgeModel) -> None:
    assert shipped.category("learning/patterns").retention_days == 365


def test_inventory_of_services_is_kept_for_good(shipped: KnowledgeModel) -> None:
    found = shipped.category("operations/inventory")
    assert (found.tier, found.retention_days) == (Tier.INTERNAL, None)
    assert shipped.category_of_path("inventory/services.yaml") == found


def test_rules_of_alerts_are_kept_for_good_and_in_the_graph_without_being_searched(shipped: KnowledgeModel) -> None:
    found = shipped.category("operations/alert_rules")
    assert (found.tier, found.retention_days, found.embed, found.is_related) == (Tier.INTERNAL, None, (), True)
    assert shipped.category_of_path("alert-rules/kafka.yaml") == found
    assert not shipped.category("operations/baselines").is_related


def test_no_category_is_shipped_beside_the_agreed_ones(shipped: KnowledgeModel) -> None:
    assert set(shipped.categories) == {row[0] for row in SHIPPED} | {
        "learning/patterns",
        "learning/warnings",
        "operations/inventory",
        "operations/alert_rules",
        *(f"workplace/{kind}" for kind in ("docs", "code", "tickets", "mail", "chats")),
    }


def test_documents_without_any_sign_are_procedures(shipped: KnowledgeModel) -> None:
    assert shipped.default_category == "runbooks/procedures"


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("documents/runbooks/disk.md", "runbooks/procedures"),
        ("documents/procedures/disk.md", "runbooks/procedures"),
        ("documents/runbooks/alerts/disk.md", "runbooks/procedures"),
        ("documents/runbooks/linux/disk.md", "runbooks/procedures"),
        ("documents/architecture/orders.md", "runbooks/architecture"),
        ("documents/runbooks/architecture/orders.md", "runbooks/architecture"),
        ("documents/postmortems/2024/outage.md", "postmortems"),
        ("documents/operations/alerts/a.json", "operations/alerts"),
        ("documents/vendor/linux/a.md", "vendor/linux"),
    ],
)
def test_folders_imply_categories(shipped: KnowledgeModel, path: str, category: str) -> None:
    found = shipped.category_of_path(path)
    assert found is not None
    assert found.path == category


@pytest.mark.parametrize(("short", "path"), [("runbook", "runbooks/procedures"), ("postmortem", "postmortems")])
def test_short_names_are_known(shipped: KnowledgeModel, short: str, path: str) -> None:
    assert shipped.category(short).path == path


class TestSpeech:
    def test_a_category_that_declares_none_speaks_by_its_path_and_what_it_takes(self, tmp_path: Path) -> None:
        mails = VALID.replace("    folders: [notes]\n", "    folders: [notes]\n    formats: [mail]\n")
        tickets = VALID.replace("notes/short", "helpdesk/tickets")
        for text, path, speech in (
            (VALID, "notes/short", Speech.INSTRUCTIONS),
            (mails, "notes/short", Speech.REPORTS),
            (tickets, "helpdesk/tickets", Speech.REPORTS),
        ):
            file = tmp_path / "knowledge.yaml"
            file.write_text(text)
            assert load_knowledge(file).categories[path].speaks is speech

    def test_a_declaration_counts_before_the_path(self, tmp_path: Path) -> None:
        file = tmp_path / "knowledge.yaml"
        file.write_text(VALID.replace("    description: Notes.\n", "    description: Notes.\n    speaks: reports\n"))
        model = load_knowledge(file)
        assert model.is_untrusted("notes/short", Tier.INTERNAL)
        assert model.reports == {"notes/short"}

    def test_an_unknown_speech_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "knowledge.yaml"
        file.write_text(VALID.replace("    description: Notes.\n", "    description: Notes.\n    speaks: loudly\n"))
        with pytest.raises(KnowledgeConfigError, match="unknown speaks 'loudly'; allowed: instructions, reports"):
            load_knowledge(file)

    def test_shipped_categories_speak_the_same_without_their_declaration(self) -> None:
        for path, category in load_knowledge().categories.items():
            assert category.speaks is default_speech(path, category.tier, (*category.formats, *category.connectors))

    def test_a_report_can_not_claim_to_be_an_instruction(self) -> None:
        known = load_knowledge().categories
        assert not known["runbooks/procedures"].is_within(known["operations/incidents"])
        assert known["operations/incidents"].is_within(known["runbooks/procedures"])


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(values)
def test_plain_value_is_that_of_the_parser(value: object) -> None:
    text = yaml.safe_dump(value).encode()
    node = composed(text)
    assert node is not None
    assert as_plain(node) == yaml.safe_load(text)


def test_aliases_share_one_node() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    node = composed("\n".join(lines).encode())
    assert node is not None
    assert len(as_plain(node)["a59"]) == 2


@pytest.mark.parametrize("text", [b"a: &a [*a]", b"&a {x: {y: *a}}"])
def test_an_anchor_within_itself_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidYamlError, match="contains itself"):
        composed(text)


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


SECTIONS_OF_DISTRIBUTIONS = """
streams: {live: {source: s, category: c}}
webhooks: {alerts: {category: c}}
internet: {search_provider: brave}
telemetry: {services: [checkout]}
baselines: {metrics: {cpu: {namespace: AWS/EC2}}}
tokens: {grafana: {secret: s}}
learning: {count: 1}
"""


class TestUnreadSections:
    def test_sections_of_missing_distributions_are_named_with_them(self, tmp_path: Path) -> None:
        (tmp_path / "knowledge.yaml").write_text(SECTIONS_OF_DISTRIBUTIONS)
        with mock.patch.object(plugins, "_all", return_value={}):
            assert unread_sections(tmp_path / "knowledge.yaml") == {
                "streams": "opx-streams",
                "webhooks": "opx-streams",
                "internet": "opx-web",
                "telemetry": "opx-telemetry",
                "baselines": "opx-telemetry",
                "tokens": "opx-serve",
            }

    def test_empty_sections_are_not_named(self) -> None:
        with mock.patch.object(plugins, "_all", return_value={}):
            assert unread_sections() == {}

    def test_sections_of_installed_distributions_are_not_named(self, tmp_path: Path) -> None:
        (tmp_path / "knowledge.yaml").write_text(SECTIONS_OF_DISTRIBUTIONS)
        assert unread_sections(tmp_path / "knowledge.yaml") == {}
