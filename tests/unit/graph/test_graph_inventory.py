"""The inventory in its three formats, with evidence and remarks on malformed entries, and the own node of documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import Scope
from opx.domain.sources import SourceDocument
from opx.graph.extraction import inventory
from opx.graph.extraction.own_node import own_reference, reference_of_source
from opx.ingestion.object_names import pulled_name, with_extension
from tests.support.builders import a_document, changed
from tests.support.extraction_support import Extracted, Extraction

EDGES = {
    "service:shop owned_by team:shop-oncall",
    "service:shop depends_on service:orders",
    "service:shop depends_on service:payments",
    "service:shop hosted_on host:web-1",
    "service:shop runs product:nginx",
    "service:shop runs product:fortinet/fortios",
    "alert:shop5xxhigh fires_on service:shop",
    "runbook:api-gateway-5xx documents service:shop",
}
SHOP: dict[str, Any] = {
    "name": "Shop",
    "description": "The web shop.",
    "owner": "shop-oncall",
    "depends_on": ["orders", "payments"],
    "hosts": ["web-1"],
    "runs": ["nginx 1.24.0", {"vendor": "fortinet", "product": "FortiOS", "version": "7.0.13"}],
    "alerts": ["Shop5xxHigh"],
    "runbooks": ["runbooks/api-gateway-5xx.md"],
    "aliases": ["web shop"],
}
YAML = """\
services:
  - name: Shop
    description: The web shop.
    owner: shop-oncall
    depends_on: [orders, payments]
    hosts: web-1
    runs:
      - nginx 1.24.0
      - {product: fortinet/FortiOS, version: 7.0.13}
    alerts: [Shop5xxHigh]
    runbooks: [api-gateway-5xx]
    aliases: [web shop]
