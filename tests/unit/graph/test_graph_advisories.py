"""Affected products and versions of vulnerabilities, and comparison of versions."""

from __future__ import annotations

from typing import Any

import pytest

from opx.graph.extraction import advisories
from opx.graph.versions import between, compared, plain, union, version_in
from opx_connectors.security.cve import Feeds, cve_document
from tests.doubles.nvd_api import a_record
from tests.support.extraction_support import Extracted, Extraction

CVE = "CVE-2026-0001"


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("advisories"))


def a_match(product: str = "acme:router", version: str = "*", update: str = "*", **fields: Any) -> dict[str, Any]:
    criteria = f"cpe:2.3:a:{product}:{version}:{update}:*:*:*:*:*:*"
    return {"vulnerable": True, "criteria": criteria, "matchCriteriaId": "x", **fields}


def a_node(*matches: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"operator": "OR", "negate": False, "cpeMatch": list(matches), **fields}


def as_document(extraction: Extraction, *nodes: dict[str, Any], tokens: int = 500, **fields: Any) -> Extracted:
    """Extracts the document that the connector writes."""
    record = a_record(CVE, configurations=[{"nodes": list(nodes), **fields}])
    return extraction.pulled(cve_document(record, Feeds()), "security/cve", tokens=tokens)


def as_record(extraction: Extraction, *nodes: dict[str, Any], **fields: Any) -> Extracted:
    """Extracts the record as NVD returns it."""
    record = a_record(CVE, configurations=[{"nodes": list(nodes), **fields}])
    return extraction.extract(record, f"security/cve/{CVE}.json")


BOTH = pytest.mark.parametrize("read_as", [as_document, as_record])


def affected(extracted: Extracted) -> dict[str, str]:
    return {
        edge.target.removeprefix("product:"): str(edge.properties["versions"])
        for edge in extracted.statements.edges
        if (edge.source, edge.edge_type) == (f"cve:{CVE.lower()}", "affects")
    }


@BOTH
@pytest.mark.parametrize(
    ("matches", "ranges"),
    [
        ([a_match(versionStartIncluding="7.0", versionEndExcluding="7.4")], ">=7.0 <7.4"),
        ([a_match(versionStartIncluding="7.0", versionEndIncluding="7.4")], ">=7.0 <=7.4"),
        ([a_match(versionStartExcluding="7.0", versionEndIncluding="7.4")], ">7.0 <=7.4"),
        ([a_match(versionStartIncluding="7.0")], ">=7.0"),
        ([a_match(versionStartExcluding="7.0")], ">7.0"),
        ([a_match(versionEndIncluding="7.4")], "<=7.4"),
        ([a_match(versionEndExcluding="7.4")], "<7.4"),
        ([a_match()], ""),
        ([a_match(version="-")], ""),
        ([a_match(version="7.0.13")], "7.0.13"),
        ([a_match(version="2008", update="sp1")], "2008-sp1"),
        ([a_match(version="1.1.1k"), a_match(versionEndExcluding="1.0")], "1.1.1k, <1.0"),
        ([a_match(version="1.1.1k"), a_match()], ""),
    ],
)
def test_ranges_of_versions_are_kept_as_they_are(
    extraction: Extraction, read_as: Any, matches: list[dict[str, Any]], ranges: str
) -> None:
    assert affected(read_as(extraction, a_node(*matches))) == {"acme/router": ranges, "router": ranges}


@BOTH
def test_product_without_its_vendor_has_lower_confidence(extraction: Extraction, read_as: Any) -> None:
    extracted = read_as(extraction, a_node(a_match("apache:http_server", versionEndExcluding="2.4.5")))
    assert affected(extracted) == {"apache/http_server": "<2.4.5", "http_server": "<2.4.5"}
    sure = extracted.edge(f"cve:{CVE.lower()} affects product:apache/http_server")
    assert sure.confidence > extracted.edge(f"cve:{CVE.lower()} affects product:http_server").confidence
    assert extracted.node("product:apache/http_server").properties["name"] == "apache/http server"


@BOTH
def test_exposed_and_excluded_products_are_not_affected(extraction: Extraction, read_as: Any) -> None:
    around = a_match("acme:box", version="-") | {"vulnerable": False}
    extracted = read_as(extraction, a_node(a_match("acme:firmware")), a_node(around), operator="AND")
    assert set(affected(extracted)) == {"acme/firmware", "firmware"}
    excluded = read_as(extraction, a_node(a_match("acme:firmware")), a_node(a_match("acme:safe"), negate=True))
    assert set(affected(excluded)) == {"acme/firmware", "firmware"}
    assert not affected(read_as(extraction, a_node(a_match("acme:safe")), negate=True))


def test_versions_of_several_passages_are_united(extraction: Extraction) -> None:
    matches = [a_match(version=f"1.{number}") for number in range(130)]
    extracted = as_document(extraction, a_node(*matches), tokens=120)
    assert len(extracted.edge(f"cve:{CVE.lower()} affects product:acme/router").chunk_ids) > 1
    assert affected(extracted)["acme/router"].split(", ") == [f"1.{number}" for number in range(130)]


