"""The category of what isn't a runbook: by connector, file name and format, where nothing else says one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx import plugins
from opx.connectors.repository import definition_of
from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.formats.registry import family_of
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import Opx, WordEmbedder

MAIL = b"From: ann@example.org\nSubject: Thanks\nDate: Mon, 1 Sep 2025 10:00:00 +0000\n\nThe pool is fixed.\n"


@pytest.fixture
def categories(tmp_path: Path) -> Iterator[dict[str, str]]:
    opx = Opx(tmp_path)
    files: dict[str, str | bytes] = {
        "shop/cart.py": "def add(item):\n    return item\n",
        "shop/mail/thanks.eml": MAIL,
        "shop/README.md": "# Shop\n\nSells things.\n",
        "shop/pool.md": "# Pool\n\nRestart the pool.\n",
        "runbooks/check.py": "def check():\n    return True\n",
        "shop/said.py.md": "# Said\n\nNo code.\n",
        "shop/own.py": "x = 1\n",
        "shop/own.py.metadata.json": '{"metadataAttributes": {"category": "runbooks/architecture"}}',
    }
    for name, text in files.items():
        opx.write(name, text)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    with bootstrap(Settings(home=str(opx.home)), embedder=WordEmbedder()) as services:
        paths = services.installation.knowledge.categories
        found = [one for path in paths for one in services.corpus.catalog.in_category(path)]
        yield {one.key.source.rpartition("docs/")[2]: one.category for one in found}


def test_nothing_is_a_runbook_that_is_none(categories: dict[str, str]) -> None:
    assert categories == {
        "shop/cart.py": "workplace/code",
        "shop/mail/thanks.eml": "workplace/mail",
        "shop/README.md": "workplace/docs",
        "shop/pool.md": "runbooks/procedures",
        "runbooks/check.py": "runbooks/procedures",  # its folder says so
        "shop/said.py.md": "runbooks/procedures",
        "shop/own.py": "runbooks/architecture",  # its metadata say so
    }


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        ("jira", "workplace/tickets"),
        ("slack_export", "workplace/chats"),
        ("imap", "workplace/mail"),
        ("confluence", "workplace/docs"),
    ],
)
def test_a_source_without_a_category_has_that_of_its_kind(kind: str, category: str) -> None:
    knowledge = load_knowledge()
    assert definition_of("s", {"kind": kind}, knowledge).category == category
    assert definition_of("s", {"kind": kind, "category": "postmortems"}, knowledge).category == "postmortems"


def test_a_kind_that_may_be_anything_needs_a_category() -> None:
    with pytest.raises(InvalidInputError, match="has no category of its own"):
        definition_of("s", {"kind": "directory"}, load_knowledge())


def test_the_shipped_categories_name_connectors_that_exist() -> None:
    claimed = {kind for one in load_knowledge().categories.values() for kind in one.connectors}
    assert claimed <= plugins.names(plugins.CONNECTORS)
    assert claimed


def test_the_last_part_of_a_path_is_a_name() -> None:
    assert load_knowledge().category("tickets").path == "workplace/tickets"


@pytest.mark.parametrize(
    ("name", "family"), [("a.py", "code"), ("a.JAVA", "code"), ("a.eml", "mail"), ("a.md", ""), ("a", "")]
)
def test_families_of_formats(name: str, family: str) -> None:
    assert family_of(name) == family


def test_two_categories_can_t_claim_the_same(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    shipped = Path("corpus/knowledge.yaml").read_text()
    file.write_text(shipped.replace("connectors: [jira]", "connectors: [jira, imap]"))
    with pytest.raises(KnowledgeConfigError, match="connectors 'imap' belongs to workplace/tickets already"):
        load_knowledge(file)
    file.write_text(shipped.replace("formats: [mail]", "formats: [letters]"))
    with pytest.raises(KnowledgeConfigError, match="unknown format 'letters'"):
        load_knowledge(file)


class TestEmptyCode:
    @pytest.fixture
    def opx(self, tmp_path: Path) -> Opx:
        return Opx(tmp_path)

    def test_an_empty_file_of_code_is_skipped(self, opx: Opx) -> None:
        opx.write("pkg/__init__.py", "")
        opx.write("pkg/run.py", "def run():\n    return 1\n")
        found = opx("ingest", opx.folder / "docs")
        assert found.exit_code == 0, found.output
        assert "1 file without content skipped" in found.output
        assert "__init__" not in opx("failed").stdout

    @pytest.mark.parametrize(
        ("name", "text"), [("pkg/py.typed", ""), ("docs/_index.md", "---\ntitle: Runbooks\nweight: 3\n---\n\n")]
    )
    def test_a_marker_and_the_page_of_a_section_are_skipped(self, opx: Opx, name: str, text: str) -> None:
        opx.write(name, text)
        found = opx("ingest", opx.folder / "docs")
        assert (found.exit_code, "1 file without content skipped" in found.output) == (0, True), found.output
        assert "nothing failed" in opx("failed").stdout

    @pytest.mark.parametrize(
        ("name", "text"),
        [("disk.md", ""), ("disk.md", "---\ntitle: Disk\n---\n"), ("docs/_index.md", "---\ntitle: Runbooks\n")],
    )
    def test_a_document_that_lost_its_text_fails(self, opx: Opx, name: str, text: str) -> None:
        opx.write(name, text)
        assert opx("ingest", opx.folder / "docs").exit_code == 1

    def test_the_page_of_a_section_with_text_is_ingested(self, opx: Opx) -> None:
        opx.write("docs/_index.md", "---\ntitle: Runbooks\n---\n\nAll pages of the platform team.\n")
        assert "1 ingested" in opx("ingest", opx.folder / "docs").output

    def test_one_that_was_emptied_is_removed(self, opx: Opx) -> None:
        opx.write("pkg/run.py", "def run():\n    return 1\n")
        opx("ingest", opx.folder / "docs")
        opx.write("pkg/run.py", "")
        assert "1 deleted" in opx("ingest", opx.folder / "docs").output
        assert "run" not in opx("list").stdout.casefold()

    def test_an_empty_page_fails_as_before(self, opx: Opx) -> None:
        opx.write("page.md", "")
        found = opx("ingest", opx.folder / "docs")
        assert found.exit_code == 1
        assert "the file is empty" in found.output
