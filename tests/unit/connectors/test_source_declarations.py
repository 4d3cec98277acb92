"""Sources as knowledge.yaml declares them and as they are registered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec import structs

from opx import plugins
from opx.connectors.connector import Options, Texts, read_options
from opx.connectors.registry import checked_options, connector_type, source_kinds
from opx.connectors.repository import declared_sources, definition_of
from opx.connectors.trial import tried
from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.operations.system import System
from opx.ports.queues import ThisProcess
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.fakes import WordsEmbedder

KNOWLEDGE = load_knowledge()
KINDS = sorted(plugins.names(plugins.CONNECTORS))
DECLARED = declared_sources(KNOWLEDGE)
BLOG = {
    "kind": "feed",
    "category": "web/blogs",
    "schedule": "0 6 * * *",
    "options": {"urls": ["https://example.org/f"]},
}


def a_file(folder: Path, sources: str) -> Path:
    """The repository's knowledge file with other sources, which begin in its last lines."""
    text = Path("corpus/knowledge.yaml").read_text(encoding="utf-8").split("\nsources:")[0]
    path = folder / "knowledge.yaml"
    path.write_text(f"{text}\nsources:\n{sources}", encoding="utf-8")
    return path


class TestDeclared:
    @pytest.mark.parametrize("source_id", DECLARED)
    def test_each_is_of_a_kind_that_takes_its_options(self, source_id: str) -> None:
        assert checked_options(DECLARED[source_id])

    def test_no_declared_source_is_enabled_by_default(self) -> None:
        assert not [source_id for source_id, definition in DECLARED.items() if definition.enabled]

    def test_tier_and_schedule_are_the_categorys(self) -> None:
        nvd = DECLARED["nvd"]
        assert (nvd.tier, nvd.schedule, nvd.category) == ("specialized", "0 4 * * *", "security/cve")

    def test_topics_are_an_option(self) -> None:
        assert DECLARED["microsoft"].options["topics"] == ["windows-server/troubleshoot", "azure/monitoring"]

    @pytest.mark.parametrize(
        ("entry", "problem"),
        [
            ("  blog: {kind: feed}\n", "needs the key 'category'"),
            ("  blog: {kind: feed, category: web/blogs, when: now}\n", "unknown key 'when'"),
            ("  blog: {kind: feed, category: web/nothing}\n", "unknown category 'web/nothing'"),
            ("  blog: {kind: feed, category: web/blogs, tier: internal}\n", "is of tier internet, not 'internal'"),
            ("  blog: {kind: feed, category: web/blogs, schedule: hourly}\n", "schedule 'hourly'"),
            ("  blog: {kind: feed, category: web/blogs, schedule: '0 0 1 * 1'}\n", "restricts both"),
            ("  blog: {kind: feed, category: web/blogs, time_zone: Mars/Base}\n", "unknown time zone 'Mars/Base'"),
            ("  blog: {kind: feed, category: web/blogs, max_missing_share: 20}\n", "between 0 and 1"),
            ("  blog: {kind: feed, category: web/blogs, enabled: 'yes'}\n", "true or false"),
            ("  Blog!: {kind: feed, category: web/blogs}\n", "ids are up to 48"),
            ("  blog: {kind: feed, category: web/blogs, options: [a]}\n", "must be a mapping"),
        ],
    )
    def test_mistakes_are_reported_with_file_and_line(self, tmp_path: Path, entry: str, problem: str) -> None:
        path = a_file(tmp_path, entry)
        line = len(path.read_text(encoding="utf-8").splitlines())
        with pytest.raises(KnowledgeConfigError, match=problem) as raised:
            declared_sources(KNOWLEDGE, path)
        assert str(raised.value).startswith(f"{path}:{line}:")

    def test_a_file_without_sources_declares_none(self, tmp_path: Path) -> None:
        path = tmp_path / "knowledge.yaml"
        path.write_text(
            Path("corpus/knowledge.yaml").read_text(encoding="utf-8").split("\nsources:")[0], encoding="utf-8"
        )
        assert declared_sources(KNOWLEDGE, path) == {}

    def test_a_definition_survives_storage(self) -> None:
        definition = definition_of("blog", {**BLOG, "tags": ["a"], "time_zone": "Europe/Vienna"}, KNOWLEDGE)
        assert definition_of("blog", definition.fields(), KNOWLEDGE) == definition


class Chosen(Options, frozen=True):
    url: str
    pages: int = 3
    share: float = 0.5
    deep: bool = False
    paths: Texts = ()