def test_product_is_proved_by_the_passage_that_lists_it(extraction: Extraction) -> None:
    extracted = as_document(extraction, a_node(a_match("apache:struts", versionEndExcluding="2.3.32")))
    assert "- apache/struts: before 2.3.32" in extracted.evidence(f"cve:{CVE.lower()} affects product:apache/struts")


def test_other_lists_of_the_document_name_no_products(extraction: Extraction) -> None:
    text = (
        "Text: 1.0\n\n- before it/all: 7.1\n\n## Affected products\n\n- acme/router: 1.0\n- see the advisory: it has more\n\n"
        "## Scores\n\n- CVSS 3.1: 9.8 CRITICAL V (primary, nvd@nist.gov)\n\n## References\n\n- https://acme.example/a: 2.0\n"
    )
    extracted = extraction.extract(text, f"security/cve/{CVE}.md")
    assert affected(extracted) == {"acme/router": "1.0", "router": "1.0"}


def test_product_without_a_slash_has_its_vendor_first(extraction: Extraction) -> None:
    extracted = extraction.extract(
        "## Affected products\n\n- acme big router (hardware): 1.0\n", f"security/cve/{CVE}.md"
    )
    assert set(affected(extracted)) == {"acme/big_router", "big_router"}


@pytest.mark.parametrize(
    ("configurations", "problem"),
    [
        ("x", "the field 'cve.configurations' should be a list, not a string"),
        ([{"nodes": 7}], "the field 'cve.configurations[0].nodes' should be a list, not a whole number"),
        ([{"nodes": [{"cpeMatch": [{"criteria": "cpe:x"}]}]}], "expected a CPE 2.3 name"),
    ],
)
def test_malformed_record_is_kept_with_a_remark(extraction: Extraction, configurations: Any, problem: str) -> None:
    extracted = extraction.extract(a_record(CVE, configurations=configurations), f"security/cve/{CVE}.json")
    assert extracted.own == f"cve:{CVE.lower()}"
    assert f"affected products: {problem}" in extracted.remarks


def test_versions_beyond_the_limit_are_reported(extraction: Extraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisories, "MAX_RANGES", 100)
    matches = [a_match(version=f"1.{number}.0") for number in range(100)]
    extracted = as_record(extraction, a_node(*matches))
    assert "so many affected versions" in extracted.remarks
    kept = affected(extracted)["acme/router"].split(", ")
    assert kept == [f"1.{number}.0" for number in range(len(kept))]
    assert len(kept) > 5


# -- versions


@pytest.mark.parametrize(
    ("version", "ranges", "inside"),
    [
        ("7.0.13", ">=7.0.0 <7.0.14", True),
        ("7.0.14", ">=7.0.0 <7.0.14", False),
        ("6.9", ">=7.0.0 <7.0.14", False),
        ("7.0.13p1", ">7.0.13 <7.0.14", True),
        ("7.0.13-p1", "7.0.13 p1", True),
        ("1.1.1k", "<1.1.1l", True),
        ("1.1.1", "<1.1.1a", True),
        ("1.1.1a", "<=1.1.1", False),
        ("1.0.2zb", ">1.0.2z", True),
        ("10.0", ">9.9", True),
        ("1.0", "1.0.0", True),
        ("v1.2", "<=1.2", True),
        ("1.0rc1", "<1.0", True),
        ("1.0b2", "<1.0", True),
        ("1.0.0-beta.2", ">1.0.0-beta.1 <1.0.0", True),
        ("2.0.0-SNAPSHOT", "<2.0.0", True),
        ("2008 SP1", "2008-sp1", True),
        ("15.2(7)e3", ">=15.2(7)e2 <15.2(7)e4", True),
        ("1.24.0-2ubuntu7.1", ">=1.24.0 <1.25", True),
        ("1.0+build.7", "1.0", True),
        ("3", "1, 2, 3", True),
        ("3", "1, 2", False),
        ("anything", "", True),
        ("", "", True),
        ("", ">=1", False),
        ("3", ", ,", False),
    ],
)
def test_version_in_ranges(version: str, ranges: str, *, inside: bool) -> None:
    assert version_in(version, ranges) is inside


def test_versions_have_one_order() -> None:
    ordered = ["0.9", "1.0.dev1", "1.0-alpha", "1.0rc1", "1.0", "1.0a", "1.0p1", "1.0.1", "1.2", "1.10", "2"]
    for at, older in enumerate(ordered):
        assert compared(older, older) == 0
        for newer in ordered[at + 1 :]:
            assert (compared(older, newer), compared(newer, older)) == (-1, 1), (older, newer)


def test_union_of_ranges() -> None:
    assert union("1, >=2 <3", ">=2 <3", "4") == "1, >=2 <3, 4"
    assert union("1", "") == ""
    assert between(since="1", before="2") == ">=1 <2"
    assert plain(" 2008  sp1, <x> ") == "2008-sp1-x"


def test_very_long_versions_and_ranges_are_compared_quickly() -> None:
    assert not version_in("1." * 5_000, "2" * 10_000)
    assert not version_in("1", ", ".join([">2"] * 5_000))
    assert not version_in("1", "> " * 5_000)
