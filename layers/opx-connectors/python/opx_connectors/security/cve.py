"""Converts CVE records of NVD to documents, with CISA's and FIRST's data on their exploitation.

Records are rendered as Markdown instead of being mapped by the `json` paths of their category: only so are version
ranges beside the products that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opx.domain.sources import SourceDocument
from opx.formats.data.cpe import Configuration, affected_lines
from opx.formats.data.replies import Filled, Loose, Names, OddRecordError, Shape, odd, texts_of, utc
from opx.formats.markdown import facts, joined, nested, one_line
from opx_connectors.security.exploitation import Estimates, Exploited, KevCatalogue


class _Data(Shape, frozen=True, rename="camel"):
    base_score: float
    base_severity: Loose[str] = ""
    vector_string: Loose[str] = ""


class _Metric(Shape, frozen=True, rename="camel"):
    cvss_data: _Data
    base_severity: Loose[str] = ""
    source: Loose[str] = ""
    type: Loose[str] = ""


class Metrics(Shape, frozen=True):
    """The scores of a CVE record by their version, the newest first."""

    v40: tuple[_Metric, ...] = msgspec.field(default=(), name="cvssMetricV40")
    v31: tuple[_Metric, ...] = msgspec.field(default=(), name="cvssMetricV31")
    v30: tuple[_Metric, ...] = msgspec.field(default=(), name="cvssMetricV30")
    v2: tuple[_Metric, ...] = msgspec.field(default=(), name="cvssMetricV2")


@dataclass(frozen=True, slots=True)
class Score:
    """A CVSS score. `severity` is its rating (`CRITICAL`), `primary`: NVD considers its source the authority."""

    version: str
    score: float
    severity: str
    vector: str
    source: str
    primary: bool

    def line(self) -> str:
        rank = "primary" if self.primary else "secondary"
        return one_line(f"CVSS {self.version}: {self.score:.1f} {self.severity} {self.vector} ({rank}, {self.source})")


def scores(metrics: Metrics) -> list[Score]:
    """Returns all scores of a record, the decisive one first: primary before secondary and then newest first, but version
    2, which has no rating CRITICAL, after the others."""
    found = list(_found(metrics))
    return sorted(found, key=lambda score: (score.version == "2.0", not score.primary))


def _found(metrics: Metrics) -> Iterator[Score]:
    versions = (("4.0", metrics.v40), ("3.1", metrics.v31), ("3.0", metrics.v30), ("2.0", metrics.v2))
    for version, found in versions:
        for metric in found:
            yield Score(
                version=version,
                score=metric.cvss_data.base_score,
                severity=metric.cvss_data.base_severity or metric.base_severity,
                vector=metric.cvss_data.vector_string,
                source=metric.source,
                primary=metric.type == "Primary",
            )


DETAIL_URL = "https://nvd.nist.gov/vuln/detail/"
_TITLE_CHARACTERS = 110
_MAX_TAGS = 20
_PLACEHOLDERS = ("NVD-CWE-Other", "NVD-CWE-noinfo")


@dataclass(frozen=True, slots=True)
class Feeds:
    """Data on CVEs from other sources than NVD; empty where a feed isn't used."""

    kev: KevCatalogue = field(default_factory=KevCatalogue)
    epss: Estimates = field(default_factory=Estimates)


class _Value(Shape, frozen=True):
    lang: Loose[str] = ""
    value: Loose[str] = ""


class _Weakness(Shape, frozen=True):
    description: tuple[Loose[str | _Value], ...] = ()


class _Comment(Shape, frozen=True):
    comment: Loose[str] = ""


class _Tagged(Shape, frozen=True):
    tags: Names = ()


class _Reference(Shape, frozen=True):
    url: Filled
    tags: Names = ()


class Cve(Shape, frozen=True, rename="camel"):
    """The fields of a CVE record that are used."""

    id: Filled
    published: Filled
    last_modified: Filled
    descriptions: tuple[Loose[_Value], ...] = ()
    metrics: Metrics = Metrics()
    configurations: tuple[Loose[Configuration], ...] = ()
    weaknesses: tuple[Loose[_Weakness], ...] = ()
    references: tuple[_Reference, ...] = ()
    cve_tags: tuple[Loose[_Tagged], ...] = ()
    vuln_status: Loose[str] = ""
    source_identifier: Loose[str] = ""
    vendor_comments: tuple[Loose[str | _Comment], ...] = ()
    cisa_exploit_add: Loose[str] = ""
    cisa_action_due: Loose[str] = ""
    cisa_required_action: Loose[str] = ""
    cisa_vulnerability_name: Loose[str] = ""


