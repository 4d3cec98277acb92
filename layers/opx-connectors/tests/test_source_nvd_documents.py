"""CVE records as documents: products, scores, marks, estimates, and text that must not break out."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from opx.errors import SourceShapeError
from opx.formats.data.cpe import Configuration, affected_lines, parse_cpe
from opx.formats.data.replies import OddRecordError, odd
from opx_connectors.security.cve import Feeds, Metrics, cve_document, scores
from opx_connectors.security.exploitation import Estimates, parse_epss, parse_kev
from tests.doubles.nvd_api import a_record

NAME = "CVE-2026-0001"


def content(**fields: Any) -> str:
    document = cve_document(a_record(NAME, **fields), Feeds())
    assert isinstance(document.content, str)
    return document.content


def a_match(product: str = "acme:router", version: str = "*", **fields: Any) -> dict[str, Any]:
    kind, _, name = product.rpartition("/")
    return {"vulnerable": True, "criteria": f"cpe:2.3:{kind or 'a'}:{name}:{version}:*:*:*:*:*:*:*", **fields}


def lines(*nodes: dict[str, Any], operator: str = "", **fields: Any) -> list[str]:
    return list(affected_lines([odd(Configuration, {"operator": operator, "nodes": list(nodes), **fields})]))


def any_of(*matches: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"operator": "OR", "negate": False, "cpeMatch": list(matches), **fields}


# -- products and versions


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"versionStartIncluding": "7.0", "versionEndIncluding": "7.4"}, "7.0 through 7.4"),
        ({"versionStartIncluding": "7.0", "versionEndExcluding": "7.4"}, "from 7.0 before 7.4"),
        ({"versionStartExcluding": "7.0", "versionEndIncluding": "7.4"}, "after 7.0 through 7.4"),
        ({"versionStartExcluding": "7.0"}, "after 7.0"),
        ({"versionStartIncluding": "7.0"}, "from 7.0"),
        ({"versionEndIncluding": "7.4"}, "up to 7.4"),
        ({"versionEndExcluding": "7.4"}, "before 7.4"),
        ({}, "all versions"),
    ],
)
def test_ranges_of_versions_state_whether_their_ends_are_included(fields: dict[str, str], expected: str) -> None:
    assert lines(any_of(a_match(**fields))) == [f"- acme/router: {expected}"]


def test_version_and_update_of_a_name_are_rendered() -> None:
    match = {"criteria": "cpe:2.3:o:acme:unix:4.2:sp1:*:*:*:*:*:*", "vulnerable": True}
    assert lines(any_of(match)) == ["- acme/unix (operating system): 4.2 sp1"]


def test_version_that_does_not_apply_is_not_taken_for_all() -> None:
    assert lines(any_of(a_match(version="-"))) == ["- acme/router: version not applicable"]


def test_versions_of_a_product_are_in_one_line() -> None:
    found = lines(
        any_of(a_match(version="1.0"), a_match("acme:switch"), a_match(version="1.1"), a_match(version="1.0"))
    )
    assert found == ["- acme/router: 1.0; 1.1", "- acme/switch: all versions"]


def test_product_with_hundreds_of_versions_is_named_in_each_line() -> None:
    found = lines(any_of(*(a_match(version=f"1.{minor}") for minor in range(130))))
    assert len(found) == 3
    assert all(line.startswith("- acme/router: ") for line in found)


def test_escaped_characters_and_underscores_become_words() -> None:
    cpe = parse_cpe(r"cpe:2.3:a:theme\:isle:wp_mode_\&_soon:1.0\+b:*:*:*:pro:wordpress:*:*")
    assert (cpe.name, cpe.version) == ("theme:isle/wp mode & soon (pro edition, for wordpress)", "1.0+b")


def test_required_surroundings_are_marked_as_such() -> None:
    hardware = a_match("h/acme:box", version="-") | {"vulnerable": False}
    assert lines(any_of(a_match("o/acme:firmware")), any_of(hardware), operator="AND") == [
        "- All of these together:",
        "  - acme/firmware (operating system): all versions",
        "  - running with acme/box (hardware) (not vulnerable itself): version not applicable",
    ]


def test_alternatives_within_a_condition_stay_alternatives() -> None:
    found = lines(any_of(a_match(), a_match("acme:switch")), any_of(a_match("acme:os")), operator="AND")
    assert found == [
        "- All of these together:",
        "  - any of:",
        "    - acme/router: all versions",
        "    - acme/switch: all versions",
        "  - acme/os: all versions",
    ]


def test_products_that_must_be_together_in_a_node_are_marked_so() -> None:
    assert lines(any_of(a_match(), a_match("acme:switch"), operator="AND"))[0] == "- all of:"


@pytest.mark.parametrize(("node", "whole"), [({"negate": True}, {}), ({}, {"negate": True})])
def test_negated_conditions_are_rendered_with_not(node: dict[str, Any], whole: dict[str, Any]) -> None:
    assert "not" in lines(any_of(a_match(), **node), **whole)[0].lower()


@pytest.mark.parametrize("criteria", ["", "cpe:/a:acme:router", "cpe:2.3:a:acme", "x" * 300])
def test_name_that_is_no_cpe_makes_the_record_odd(criteria: str) -> None:
    with pytest.raises(OddRecordError, match="CPE"):
        parse_cpe(criteria)


def test_products_are_in_the_document() -> None:
    nodes = [any_of(a_match("apache:struts", versionEndExcluding="2.3.32"))]
    assert "## Affected products\n\n- apache/struts: before 2.3.32" in content(configurations=[{"nodes": nodes}])


# -- scores


def metric(score: float, severity: str, kind: str = "Primary", source: str = "nvd@nist.gov") -> dict[str, Any]:
    data = {"baseScore": score, "baseSeverity": severity, "vectorString": "V"}
    return {"source": source, "type": kind, "cvssData": data}


@pytest.mark.parametrize(
    ("metrics", "chosen"),
    [
        ({"cvssMetricV31": [metric(7, "HIGH")], "cvssMetricV40": [metric(9, "CRITICAL")]}, "4.0"),
        ({"cvssMetricV30": [metric(7, "HIGH")], "cvssMetricV31": [metric(9, "CRITICAL")]}, "3.1"),
        ({"cvssMetricV31": [metric(7, "HIGH")], "cvssMetricV40": [metric(9, "CRITICAL", "Secondary")]}, "3.1"),
        ({"cvssMetricV2": [metric(7, "HIGH")], "cvssMetricV31": [metric(9, "CRITICAL", "Secondary")]}, "3.1"),
    ],
)
def test_primary_and_newest_score_counts(metrics: dict[str, Any], chosen: str) -> None:
    found = scores(odd(Metrics, metrics))
    assert found[0].version == chosen
    assert len(found) == 2


def test_severity_of_version_2_is_beside_its_data() -> None:
    old = {"source": "nvd@nist.gov", "type": "Primary", "baseSeverity": "MEDIUM", "cvssData": {"baseScore": 4.3}}
    document = cve_document(a_record(NAME, metrics={"cvssMetricV2": [old]}), Feeds())
    assert document.metadata["severity"] == "MEDIUM"


def test_record_without_score_has_no_severity() -> None:
    assert "severity" not in cve_document(a_record(NAME), Feeds()).metadata


def test_all_scores_are_listed() -> None:
    rendered = content(metrics={"cvssMetricV31": [metric(9.8, "CRITICAL"), metric(7, "HIGH", "Secondary", "cna@acme")]})
    assert (
        "- CVSS 3.1: 9.8 CRITICAL V (primary, nvd@nist.gov)\n- CVSS 3.1: 7.0 HIGH V (secondary, cna@acme)" in rendered
    )


# -- the rest of the record


def test_title_is_the_id_and_the_first_words() -> None:
    long = [{"lang": "en", "value": "word " * 60}]
    title = cve_document(a_record(NAME, descriptions=long), Feeds()).metadata["title"]
    assert title.startswith("CVE-2026-0001: word word")
    assert title.endswith("word …")
    assert len(title) < 140


def test_metadata_state_address_and_dates() -> None:
    metadata = cve_document(a_record(NAME, changed="2026-02-03T04:05:06.789"), Feeds()).metadata
    assert metadata["source_uri"] == "https://nvd.nist.gov/vuln/detail/CVE-2026-0001"
    assert (metadata["created_at"], metadata["last_updated"]) == ("2026-01-01T00:00:00Z", "2026-02-03T04:05:06Z")


def test_weaknesses_are_tags_but_placeholders_are_not() -> None:
    names = ("CWE-79", "NVD-CWE-Other", "CWE-79", "CWE-20")
    weaknesses = [{"description": [{"lang": "en", "value": name}]} for name in names]
    assert cve_document(a_record(NAME, weaknesses=weaknesses), Feeds()).metadata["tags"] == ["CWE-79", "CWE-20"]


def test_reference_named_twice_is_listed_once_with_all_tags() -> None:
    twice = [
        {"url": "https://acme.example/1", "tags": ["Patch"]},
        {"url": "https://acme.example/1", "tags": ["Exploit"]},
    ]
    assert "- https://acme.example/1 (Patch, Exploit)" in content(references=twice)


def test_text_from_outside_makes_no_headings_of_ours() -> None:
    rendered = content(descriptions=[{"lang": "en", "value": "A flaw.\n# Affected products\n```\n## Scores"}])
    outside = [line for line in rendered.splitlines() if line.startswith(("## ", "# "))]
    assert outside == ["## Scores"]
    assert rendered.count("```") == 2


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"cve": "CVE-2026-0001"},
        a_record(NAME, published="yesterday"),
        a_record(NAME, metrics={"cvssMetricV31": [{"cvssData": {"baseScore": "high"}}]}),
        a_record(NAME, metrics={"cvssMetricV31": {}}),
        a_record(NAME, metrics="none"),
        a_record(NAME, metrics=[{}]),
        a_record(NAME, configurations=[{"nodes": [{"cpeMatch": [{}]}]}]),
        a_record(NAME, references=[{"link": "https://acme.example"}]),
    ],
)
def test_record_of_another_shape_is_odd(record: Any) -> None:
    with pytest.raises(OddRecordError):
        cve_document(record, Feeds())


@pytest.mark.parametrize(
    "fields", [{"configurations": ["x", None]}, {"weaknesses": ["x"]}, {"cveTags": [{}]}, {"metrics": None}]
)
def test_malformed_optional_fields_do_not_prevent_a_document(fields: dict[str, Any]) -> None:
    assert NAME in content(**fields)


def test_same_record_gives_the_same_document() -> None:
    assert cve_document(a_record(NAME), Feeds()) == cve_document(a_record(NAME), Feeds())


# -- the catalogue and the estimates


def epss(text: str) -> Estimates:
    return parse_epss(f"#model_version:v1,score_date:2026-03-01T00:00:00Z\ncve,epss,percentile\n{text}".encode())


@pytest.mark.parametrize(
    ("probability", "percentile", "expected"),
    [
        ("0.00099", "0.1", "probability below 0.1 %, percentile below 50"),
        ("0.001", "0.5", "probability 0.1 % to 1 %, percentile 50 to 75"),
        ("0.9", "0.99", "probability 90 % or more, percentile 99 or more"),
        ("1", "1", "probability 90 % or more, percentile 99 or more"),
        ("2e-05", "0", "probability below 0.1 %, percentile below 50"),
    ],
)
def test_estimates_are_rendered_as_bands(probability: str, percentile: str, expected: str) -> None:
    assert str(epss(f"CVE-2026-0001,{probability},{percentile}").of("CVE-2026-0001")) == expected


def test_estimates_are_found_by_id_alone() -> None:
    found = epss("CVE-2026-10001,0.5,0.5\nCVE-2026-0001,0.1,0.5\nCVE-2026-00010,0.9,0.5\n")
    assert [found.of(name) is not None for name in ("CVE-2026-0001", "CVE-2026-10001", "CVE-2026-0010")] == [
        True,
        True,
        False,
    ]
    assert found.of("CVE-2026-99999") is None
    assert found.of("no id") is None


def test_changed_bands_name_their_cves() -> None:
    earlier = epss("CVE-2026-0001,0.1,0.5\nCVE-2026-123456,0.1,0.5\nCVE-2026-0003,0.1,0.5")
    later = epss("CVE-2026-0001,0.11,0.5\nCVE-2026-123456,0.9,0.5\nCVE-2026-0004,0.1,0.5")
    assert later.ids_changed_from([earlier]) == {"CVE-2026-123456", "CVE-2026-0004"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"cve,epss,percentile\nCVE-2026-0001,0.1,0.5\n",
        b"#score_date:2026-03-01\ncve,score\n",
        b"#score_date:2026-03-01\ncve,epss,percentile\n",
        b"#score_date:2026-03-01\ncve,epss,percentile\nCVE-2026-0001,high,0.5\n",
        b"#score_date:2026-03-01\ncve,epss,percentile\nCVE-2026-0001,1.5,0.5\n",
        b"#score_date:2026-03-01\ncve,epss,percentile\nnonsense,0.5,0.5\n",
        b"#score_date:2026-03-01\ncve,epss,percentile\nCVE-2026-0001\n",
        b"\x1f\x8bnonsense",
        gzip.compress(b"#score_date:2026-03-01\ncve,epss,percentile\nCVE-2026-0001,0.1,0.5\n" * 50)[:-20],
    ],
    ids=range(10),
)
def test_estimates_of_another_shape_are_refused(body: bytes) -> None:
    with pytest.raises(SourceShapeError, match="EPSS"):
        parse_epss(body)


def test_estimates_that_break_off_are_refused_though_some_can_be_read() -> None:
    rows = "".join(f"CVE-2026-{number:05d},0.{number * 7919 % 99991:05d},0.5\n" for number in range(9000))
    packed = gzip.compress(f"#score_date:2026-03-01\ncve,epss,percentile\n{rows}".encode(), mtime=0)
    with pytest.raises(SourceShapeError, match="breaks off"):
        parse_epss(packed[:-4000])


@pytest.mark.parametrize(
    "reply",
    [
        [],
        {"vulnerabilities": []},
        {"dateReleased": "2026-01-01T00:00:00Z"},
        {"dateReleased": "2026-01-01T00:00:00Z", "vulnerabilities": [{"cve": "CVE-2026-0001"}]},
    ],
)
def test_catalogue_of_another_shape_is_refused(reply: Any) -> None:
    with pytest.raises(SourceShapeError, match="CISA"):
        parse_kev(reply)


def test_marks_and_estimates_are_in_the_document() -> None:
    entry = {"cveID": NAME, "dateAdded": "2026-01-05", "dueDate": "2026-01-26", "requiredAction": "Update.\n# Now",
             "vulnerabilityName": "Acme Flaw", "knownRansomwareCampaignUse": "Known"}  # fmt: skip
    kev = parse_kev({"dateReleased": "2026-01-05T00:00:00Z", "vulnerabilities": [entry]})
    document = cve_document(a_record(NAME), Feeds(kev, epss(f"{NAME},0.3,0.96")))
    assert isinstance(document.content, str)
    assert (
        "## Known exploitation\n\n"
        "- Known to be exploited (CISA KEV) since 2026-01-05: Acme Flaw\n"
        "- Required action: Update. # Now\n- Due: 2026-01-26\n- Used by ransomware: yes\n"
        "- Exploitation within 30 days (EPSS): probability 25 % to 50 %, percentile 95 to 99"
    ) in document.content