class TestOptions:
    def test_they_are_read_by_their_types(self) -> None:
        given = {"url": "u", "pages": 1, "share": 1, "deep": True, "paths": ["a", "b"]}
        assert read_options(Chosen, given, of="x") == Chosen("u", 1, 1, deep=True, paths=("a", "b"))

    def test_one_text_is_a_list_of_one(self) -> None:
        assert read_options(Chosen, {"url": "u", "paths": "a"}, of="x").paths == ("a",)

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({}, "x: the option 'url' is needed"),
            ({"url": "u", "uri": "v"}, "x: unknown option 'uri'; allowed: url, pages, share, deep, paths"),
            ({"url": 5}, "x: option url must be a string, not 5"),
            ({"url": None}, "x: the option 'url' has no value; leave it out"),
            ({"url": "u", "pages": True}, "option pages must be a whole number, not"),
            ({"url": "u", "pages": "3"}, "option pages must be a whole number, not"),
            ({"url": "u", "deep": 1}, "option deep must be true or false, not 1"),
            ({"url": "u", "paths": 5}, "option paths must be a list, not 5"),
            ({"url": "u", "paths": ["a", ""]}, "option paths must have at least 1 characters"),
            ({"url": "u", "paths": ["a", 1]}, "option paths must be a string, not 1"),
        ],
    )
    def test_wrong_ones_are_named(self, given: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            read_options(Chosen, given, of="x")


class TestKinds:
    @pytest.mark.parametrize("kind", KINDS)
    def test_each_has_a_connector_whose_options_are_of_known_types(self, kind: str) -> None:
        allowed = {str, int, float, bool, Texts}
        fields = structs.fields(connector_type(kind).options_type)
        assert {
            getattr(each.type, "__origin__", each.type) if hasattr(each.type, "__metadata__") else each.type
            for each in fields
        } <= allowed

    def test_each_is_described_with_all_its_options(self) -> None:
        kinds = source_kinds(KNOWLEDGE)
        assert {one.kind for one in kinds} == set(KINDS)
        assert not [(one.kind, each.name) for one in kinds for each in one.options if not each.about]

    def test_a_preset_shows_its_own_defaults(self) -> None:
        (kind,) = (one for one in source_kinds(KNOWLEDGE) if one.kind == "owasp")
        repository = next(each for each in kind.options if each.name == "repository")
        assert (repository.required, repository.default) == (False, "OWASP/CheatSheetSeries")

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_is_in_the_guide(self, kind: str) -> None:
        assert f"`{kind}`" in Path("docs/sources.md").read_text(encoding="utf-8")

    def test_an_unknown_kind_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(InvalidInputError, match=r"unknown kind of source 'x'; allowed: .*nvd"):
            connector_type("x")


class TestTrials:
    """Trials of sources that a network would hold up."""

    def test_a_source_that_does_not_answer_in_time_is_no_success(self) -> None:
        held = Event()
        trial = tried(lambda: held.wait(30) and None, limit=5, seconds=0.05)  # type: ignore[arg-type, return-value]
        held.set()
        assert (trial.ok, trial.timed_out, trial.reason) == (False, True, "it did not answer within 0 seconds")


class Schedules:
    """Notes what is scheduled."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def put(self, definition: SourceDefinition) -> None:
        self.known[definition.source_id] = definition.schedule if definition.enabled else ""

    def delete(self, source_id: str) -> None:
        self.known.pop(source_id, None)


@pytest.fixture
def schedules() -> Schedules:
    return Schedules()


@pytest.fixture
def services(tmp_path: Path, schedules: Schedules) -> Iterator[System]:
    settings = Settings(home=str(tmp_path / "home"))
    with bootstrap(settings, embedder=WordsEmbedder(), functions=ThisProcess(source_schedules=schedules)) as made:
        yield made


class TestRegistering:
    def test_a_registered_source_is_listed_and_scheduled(self, services: System, schedules: Schedules) -> None:
        services.connectors.control.register("blog", BLOG)
        assert services.connectors.sources.get("blog").options == BLOG["options"]
        assert schedules.known == {"blog": "0 6 * * *"}

    def test_it_is_known_to_the_next_process(self, services: System, tmp_path: Path) -> None:
        services.connectors.control.register("blog", BLOG)
        with bootstrap(Settings(home=str(tmp_path / "home")), embedder=WordsEmbedder()) as later:
            assert "blog" in [definition.source_id for definition in later.connectors.sources.all()]

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({**BLOG, "kind": "carrier-pigeon"}, "unknown kind of source"),
            ({**BLOG, "options": {}}, "is needed"),
            ({**BLOG, "category": ""}, "the kind .feed. has no category of its own: name one of"),
            ({"kind": "carrier-pigeon"}, "unknown kind of source"),
        ],
    )
    def test_a_wrong_one_is_refused_and_nothing_kept(
        self, services: System, schedules: Schedules, given: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            services.connectors.control.register("blog", given)
        assert (schedules.known, services.connectors.sources.is_declared("blog")) == ({}, False)
        assert "blog" not in [definition.source_id for definition in services.connectors.sources.all()]

    def test_a_declared_one_is_scheduled_while_an_operator_has_enabled_it(
        self, services: System, schedules: Schedules
    ) -> None:
        control = services.connectors.control
        control.change("nvd", {"enabled": True})
        assert schedules.known == {"nvd": "0 4 * * *"}
        control.change("nvd", {"enabled": False})
        assert schedules.known == {"nvd": ""}

    def test_a_declared_one_is_changed_in_the_file_alone(self, services: System) -> None:
        control = services.connectors.control
        with pytest.raises(InvalidInputError, match=r"declared in knowledge.yaml; change it there"):
            control.register("nvd", {"kind": "nvd", "category": "security/cve"})
        with pytest.raises(InvalidInputError, match=r"declared in knowledge.yaml; remove it there"):
            control.remove("nvd")

    def test_a_removed_one_is_forgotten(self, services: System, schedules: Schedules) -> None:
        control = services.connectors.control
        control.register("blog", BLOG)
        control.remove("blog")
        assert schedules.known == {}
        with pytest.raises(InvalidInputError, match="no source 'blog'"):
            control.view("blog")
