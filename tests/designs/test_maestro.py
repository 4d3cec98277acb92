"""The listings of the tiered design on the library."""

from __future__ import annotations

import dataclasses
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from opx import Knowledge, KnowledgeSource
from opx.compat import maestro
from opx.errors import InvalidInputError
from opx.ingestion.events import Result
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from tests.designs.loading import accepted_calls, listing, methods_of, recorded

NODE = {"node": "web-server-01", "symptom": "high CPU"}


def investigator(knowledge: Knowledge, evidence: object) -> Any:
    """The agent of the listing with the parts that it leaves to its reader."""
    module = listing("maestro_08")

    class Investigator(module.IncidentInvestigator):  # type: ignore[name-defined,misc]
        seen: tuple[Any, ...] = ()

        def _might_need_vendor_docs(self, symptom: str, current: Any) -> bool:
            return bool("CPU" in symptom)

        def analyze(self, *found: Any) -> object:
            self.seen = found
            return evidence

    connector = SimpleNamespace(get_node_status=lambda node: SimpleNamespace(os="Debian 13", node=node))
    return Investigator(connector, maestro.KnowledgeQuery(knowledge), maestro.IngestionManager(knowledge))


@pytest.mark.parametrize("method", sorted(methods_of(listing("maestro_03").IngestionManager)))
def test_calls_of_the_ingestion_manager_are_accepted(method: str) -> None:
    expected = methods_of(listing("maestro_03").IngestionManager)[method]
    assert accepted_calls(expected, getattr(maestro.IngestionManager, method)) == []
    if method in vars(Knowledge):
        assert accepted_calls(expected, getattr(Knowledge, method)) == []


@pytest.mark.parametrize("method", sorted(methods_of(listing("maestro_05").KnowledgeQuery)))
def test_calls_of_the_query_interface_are_accepted(method: str) -> None:
    expected = methods_of(listing("maestro_05").KnowledgeQuery)[method]
    assert accepted_calls(expected, getattr(maestro.KnowledgeQuery, method)) == []
    assert accepted_calls(expected, getattr(Knowledge, method)) == []


def test_the_query_configuration_has_the_fields_and_defaults_of_the_design() -> None:
    own, expected = maestro.QueryConfig(), listing("maestro_05").QueryConfig()
    for one in dataclasses.fields(expected):
        default = getattr(expected, one.name)
        found = getattr(own, one.name)
        assert (list(found) if isinstance(default, list) else found) == default, one.name


def test_a_result_has_the_fields_of_the_design() -> None:
    expected = [one.name for one in dataclasses.fields(listing("maestro_05").RetrievalResult)]
    assert [one.name for one in dataclasses.fields(maestro.RetrievalResult)] == expected


def test_the_time_of_a_result_is_a_time(base: Knowledge) -> None:
    (first, *_) = maestro.KnowledgeQuery(base).query("high CPU on web servers")
    assert first.timestamp is not None
    assert (datetime.now(UTC) - first.timestamp).days >= 0


@pytest.mark.parametrize(
    "evidence",
    [
        maestro.Evidence(agent_type="investigator", outcome="investigated", conclusion="A bad regular expression."),
        maestro.Evidence(conclusion="A bad regular expression.", node="web-server-01", confidence=0.7),
        maestro.Evidence(problem="High CPU.", solution="Roll cart 4.2 back."),
        {
            "agent_type": "investigator",
            "problem": "High CPU.",
            "solution": "Roll cart 4.2 back.",
            "outcome": "resolved",
        },
        SimpleNamespace(findings=[{"cause": "regular expression"}], summary="cart 4.2 backtracks"),
    ],
    ids=["known fields", "unknown fields", "problem and solution", "not verified", "no field known"],
)
def test_the_investigator_runs_to_its_end(base: Knowledge, tmp_path: Path, evidence: object) -> None:
    agent = investigator(base, evidence)
    before = base.status().documents
    assert agent.run(NODE) is evidence
    current, internal, changes, baseline, vendor, _, runbooks = agent.seen
    assert current.node == "web-server-01"
    assert [one.category for one in internal][:1] == ["operations/incidents"]
    assert [one.category for one in changes] == ["operations/changes"]
    assert (baseline.count, vendor) == (0, [])
    assert [one.category for one in runbooks] == ["runbooks/procedures"]
    kept = [one for one in base.documents("evidence") if one.category.startswith("evidence/")]
    assert base.status().documents == before + 1
    assert {one.category for one in kept} == {"evidence/agent_runs"}
    for one in kept:
        base.delete(one.document_id)


