"""Documents and chunks as other programs read them; categories, also by format, retention and times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx import plugins
from opx.connectors.repository import definition_of
from opx.domain.documents import DocumentChunk, DocumentKey, DocumentState, contextual_text
from opx.domain.ids import iso_time
from opx.domain.knowledge import Category, KnowledgeModel, Tier, retention_days
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError, KnowledgeConfigError, UnknownCategoryError
from opx.formats.registry import family_of
from opx.ingestion.prepared import as_indexed
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.entries import a_chunk, a_piece
from tests.support.builders import a_document, a_version
from tests.support.cli_support import Opx, WordEmbedder

calm = settings(deadline=None)  # a busy machine is no failure

ANY_TEXT = st.text(st.characters())
CHUNKS = st.builds(
    a_piece,
    chunk_id=ANY_TEXT,
    document_id=ANY_TEXT,
    chunk_index=st.integers(0),
    content=ANY_TEXT,
    token_count=st.integers(0),
    title=ANY_TEXT,
    section=st.lists(ANY_TEXT, max_size=3).map(tuple),
    start=st.integers(0),
    end=st.integers(0),
    category=ANY_TEXT,
    tags=st.lists(ANY_TEXT, max_size=3).map(tuple),
)
CHUNK = a_piece(
    chunk_id="c1",
    document_id="d1",
    chunk_index=2,
    content='Say "é"\u2028\n',
    token_count=5,
    title="Käse",
    section=("A", "B"),
    start=10,
    end=18,
    category="runbooks/procedures",
    tags=("x",),
)


def a_category(path: str, *folders: str, tier: Tier = Tier.INTERNAL) -> Category:
    return Category(path, tier, 1.0, "permanent", folders=folders)


def a_model() -> KnowledgeModel:
    categories = [
        a_category("runbooks/procedures", "runbooks", "sop"),
        a_category("runbooks/architecture", "architecture", "runbooks/design"),
        a_category("incidents", "postmortems"),
        a_category("security/cve", "cve", tier=Tier.SPECIALIZED),
    ]
    return KnowledgeModel({category.path: category for category in categories}, "incidents")


# -- chunks ----------------------------------------------------------------------------------------------------------


def test_a_chunks_line_has_known_bytes() -> None:
    assert CHUNK.to_json_line() == (
        '{"chunkId":"c1","documentId":"d1","chunkIndex":2,"content":"Say \\"é\\"\u2028\\n","tokenCount":5,'
        '"section":["A","B"],"start":10,"end":18,'
        '"metadata":{"documentTitle":"Käse","category":"runbooks/procedures","tags":["x"]}}'
    )


@calm
@given(CHUNKS)
def test_a_chunk_is_read_as_it_was_written(chunk: DocumentChunk) -> None:
    line = chunk.to_json_line()
    assert "\n" not in line
    assert DocumentChunk.from_json(json.loads(line)) == chunk


def test_a_chunk_is_embedded_under_its_title_and_section() -> None:
    assert replace(CHUNK, content="text").text == "# Käse\n## A > B\n\ntext"


def test_a_chunk_without_a_section_has_no_section_line() -> None:
    assert contextual_text("T", (), "text") == "# T\n\ntext"


# -- documents -------------------------------------------------------------------------------------------------------


def test_a_document_has_the_fields_that_agents_know() -> None:
    document = a_version(
        document_id="d1",
        key=DocumentKey(Scope(), "documents/runbooks/x.md"),
        title="X",
        category="runbooks/procedures",
        tier=Tier.INTERNAL,
        trust=1.0,
        location="s3://opx-knowledge-corpus/documents/runbooks/x.md",
        source_uri="https://wiki.example/x",
        created_at="2026-01-01T00:00:00Z",
        last_updated="2026-02-01T00:00:00Z",
        tags=("linux",),
        author="Ada",
        declared_version="1.2",
        state=DocumentState.SUPERSEDED,
    )
    data = json.loads(json.dumps(document.to_json()))
    known = {name: data[name] for name in ("documentId", "title", "category", "tags", "s3Location", "createdAt")}
    assert known == {
        "documentId": "d1",
        "title": "X",
        "category": "runbooks/procedures",
        "tags": ["linux"],
        "s3Location": "s3://opx-knowledge-corpus/documents/runbooks/x.md",
        "createdAt": "2026-01-01T00:00:00Z",
    }
    assert data["metadata"] == {"author": "Ada", "version": "1.2", "lastUpdated": "2026-02-01T00:00:00Z"}
    assert data["state"] == "superseded"


# -- categories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "days"), [("90d", 90), ("6m", 180), ("2y", 730), ("9999d", 9999), ("permanent", None)]
)
def test_retention_is_a_number_of_days_or_permanent(text: str, days: int | None) -> None:
    assert retention_days(text) == days


@pytest.mark.parametrize("text", ["", "0d", "90", "d", "-1d", "1.5y", "1w", "2Y", " 2y", "2y\n", "10000d", "forever"])
def test_any_other_retention_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="90d or 2y"):
        retention_days(text)


@pytest.mark.parametrize("name", ["runbook", "runbooks", "runbooks/procedures"])
def test_a_category_is_known_by_its_path_and_by_a_folders_short_name(name: str) -> None:
    assert a_model().category(name).path == "runbooks/procedures"


@pytest.mark.parametrize("name", ["", "nonsense", "runbooks/", "*"])
def test_an_unknown_category_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(
        UnknownCategoryError, match="incidents, runbooks/architecture, runbooks/procedures, security/cve"
    ):
        a_model().category(name)


def test_a_prefix_means_all_categories_below_it() -> None:
    assert a_model().within("runbooks") == ("runbooks/architecture", "runbooks/procedures")
    assert a_model().within("security/cve") == ("security/cve",)


def test_a_prefix_ends_where_a_name_does() -> None:
    with pytest.raises(UnknownCategoryError):
        a_model().within("run")


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("documents/runbooks/x.md", "runbooks/procedures"),
        ("documents/runbooks/design/x.md", "runbooks/architecture"),
        ("documents/cve/postmortems/x.md", "security/cve"),
        ("documents/postmortems/cve/x.md", "security/cve"),
        ("documents/security/cve/runbooks/x.md", "security/cve"),
        ("documents/x.md", None),
        ("documents/x/runbooks", None),
        ("documents/myrunbooks/x.md", None),
    ],
)
def test_a_files_folders_imply_its_category(path: str, category: str | None) -> None:
    found = a_model().category_of_path(path)
    assert (found.path if found else None) == category


# -- times -----------------------------------------------------------------------------------------------------------


def test_a_time_is_in_utc_to_the_second() -> None:
    assert iso_time(1_741_944_413.99) == "2025-03-14T09:26:53Z"


@calm
@given(st.floats(0, 4_000_000_000), st.floats(0, 4_000_000_000))
def test_times_sort_as_they_happened(first: float, second: float) -> None:
    assert (iso_time(first) < iso_time(second)) == (int(first) < int(second))


def test_chunk_in_the_index_has_the_facts_of_its_document() -> None:
    """A chunk file has those of one of several documents with its text."""
    document = a_document(title="README (cart)", tags=("cart",))
    indexed = as_indexed(a_chunk(title="README (ledger)", tags=("ledger",)), document, ())
    assert (indexed.chunk.title, indexed.chunk.tags) == ("README (cart)", ("cart",))


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
