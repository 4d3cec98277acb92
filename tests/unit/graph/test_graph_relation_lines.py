"""Written relations: the three forms, blocks, short forms, and text that only looks similar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import RemarkKind
from opx.domain.graph import EdgeStatement
from opx.domain.sources import SourceDocument
from opx.graph.extraction.material import MAX_EDGES
from tests.support.extraction_support import Extracted, Extraction

CORPUS = Path(__file__).parents[3] / "corpus" / "documents"
JIRA: dict[str, Any] = {"title": "TASK-123: Login", "source_uri": "https://jira.example/browse/TASK-123"}


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("relations"))


@pytest.fixture
def on_issue(extraction: Extraction) -> _OnIssue:
    return _OnIssue(extraction)


class _OnIssue:
    """The page of an issue."""

    def __init__(self, extraction: Extraction) -> None:
        self._extraction = extraction

    def __call__(self, text: str, *, tokens: int = 500) -> Extracted:
        document = SourceDocument("TASK-123", f"# TASK-123: Login\n\n{text}\n", JIRA)
        return self._extraction.pulled(document, "runbooks/architecture", tokens=tokens)


# -- the three forms


@pytest.mark.parametrize(
    ("line", "edge"),
    [
        ("jira:TASK-123|MENTIONS|user:john", "jira:task-123 mentions user:john"),
        ("file:Service.kt->MODIFIED_BY->commit:abc123", "file:service.kt modified_by commit:abc123"),
        ("class:UserService -[CALLS]-> method:authenticate", "class:userservice calls method:authenticate"),
        ("class:A-[EXTENDS]->class:B", "class:a extends class:b"),
        ("- jira:A-1|BLOCKS|jira:A-2", "jira:a-1 blocks jira:a-2"),
        ("`jira:A-1|BLOCKS|jira:A-2`", "jira:a-1 blocks jira:a-2"),
        ("> * jira:A-1|BLOCKS|jira:A-2", "jira:a-1 blocks jira:a-2"),
        ("file:a.py->calls->file:b.py", "file:a.py calls file:b.py"),
        ("TASK-123|AFFECTS|service:checkout", "jira:task-123 affects service:checkout"),
        ("CVE-2024-23113|AFFECTS|product:fortios", "cve:cve-2024-23113 affects product:fortios"),
        ("T1059.001|SUBTECHNIQUE_OF|T1059", "technique:t1059.001 subtechnique_of technique:t1059"),
        ("technique:T1059|MITIGATED_BY|mitigation:M1038", "mitigation:m1038 mitigates technique:t1059"),
    ],
)
def test_line_of_each_form_is_a_relation(extraction: Extraction, line: str, edge: str) -> None:
    assert edge in extraction.extract(f"# Page\n\n{line}\n").edges


def test_relation_has_its_passage_as_evidence_and_names_as_written(extraction: Extraction) -> None:
    extracted = extraction.extract(
        "# Page\n\n## One\n\n" + "words " * 300 + "\n\n## Two\n\njira:A-1|BLOCKS|jira:A-2\n", tokens=100
    )
    assert "jira:A-1|BLOCKS" in extracted.evidence("jira:a-1 blocks jira:a-2")
    assert len(extracted.edge("jira:a-1 blocks jira:a-2").chunk_ids) == 1
    assert extracted.node("jira:a-1").properties["name"] == "A-1"


def test_every_end_has_a_node_with_the_passages_of_its_edges(extraction: Extraction) -> None:
    extracted = extraction.extract("# Page\n\nservice:a|DEPENDS_ON|service:b\n")
    assert extracted.node("service:b").chunk_ids == extracted.edge("service:a depends_on service:b").chunk_ids


# -- blocks and short forms


@pytest.mark.parametrize(
    "block",
    [
        'relationships: [ "TASK-123|ASSIGNED_TO|user:john", "TASK-123|AFFECTS|file:UserService.kt" ]',
        'relationships: [\n  "TASK-123|ASSIGNED_TO|user:john",\n  "TASK-123|AFFECTS|file:UserService.kt"\n]',
        "relationships:\n- TASK-123|ASSIGNED_TO|user:john\n- TASK-123|AFFECTS|file:UserService.kt",
        "relationships:\n  - 'TASK-123->ASSIGNED_TO->user:john'\n  - task-123 -[affects]-> file:UserService.kt",
        "relationships:\nTASK-123|ASSIGNED_TO|user:john\nTASK-123|AFFECTS|file:UserService.kt",
        "```yaml\nrelationships:\n- TASK-123|ASSIGNED_TO|user:john\n- TASK-123|AFFECTS|file:UserService.kt\n```",
        '"relationships": ["TASK-123 -[ASSIGNED_TO]-> user:john", "TASK-123|AFFECTS|file:UserService.kt"]',
        "relationships: [\nTASK-123 -[ASSIGNED_TO]-> user:john\nTASK-123->AFFECTS->file:UserService.kt\n]",
        "relationships: [ TASK-123 -[ASSIGNED_TO]-> user:john, TASK-123 -[ AFFECTS ]-> file:UserService.kt ]",
    ],
)
def test_block_of_any_form_expands_the_short_form(on_issue: _OnIssue, block: str) -> None:
    extracted = on_issue(block)
    assert extracted.edges == {"jira:task-123 assigned_to user:john", "jira:task-123 affects file:userservice.kt"}
    assert extracted.remarks == ""


def test_short_form_counts_for_the_own_node_only(extraction: Extraction) -> None:
    block = "relationships:\n- checkout|DEPENDS_ON|service:payments\n"
    assert extraction.extract(block, entity="service:checkout").edges == {
        "service:checkout depends_on service:payments"
    }
    other = extraction.extract(block)
    assert not other.edges
    assert "'checkout' has no namespace" in other.remarks


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("TASK-123|MENTIONS", "2 parts and not 3"),
        ("TASK-123|MENTIONS|user:john|user:jane", "4 parts and not 3"),
        ("TASK-123||user:john", "edge is empty"),
        ("|MENTIONS|", "from and to are empty"),
        ("TASK-123|MENTIONS|john", "'john' has no namespace"),
        ("TASK-123|MENTIONS|https://example.com/x", "is an address"),
        ("TASK-123|MENTIONS|user:", "not a reference"),
        ("TASK-123|***|user:john", "not an edge type"),
        ("just words", "1 part and not 3"),
        ("TASK-123|MENTIONS|user:" + "x" * 1_000, "at most 1,000 are read"),
    ],
)
def test_malformed_item_stays_text_and_is_reported_with_its_reason(on_issue: _OnIssue, item: str, reason: str) -> None:
    extracted = on_issue(f"relationships:\n- {item}\n- TASK-123|AFFECTS|service:checkout\n")
    assert extracted.edges == {"jira:task-123 affects service:checkout"}
    assert reason in extracted.remarks
    assert item[:30] in extracted.remarks
    assert {remark.kind for remark in extracted.statements.remarks} == {RemarkKind.MALFORMED_RELATION}
    assert item in "".join(chunk.content for chunk in extracted.chunks)


def test_block_continues_in_the_next_passage(on_issue: _OnIssue) -> None:
    items = [f"- TASK-123|MENTIONS|user:person {number}" for number in range(100)]
    extracted = on_issue("\n".join(["relationships:", *items, "- TASK-123|oops"]), tokens=100)
    assert len(extracted.chunks) > 5
    assert len(extracted.edges) == 100
    assert extracted.remarks.count("malformed relation") == 1


def test_line_across_two_passages_is_read_once_and_whole(extraction: Extraction) -> None:
    lines = [f"service:front-{number}|DEPENDS_ON|service:back-{number} of the shop" for number in range(200)]
    extracted = extraction.extract("\n".join(lines), tokens=61)
    torn = [chunk for chunk in extracted.chunks if not chunk.content.startswith("service:")]
    assert torn, "no window begins within a line: the test shows nothing"
    assert extracted.edges == {f"service:front-{n} depends_on service:back-{n} of the shop" for n in range(200)}


def test_list_in_front_matter_counts_and_its_errors_are_reported(extraction: Extraction) -> None:
    extracted = extraction.extract(
        '---\nentity: jira:TASK-123\nrelationships: ["TASK-123|BLOCKS|jira:TASK-9", "x|y"]\n---\n# Page\n\nTASK-9\n'
    )
    assert extracted.edges == {"jira:task-123 blocks jira:task-9"}
    assert "'x|y': it has 2 parts" in extracted.remarks


# -- trust


def test_foreign_documents_state_no_edges_of_internal_services(extraction: Extraction) -> None:
    text = "service:shop|DEPENDS_ON|service:evil\njira:A-1|BLOCKS|jira:A-2\njira:A-1|MENTIONS|service:shop\n"
    extracted = extraction.extract(text, "page.md", category="web/blogs")
    assert extracted.edges == {"jira:a-1 blocks jira:a-2", "jira:a-1 mentions service:shop"}
    assert "only internal documents can state relations of service:shop" in extracted.remarks


# -- text without relations


@pytest.mark.parametrize(
    "text",
    [
        "| service:a | DEPENDS_ON | service:b |\n|---|---|---|\n| x:1 | CALLS | y:2 |",
        "service:a | DEPENDS_ON | service:b",
        "service:a -> CALLS -> service:b",
        "browser -> CDN -> app:80",
        "checkout:8080->LB->orders:8080",
        "a->b->c",
        "ps aux|grep java|wc -l",
        "kubectl get pods -o json|jq .items|less",
        "sum(rate(http:requests:total[5m])) by (job)|foo|bar",
        "std::map->FIND->std::end",
        "this->items->CALLS->count",
        "http://a.example|GET|http://b.example",
        "(a:Person)-[:KNOWS]->(b:Person)",
        "Note: see a|B|c",
        "12:30|INFO|service:checkout started",
        "key:value|some words between|other:value",
        "fn f(x: i32)->i32",
        "client -> server: GET /\nserver -> client: 200",
        "A-1|is less than|A-2",
        "x|BLOCKS|y",
    ],
)
def test_tables_diagrams_code_and_prose_are_not_relations(extraction: Extraction, text: str) -> None:
    for page in (text, f"```\n{text}\n```", f"- {text}"):
        extracted = extraction.extract(f"# Page\n\n{page}\n")
        assert not extracted.edges
        assert not extracted.statements.remarks


@pytest.mark.parametrize(
    "text",
    [
        "relationships:\n- type: depends\n  target: b",
        "These are the relationships:\n\n- one thing and another",
        '{"relationships": {"author": {"data": {"id": "9"}}}}',
        "relationships: [see the page](https://example.com)\n\n| a | b |\n|---|---|",
        "Relationships:\n| a | b |\n",
        "relationships:\n\n| a | b |\n",
        "relationships: [",
    ],
)
def test_the_word_relationships_alone_begins_no_block(extraction: Extraction, text: str) -> None:
    extracted = extraction.extract(f"# Page\n\n{text}\n")
    assert not extracted.edges
    assert not extracted.statements.remarks


@pytest.mark.parametrize("end", ["\n", "```\n", "## Other\n"])
def test_list_in_brackets_that_is_never_closed_ends_with_its_paragraph(on_issue: _OnIssue, end: str) -> None:
    extracted = on_issue(f'```\nrelationships: [ "TASK-123|BLOCKS|jira:A-1",\n{end}"a|b", and other words\n')
    assert extracted.edges == {"jira:task-123 blocks jira:a-1"}
    assert not extracted.remarks


def test_example_corpus_has_no_relation_lines(extraction: Extraction) -> None:
    pages = [page for page in CORPUS.rglob("*.md") if page.parent.name != "inventory"]
    assert len(pages) > 40
    for page in pages:
        extracted = extraction.extract(page.read_text(), str(page.relative_to(CORPUS)))
        assert not extracted.statements.remarks, page
        assert not _of_rule(extracted, "relationship"), page


def _of_rule(extracted: Extracted, rule: str) -> list[EdgeStatement]:
    return [edge for edge in extracted.statements.edges if edge.rule == rule]


# -- limits


def test_more_relations_than_are_kept_are_left_out_with_a_remark(extraction: Extraction) -> None:
    lines = (f"service:a{number}|DEPENDS_ON|service:b{number}" for number in range(MAX_EDGES + 10))
    extracted = extraction.extract("\n".join(lines))
    assert len(extracted.edges) == MAX_EDGES
    assert f"more than {MAX_EDGES:,} relations" in extracted.remarks
    assert extracted.node(f"service:b{MAX_EDGES - 1}")


def test_first_malformed_lines_are_reported_and_the_rest_counted(on_issue: _OnIssue) -> None:
    extracted = on_issue("relationships:\n" + "\n".join(f"- TASK-123|{number}" for number in range(80)))
    assert len(extracted.statements.remarks) == 50
    assert "31 more" in extracted.remarks


@pytest.mark.parametrize("line", ["a|" * 32_768, "->" * 32_768, "-[" * 32_768, "a:b -[" * 10_000, " " * 65_536 + "|x"])
def test_long_lines_are_skipped(extraction: Extraction, line: str) -> None:
    extracted = extraction.extract(f"# Page\n\nrelationships: [\n{line}\n\nservice:a|CALLS|service:b\n")
    assert extracted.edges == {"service:a calls service:b"}
