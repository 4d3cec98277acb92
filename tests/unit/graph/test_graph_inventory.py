"""The inventory in its three formats, with evidence and remarks on malformed entries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opx.graph.extraction import inventory
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