def test_the_second_run_finds_the_evidence_of_the_first(base: Knowledge) -> None:
    evidence = maestro.Evidence(agent="IncidentInvestigator", conclusion="A bad regular expression.", **NODE)
    agent = investigator(base, evidence)
    for _ in range(2):
        agent.run(NODE)
    _, internal, *_, runbooks = agent.seen
    (run,) = base.documents("evidence")
    assert run.title == "high CPU on web-server-01"
    assert run.document_id in [one.metadata["documentId"] for one in internal]
    assert [one.metadata["title"] for one in runbooks] == ["High CPU on web servers"]
    base.delete(run.document_id)


def test_the_bar_of_the_design_is_that_of_likely_results(tmp_path: Path) -> None:
    with maestro.MaestroKnowledge(tmp_path / "kb") as both:
        both.knowledge.add_files("corpus/documents/runbooks")
        for config in (None, maestro.QueryConfig(max_results=3), maestro.QueryConfig(min_confidence=0.7)):
            assert both.query.query("RDS failover", config)[0].metadata["title"] == "RDS Multi-AZ failover"
        assert both.query.query("RDS failover", maestro.QueryConfig(min_confidence=0.71)) == []
        assert both.query.query("How long do I boil an egg?") == []


def test_both_halves_are_over_one_knowledge(tmp_path: Path) -> None:
    with maestro.MaestroKnowledge(tmp_path / "kb") as both:
        document = maestro.Document("# Disk full\n\nDelete rotated logs.")
        document_id = both.ingestion.ingest_document("internal", "runbooks/procedures", document)
        (found,) = both.query.query("disk full")
        assert found.metadata["documentId"] == document_id
        assert both.query.query_with_context("disk full", {"node": "web-01"}).category == "runbooks/procedures"
        assert both.query.search_internet("disk full") == []


class TestSources:
    def test_classes_of_the_listing_are_the_interface(self) -> None:
        module = listing("maestro_04")
        for method, expected in methods_of(module.KnowledgeSource).items():
            assert accepted_calls(expected, getattr(KnowledgeSource, method)) == []
        assert {"name", "tier"} <= set(vars(KnowledgeSource))

    @pytest.mark.parametrize("base_class", ["listing", "library"])
    def test_a_source_written_as_in_the_listing_is_pulled(self, knowledge: Knowledge, base_class: str) -> None:
        kind = listing("maestro_04").KnowledgeSource if base_class == "listing" else KnowledgeSource
        calls: list[datetime | None] = []

        class Wiki(kind):  # type: ignore[misc,valid-type]
            name = "wiki"
            tier = "specialized"

            def fetch(self, since: datetime | None = None) -> list[maestro.Document]:
                calls.append(since)
                return [maestro.Document("# Kernel panics\n\nRead the console.", source="panic.md")]

            def health_check(self) -> bool:
                return True

        manager = maestro.IngestionManager(knowledge)
        source = manager.register_source(Wiki(), "0 2 * * *", "specialized", "vendor/linux")
        assert manager.pull_now(source).count(Result.INGESTED) == 1
        manager.pull_now(source)
        assert calls[0] is None
        assert isinstance(calls[1], datetime)
        assert [one.title for one in knowledge.documents("vendor/linux")] == ["Kernel panics"]

    @pytest.mark.parametrize("name", ["NVDSource", "MSDocsSource", "WebSearchSource"])
    def test_a_source_without_its_methods_is_refused_by_both(self, name: str) -> None:
        with pytest.raises(TypeError, match="abstract"):
            getattr(listing("maestro_04"), name)()

    def test_the_sources_of_the_library_are_registered(self, knowledge: Knowledge) -> None:
        manager = maestro.IngestionManager(knowledge)
        assert manager.register_source(maestro.NVDSource(), "0 4 * * *", "specialized", "security/cve") == "nist-nvd"
        learn = maestro.MSDocsSource(topics=["azure/monitoring"])
        assert manager.register_source(learn, "0 3 * * *", "specialized", "vendor/microsoft") == "microsoft-docs"

    def test_an_asynchronous_fetch_is_refused_by_its_name(self, knowledge: Knowledge) -> None:
        class Wiki:
            name, tier = "wiki", "specialized"

            async def fetch(self, since: datetime | None = None) -> list[object]:
                return []

            def health_check(self) -> bool:
                return True

        knowledge.register_source(Wiki(), "", "specialized", "vendor/linux")  # type: ignore[arg-type]
        with pytest.raises(Exception, match="fetch is a coroutine function"):
            knowledge.pull_now("wiki")


