"""A CVE record of NVD as a document, with what CISA and FIRST know of it.

Records are written as Markdown and not left to the `json` paths of their category: only so can version ranges be
beside the products that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from opx.domain.sources import SourceDocument
from opx.sources.markdown import facts, joined, nested, one_line
from opx.sources.security.cpe import affected_lines
from opx.sources.security.cvss import Score, scores
from opx.sources.security.epss import Estimates
from opx.sources.security.kev import Exploited, KevCatalogue
from opx.sources.shapes import OddRecordError, items, maybe_text, moment, names, text

DETAIL_URL = "https://nvd.nist.gov/vuln/detail/"
_TITLE_CHARACTERS = 110
_MAX_TAGS = 20
_PLACEHOLDERS = ("NVD-CWE-Other", "NVD-CWE-noinfo")


@dataclass(frozen=True, slots=True)
class Feeds:
    """What is known of CVEs beside NVD; empty where a feed isn't used."""

    kev: KevCatalogue = field(default_factory=KevCatalogue)
    epss: Estimates = field(default_factory=Estimates)


def cve_id(record: Any) -> str:
    """The id of an element of `vulnerabilities`. Raises `OddRecordError`."""
    return text(record, "cve.id")


def cve_document(record: Any, feeds: Feeds) -> SourceDocument:
    """The document of an element of `vulnerabilities`. Raises `OddRecordError`."""
    name = cve_id(record)
    cve = record["cve"]
    description = _description(cve)
    rated = scores(cve)
    exploited = feeds.kev.entries.get(name) or _as_nvd_has_it(cve)
    weaknesses = _weaknesses(cve)
    parts = (
        nested(description, 2),
        _facts(cve, rated),
        _section("Known exploitation", _exploitation(name, exploited, feeds)),
        _section("Affected products", affected_lines(items(cve, "configurations"))),
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
        "title": f"{name}: {_beginning(exploited.name if exploited and exploited.name else description)}",
        "source_uri": DETAIL_URL + name,
        "tags": tags[-_MAX_TAGS:],
        "created_at": moment(cve, "published"),
        "last_updated": moment(cve, "lastModified"),
    }
    if rated and rated[0].severity:
        metadata["severity"] = rated[0].severity
    return SourceDocument(name, joined(parts), metadata)


def _description(cve: Any) -> str:
    told = [each for each in items(cve, "descriptions") if maybe_text(each, "lang").startswith("en")]
    found = maybe_text(told[0], "value").strip() if told else ""
    if not found:
        raise OddRecordError("expected an English text in 'descriptions'")
    return found


def _beginning(text: str) -> str:
    """The first words, as many as fit into a title."""
    line = one_line(text)
    if len(line) <= _TITLE_CHARACTERS:
        return line
    return line[:_TITLE_CHARACTERS].rpartition(" ")[0].rstrip(" ,;:.") + " …"


def _facts(cve: Any, rated: list[Score]) -> str:
    main = rated[0] if rated else None
    marks = [tag for each in items(cve, "cveTags") for tag in names(each, "tags")]
    pairs = (
        ("Severity", f"{main.severity} ({main.score:.1f}, CVSS {main.version})" if main else ""),
        ("Status at NVD", maybe_text(cve, "vulnStatus")),
        ("Marked as", ", ".join(marks)),
        ("Assigned by", maybe_text(cve, "sourceIdentifier")),
        ("Note of the vendor", " ".join(names(cve, "vendorComments", "comment"))),
    )
    return facts(pairs)


def _section(title: str, lines: Iterable[str]) -> str:
    told = "\n".join(lines)
    return f"## {title}\n\n{told}" if told else ""


def _as_nvd_has_it(cve: Any) -> Exploited | None:
    """The catalogue's entry as NVD has copied it, which leaves out the use by ransomware."""
    since = maybe_text(cve, "cisaExploitAdd")
    if not since:
        return None
    due, action = maybe_text(cve, "cisaActionDue"), maybe_text(cve, "cisaRequiredAction")
    return Exploited(since, due, action, maybe_text(cve, "cisaVulnerabilityName"), ransomware=False)


def _exploitation(name: str, exploited: Exploited | None, feeds: Feeds) -> Iterable[str]:
    if exploited:
        yield f"- Known to be exploited (CISA KEV) since {one_line(exploited.since)}: {one_line(exploited.name)}"
        yield from _lines(("Required action", exploited.action), ("Due", exploited.due))
        yield f"- Used by ransomware: {'yes' if exploited.ransomware else 'not known'}"
    estimate = feeds.epss.of(name)
    if estimate:
        yield f"- Exploitation within 30 days (EPSS): {estimate}"


def _lines(*pairs: tuple[str, str]) -> Iterable[str]:
    return (f"- {label}: {one_line(value)}" for label, value in pairs if value.strip())


def _weaknesses(cve: Any) -> list[str]:
    found = [name for each in items(cve, "weaknesses") for name in names(each, "description", "value")]
    return [one_line(name) for name in dict.fromkeys(found) if name not in _PLACEHOLDERS]


def _references(cve: Any) -> Iterable[str]:
    """Each address once, with all tags that it has from any source."""
    found: dict[str, dict[str, None]] = {}
    for reference in items(cve, "references"):
        found.setdefault(one_line(text(reference, "url")), {}).update(dict.fromkeys(names(reference, "tags")))
    for url, tags in found.items():
        yield f"- {url}" + (f" ({', '.join(tags)})" if tags else "")