"""
CSV = """\
Name,description,owner,depends_on,hosts,runs,alerts,runbooks,aliases
Shop,The web shop.,shop-oncall,orders;payments,web-1,nginx 1.24.0;fortinet/FortiOS 7.0.13,Shop5xxHigh,api-gateway-5xx,web shop
"""


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("inventory"))


def listed(extraction: Extraction, content: Any, suffix: str = "yaml", **options: Any) -> Extracted:
    return extraction.extract(content, f"operations/inventory/all.{suffix}", **options)


# -- formats


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (YAML, "yaml"),
        (CSV, "csv"),
        ({"title": "Inventory", "services": [SHOP]}, "json"),
        ({"title": "Inventory", "services": {"Shop": {key: SHOP[key] for key in SHOP if key != "name"}}}, "json"),
        (YAML.replace("services:\n  - name: Shop", "Shop:").replace("\n    ", "\n  "), "yml"),
    ],
)
def test_service_has_the_same_relations_in_every_format(extraction: Extraction, content: Any, suffix: str) -> None:
    extracted = listed(extraction, content, suffix)
    assert extracted.edges == EDGES
    assert extracted.remarks == ""
    assert extracted.edge("service:shop runs product:nginx").properties == {"version": "1.24.0"}
    assert extracted.edge("service:shop runs product:fortinet/fortios").properties == {"version": "7.0.13"}
    assert extracted.statements.aliases == (("service:web shop", "service:shop"),)


def test_versions_that_run_side_by_side_are_all_kept(extraction: Extraction) -> None:
    extracted = listed(
        extraction, {"title": "All", "services": [{"name": "shop", "runs": ["nginx 1.26.0", "nginx 1.20.0"]}]}, "json"
    )
    assert extracted.edge("service:shop runs product:nginx").properties == {"version": "1.26.0, 1.20.0"}


def test_service_is_declared_with_its_properties(extraction: Extraction) -> None:
    extracted = listed(extraction, YAML)
    assert extracted.node("service:shop").declared
    assert extracted.node("service:shop").properties == {"name": "Shop", "description": "The web shop."}


def test_evidence_of_an_entry_is_its_passage(extraction: Extraction) -> None:
    entries = [{**SHOP, "name": f"shop-{number}", "depends_on": ["orders"]} for number in range(30)]
    entries.append({"name": "orders", "runs": ["redis 7.2"]})
    extracted = listed(extraction, {"title": "Inventory", "services": entries}, "json", tokens=200)
    assert len(extracted.chunks) > 10
    for number in (0, 7, 29):
        edge = extracted.edge(f"service:shop-{number} runs product:nginx")
        assert len(edge.chunk_ids) < 3
        assert f"name: shop-{number}\n" in extracted.evidence(f"service:shop-{number} runs product:nginx")
    assert len(extracted.node("service:orders").chunk_ids) > 10
    assert "redis" in extracted.evidence("service:orders runs product:redis")
    assert len(extracted.edge("service:orders runs product:redis").chunk_ids) == 1


def test_files_of_other_categories_are_not_inventories(extraction: Extraction) -> None:
    assert not extraction.extract(YAML, "architecture/all.yaml").edges


# -- mistakes


@pytest.mark.parametrize(
    ("content", "suffix", "expected"),
    [
        ("services: [\n", "yaml", "it is not valid YAML"),
        ("a: &x [1]\nservices: *x\n", "yaml", "YAML aliases"),
        ("services: " + "[" * 60 + "]" * 60, "yaml", "deeper than 50"),
        ("services: 7\n", "yaml", "neither a list"),
        ("services: []\n# none\n", "yaml", "lists no services"),
        ("# nothing\n", "yaml", "neither a list"),
        ('name\n"unclosed\n', "csv", "it is not valid CSV"),
        ("# Page\n", "md", "neither YAML, JSON nor CSV"),
    ],
)
def test_unreadable_file_is_reported(extraction: Extraction, content: str, suffix: str, expected: str) -> None:
    extracted = listed(extraction, content, suffix)
    assert expected in extracted.remarks
    assert not extracted.edges


def test_file_that_is_too_large_is_reported(extraction: Extraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MAX_BYTES", len(YAML) - 1)
    extracted = listed(extraction, YAML)
    assert "split it" in extracted.remarks
    assert not extracted.edges


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"owner": "a"}, "service 2: it has no `name`"),
        (7.5, ""),
        (["x"], "service 2: it has no `name`"),
        ({"name": "b", "runs": [{"version": "1"}]}, "service b: it has a value in `runs`"),
        ({"name": "b", "depends_on": [{"x": 1}, "c"]}, "a mapping in `depends_on`"),
        ({"name": "b", "depends_on": True}, "true or false in `depends_on`"),
        ({"name": "b", "colour": "red"}, "the field 'colour' is unknown"),
        ({"name": "x" * 300}, "service 2: it has no `name`"),
        ({"name": "b", "runbooks": ["https://wiki.example/x"]}, "an invalid name in `documents`"),
    ],
)
def test_malformed_entry_is_reported_and_the_others_count(extraction: Extraction, entry: Any, expected: str) -> None:
    extracted = listed(extraction, {"title": "Inventory", "services": [SHOP, entry]}, "json")
    assert extracted.edges >= EDGES
    assert expected in extracted.remarks


def test_other_values_of_a_field_with_an_invalid_one_count(extraction: Extraction) -> None:
    extracted = listed(
        extraction, json.dumps({"title": "x", "services": [{"name": "b", "depends_on": [{"x": 1}, "c"]}]}), "json"
    )
    assert extracted.edges == {"service:b depends_on service:c"}


def test_secret_in_a_name_does_not_get_into_the_graph(extraction: Extraction) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    extracted = listed(extraction, {"title": "Inventory", "services": [{"name": "b", "hosts": [f"h {key}"]}]}, "json")
    assert extracted.edges
    assert key.lower() not in repr(extracted.statements).lower()


def test_relations_of_a_large_inventory_have_the_passages_of_their_entries(extraction: Extraction) -> None:
    entries = [{"name": f"s{number}", "depends_on": [f"s{number + 1}"]} for number in range(500)]
    extracted = listed(extraction, {"title": "Inventory", "services": entries}, "json")
    assert len(extracted.edges) == 500
    assert {len(edge.chunk_ids) for edge in extracted.statements.edges} <= {1, 2}


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