def _paths(section: dict[str, Any]) -> dict[str, Any]:
    (tier,) = section.values()
    return {f"{group}/{name}": facts for group, names in tier.items() for name, facts in names.items()}


@pytest.mark.parametrize(("path", "facts"), sorted(_paths(yaml.safe_load(recorded("maestro-06"))).items()))
def test_categories_of_the_design_are_kept_as_long_and_searched_by_the_same_fields(
    path: str, facts: dict[str, str]
) -> None:
    category = load_knowledge().category(path)
    assert (category.tier.value, category.retention) == ("internal", facts["retention"].removesuffix(" rolling"))
    wanted = [] if facts["embeddings"].startswith("none") else facts["embeddings"].split(" + ")
    assert list(category.embed) == wanted


@pytest.mark.parametrize(("path", "facts"), sorted(_paths(yaml.safe_load(recorded("maestro-07"))).items()))
def test_specialized_categories_are_pulled_at_the_times_of_the_design(path: str, facts: dict[str, str]) -> None:
    category = load_knowledge().category(path)
    assert (category.tier.value, category.schedule) == ("specialized", facts["schedule"])
    assert list(category.embed) == facts["embeddings"].split(" + ")


def test_the_configuration_of_the_design_is_that_of_the_library() -> None:
    given = yaml.safe_load(recorded("maestro-10"))
    model, settings = load_knowledge(), Settings()
    assert settings.max_attempts == given["ingestion"]["max_retries"]
    own = {tier: facts["default_trust"] for tier, facts in given["tiers"].items()}
    shipped = yaml.safe_load(Path("corpus/knowledge.yaml").read_text(encoding="utf-8"))
    assert own == {tier: facts["default_trust"] for tier, facts in shipped["tiers"].items()}
    for name, kind in (("nvd", "nvd"), ("msdocs", "microsoft_learn")):
        source = given["ingestion"]["sources"][name]
        assert model.category(source["category"]).schedule == source["schedule"]
        found = next(one for one in shipped["sources"].values() if one["kind"] == kind)
        assert found["category"] == source["category"]
        assert found.get("topics", []) == source.get("topics", [])


def test_parts_of_the_storage_have_a_package() -> None:
    packages = {
        "knowledge/": "retrieval",
        "ingestion/": "ingestion",
        "sources/": "connectors",
        "processors/": "formats",
    }
    for folder, package in packages.items():
        assert folder in recorded("maestro-09")
        assert (Path("layers/opx/python/opx") / package).is_dir()


def test_the_list_of_dependencies_was_never_valid_toml() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(recorded("maestro-11"))


def test_something_that_is_no_document_is_named(knowledge: Knowledge) -> None:
    with pytest.raises(InvalidInputError, match="a document is text, bytes, a mapping, or an object with content"):
        knowledge.ingest_document("internal", "runbooks/procedures", 5)


@pytest.mark.parametrize(
    ("path", "trust"),
    [("web/stack_overflow", 0.7), ("web/github_issues", 0.75), ("web/forums", 0.65), ("web/blogs", 0.5)],
)
def test_sources_of_the_web_have_the_trust_of_the_design(path: str, trust: float) -> None:
    category = load_knowledge().category(path)
    assert (category.tier.value, category.trust) == ("internet", trust)
