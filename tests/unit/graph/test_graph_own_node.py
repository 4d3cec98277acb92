"""The own node of documents: by the field `entity`, by connectors, by ids and by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.domain.sources import SourceDocument
from opx.graph.extraction.own_node import own_reference, reference_of_source
from opx.ingestion.object_names import pulled_name, with_extension
from tests.support.builders import a_document, changed
from tests.support.extraction_support import Extraction

A_DOCUMENT = a_document()


def own(
    source: str, category: str = "web/blogs", facts: dict[str, tuple[str, ...]] | None = None, **fields: Any
) -> str:
    key = DocumentKey(Scope(), f"documents/{source}")
    return own_reference(changed(A_DOCUMENT, key=key, category=category, **fields), facts or {})


@pytest.mark.parametrize(
    ("source", "category", "reference"),
    [
        ("runbooks/ingress-502.md", "runbooks/procedures", "runbook:ingress-502"),
        ("runbooks/procedures/db/failover.md", "runbooks/procedures", "runbook:db/failover"),
        ("team/runbooks/x.md", "runbooks/procedures", "runbook:x"),
        ("home/ann/corpus/documents/runbooks/db/x.md", "runbooks/procedures", "runbook:db/x"),
        ("home/runbooks/corpus/runbooks/x.md", "runbooks/procedures", "runbook:x"),
        ("home/ann/corpus/documents/postmortems/x.md", "postmortems", "incident:x"),
        ("runbooks/procedures/alerts/x.md", "runbooks/procedures", "runbook:alerts/x"),
        ("vendor/cloud/sources/aws/cloud/x.md", "vendor/cloud", "document:sources/aws/cloud/x"),
        ("page.md", "runbooks/procedures", "runbook:page"),
        ("runbooks/page.pdf", "runbooks/procedures", "runbook:page.pdf"),
        ("architecture/data-stores.md", "runbooks/architecture", "document:data-stores"),
        ("postmortems/2024-01-rds.md", "postmortems", "incident:2024-01-rds"),
        ("operations/incidents/sources/pd/INC-12.json", "operations/incidents", "incident:inc-12"),
        ("operations/incidents/sources/pd/Q1.json", "operations/incidents", "incident:sources/pd/q1"),
        ("operations/changes/CHG0030001.json", "operations/changes", "change:chg0030001"),
        (
            "operations/alerts/webhooks/am/5ef77f1f8a3ecb8d.md",
            "operations/alerts",
            "alert_event:webhooks/am/5ef77f1f8a3ecb8d",
        ),
        ("evidence/agent_runs/evidence/run-1.json", "evidence/agent_runs", "document:evidence/run-1.json"),
        ("runbooks/procedures/src/UserService.kt", "runbooks/procedures", "file:src/userservice.kt"),
        ("vendor/cloud/sources/shop/src/a.py", "vendor/cloud", "file:src/a.py"),
        ("vendor/cloud/sources/aws/ec2/limits.md", "vendor/cloud", "document:sources/aws/ec2/limits"),
    ],
)
def test_own_reference_by_path_and_category(source: str, category: str, reference: str) -> None:
    assert own(source, category) == reference


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("documents/runbooks/ingress-502.md", "runbook:ingress-502"),
        ("documents/postmortems/2024-01-rds.md", "incident:2024-01-rds"),
        ("documents/architecture/data-stores.md", "document:data-stores"),
        ("documents/page.md", "runbook:page"),
        ("documents/home/ann/runbooks/alerts/x.md", "runbook:alerts/x"),
        ("operations/changes/CHG-1.md", "change:chg-1"),
    ],
)
def test_own_reference_by_folders_without_a_category(source: str, reference: str) -> None:
    assert reference_of_source(source) == reference


@pytest.mark.parametrize(
    ("key", "fields", "reference"),
    [
        ("TASK-12", {"source_uri": "https://x.example/jira/browse/TASK-12"}, "jira:task-12"),
        ("TASK-12", {"source_uri": "https://x.example/browse/TASK-13"}, "document:sources/s/task-12~"),
        ("98304", {"source_uri": "https://x.atlassian.net/wiki/spaces/OPS/pages/98304/A"}, "confluence:98304"),
        ("98304", {"source_uri": "https://x.example/98304"}, "document:sources/s/98304~"),
        (
            "98304/attachments/98305.txt",
            {"source_uri": "https://x.example/wiki/download/attachments/98304/98305.txt"},
            "document:sources/s/98304/attachments/98305.txt",
        ),
        ("ab" * 20, {"tags": ("commit",)}, f"commit:{'ab' * 20}"),
        ("ab" * 20, {"tags": ("other",)}, f"document:sources/s/{'ab' * 20}~"),
        ("issues/5", {"source_uri": "https://github.com/o/r/issues/5"}, "github:o/r#5"),
        ("CVE-2024-23113", {"category": "security/cve"}, "cve:cve-2024-23113"),
        ("T1059.001", {"category": "security/mitre", "tags": ("T1059.001", "technique")}, "technique:t1059.001"),
        ("M1038", {"category": "security/mitre", "tags": ("M1038", "mitigation")}, "mitigation:m1038"),
        ("rfc9110", {"category": "standards/rfc"}, "rfc:9110"),
        ("texts/rfc9110.txt", {"category": "standards/rfc"}, "rfc:9110"),
    ],
)
def test_own_reference_of_pulled_documents(key: str, fields: dict[str, Any], reference: str) -> None:
    document = SourceDocument(key, "text")
    category = fields.get("category", "web/blogs")
    name = with_extension(pulled_name("s", document), document.content)
    assert own(f"{category}/{name}", **{**fields, "category": category}) == reference


@pytest.mark.parametrize(
    ("source", "fields", "reference"),
    [
        ("tickets/TASK-12.md", {"source_uri": "https://x.example/browse/TASK-12"}, "jira:task-12"),
        ("x1.json", {"category": "security/cve", "title": "CVE-2024-23113: Format string"}, "cve:cve-2024-23113"),
        ("CVE-2024-23113.json", {"category": "security/cve"}, "cve:cve-2024-23113"),
        (
            "attack/t.json",
            {"category": "security/mitre", "tags": ("execution", "Linux", "T1059")},
            "technique:t1059",
        ),
    ],
)
def test_own_reference_of_files_with_an_identity(source: str, fields: dict[str, Any], reference: str) -> None:
    assert own(source, **fields) == reference


def test_entity_of_the_metadata_wins() -> None:
    assert own("runbooks/x.md", facts={"entity": ("Service: Checkout",)}) == "document:runbooks/x"
    assert own("runbooks/x.md", facts={"entity": ("Service:Checkout",)}) == "service:checkout"
    assert own("sources/n/CVE-2024-1111.md", "security/cve", {"entity": ("service:a",)}) == "service:a"


@pytest.mark.parametrize("entity", [("checkout",), ("",), ("service:a", "service:b"), ("https://a",), ("user:",)])
def test_invalid_entity_falls_back_to_the_path(entity: tuple[str, ...]) -> None:
    assert own("runbooks/x.md", "runbooks/procedures", {"entity": entity}) == "runbook:x"


@pytest.mark.parametrize(
    ("category", "facts", "reference"),
    [
        ("operations/incidents", {"id": ("INC-7",)}, "incident:inc-7"),
        ("postmortems", {"incident": ("INC-7",)}, "incident:inc-7"),
        ("postmortems", {"incident": ("incident:INC-7",)}, "incident:inc-7"),
        ("postmortems", {"incidents": ("INC-7", "INC-8")}, "incident:a"),
        ("operations/changes", {"change_id": ("CHG-1",), "id": ("9",)}, "change:chg-1"),
        ("operations/alerts", {"id": ("f00",)}, "alert_event:f00"),
        ("runbooks/procedures", {"id": ("7",), "incident": ("INC-7",)}, "runbook:a"),
    ],
)
def test_record_is_about_the_node_of_its_id(category: str, facts: dict[str, tuple[str, ...]], reference: str) -> None:
    assert own("a.md", category, facts) == reference


def test_long_and_odd_names_still_give_a_reference() -> None:
    assert own("runbooks/" + "x" * 450 + ".md", "runbooks/procedures").startswith("runbook:xxx")
    assert own('runbooks/a|b "c".md', "runbooks/procedures") == "runbook:a b c"


def test_own_node_is_declared_with_title_and_category(tmp_path: Path) -> None:
    extracted = Extraction(tmp_path).extract("# My page\n\ntext\n", "runbooks/page.md")
    node = extracted.node("runbook:page")
    assert (node.declared, node.type) == (True, "runbook")
    assert node.properties == {"title": "My page", "category": "runbooks/procedures"}
    assert node.chunk_ids == (extracted.chunks[0].chunk_id,)


@pytest.mark.parametrize(
    ("category", "title", "reference"),
    [
        ("operations/changes", "CHG-481 raise the pool of orders", "change:chg-481"),
        ("operations/incidents", "INC-7: checkout is down", "incident:inc-7"),
        ("operations/changes", "Raise the pool, see CHG-481", "change:notes"),
        ("postmortems", "INC-7: checkout was down", "incident:notes"),  # pages link to each other by path
    ],
)
def test_record_without_an_id_is_about_the_id_in_its_title(category: str, title: str, reference: str) -> None:
    assert own("notes.json", category, title=title) == reference