class _Element(Shape, frozen=True):
    """An element of `vulnerabilities`."""

    cve: Cve


def cve_document(record: object, feeds: Feeds) -> SourceDocument:
    """Renders the document of an element of `vulnerabilities`. Raises `OddRecordError`."""
    cve = odd(_Element, record).cve
    name = cve.id
    description = _description(cve)
    rated = scores(cve.metrics)
    exploited = feeds.kev.entries.get(name) or _nvd_copy(cve)
    weaknesses = _weaknesses(cve)
    parts = (
        nested(description, 2),
        _facts(cve, rated),
        _section("Known exploitation", _exploitation(name, exploited, feeds)),
        _section("Affected products", affected_lines(cve.configurations)),
        _section("Scores", (f"- {score.line()}" for score in rated)),
        _section("Weaknesses", (f"- {weakness}" for weakness in weaknesses)),
        _section("References", _references(cve)),
    )
    tags = [
        *weaknesses,
        *(["kev"] if exploited else []),
        *(["ransomware"] if exploited and exploited.ransomware else []),
    ]
    metadata: dict[str, Any] = {
        "title": f"{name}: {_beginning((exploited and exploited.vulnerability_name) or description)}",
        "source_uri": DETAIL_URL + name,
        "tags": tags[-_MAX_TAGS:],
        "created_at": utc(cve.published, "published"),
        "last_updated": utc(cve.last_modified, "lastModified"),
    }
    if rated and rated[0].severity:
        metadata["severity"] = rated[0].severity
    return SourceDocument(name, joined(parts), metadata)


def _description(cve: Cve) -> str:
    english = [each for each in cve.descriptions if each.lang.startswith("en")]
    found = english[0].value.strip() if english else ""
    if not found:
        raise OddRecordError("expected an English text in 'descriptions'")
    return found


def _beginning(text: str) -> str:
    """Returns the first words, as many as fit into a title."""
    line = one_line(text)
    if len(line) <= _TITLE_CHARACTERS:
        return line
    return line[:_TITLE_CHARACTERS].rpartition(" ")[0].rstrip(" ,;:.") + " …"


def _facts(cve: Cve, rated: list[Score]) -> str:
    main = rated[0] if rated else None
    comments = [each if isinstance(each, str) else each.comment for each in cve.vendor_comments]
    marks = [tag for each in cve.cve_tags for tag in texts_of(each.tags)]
    pairs = (
        ("Severity", f"{main.severity} ({main.score:.1f}, CVSS {main.version})" if main else ""),
        ("Status at NVD", cve.vuln_status),
        ("Marked as", ", ".join(marks)),
        ("Assigned by", cve.source_identifier),
        ("Note of the vendor", " ".join(filter(None, comments))),
    )
    return facts(pairs)


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return f"## {title}\n\n{text}" if text else ""


def _nvd_copy(cve: Cve) -> Exploited | None:
    """Returns NVD's copy of the catalogue's entry, which leaves out the use by ransomware."""
    since, due, action = cve.cisa_exploit_add, cve.cisa_action_due, cve.cisa_required_action
    return Exploited(since, due, action, cve.cisa_vulnerability_name) if since else None


def _exploitation(name: str, exploited: Exploited | None, feeds: Feeds) -> Iterable[str]:
    if exploited:
        since, name_there = one_line(exploited.date_added), one_line(exploited.vulnerability_name)
        yield f"- Known to be exploited (CISA KEV) since {since}: {name_there}"
        yield from _lines(("Required action", exploited.required_action), ("Due", exploited.due_date))
        yield f"- Used by ransomware: {'yes' if exploited.ransomware else 'not known'}"
    estimate = feeds.epss.of(name)
    if estimate:
        yield f"- Exploitation within 30 days (EPSS): {estimate}"


def _lines(*pairs: tuple[str, str]) -> Iterable[str]:
    return (f"- {label}: {one_line(value)}" for label, value in pairs if value.strip())


def _weaknesses(cve: Cve) -> list[str]:
    descriptions = [each for weakness in cve.weaknesses for each in weakness.description]
    found = [each if isinstance(each, str) else each.value for each in descriptions]
    return [one_line(name) for name in dict.fromkeys(found) if name and name not in _PLACEHOLDERS]


def _references(cve: Cve) -> Iterable[str]:
    """Lines of references: each address once, with all tags that it has from any source."""
    found: dict[str, dict[str, None]] = {}
    for reference in cve.references:
        found.setdefault(one_line(reference.url), {}).update(dict.fromkeys(texts_of(reference.tags)))
    for url, tags in found.items():
        yield f"- {url}" + (f" ({', '.join(tags)})" if tags else "")
