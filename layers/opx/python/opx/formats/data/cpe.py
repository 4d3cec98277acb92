"""Formats CPE names and the configurations of a CVE record as lines that people and searches can read.

Source of the format: NIST IR 7695, "Common Platform Enumeration: Naming Specification Version 2.3" (formatted strings).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opx.formats.data.replies import Filled, Loose, OddRecordError, Shape
from opx.formats.markdown import one_line

_PART = re.compile(r"(?:\\.|[^:\\])+")
_ESCAPED = re.compile(r"\\(.)")
_KINDS = {"o": "operating system", "h": "hardware"}
_ANY = "*"
_NONE = "-"
_MAX_VERSIONS = 60
"""Versions of one product per line; more go to another line, so that a chunk keeps the product's name with them."""


class CpeMatch(Shape, frozen=True, rename="camel"):
    """A version range of a product."""

    criteria: Filled
    vulnerable: Loose[bool] = True
    version_start_including: Loose[str] = ""
    version_start_excluding: Loose[str] = ""
    version_end_including: Loose[str] = ""
    version_end_excluding: Loose[str] = ""


class _Combined(Shape, frozen=True):
    operator: Loose[str] = ""
    negate: Loose[bool] = False

    @property
    def is_all(self) -> bool:
        return self.operator.upper() == "AND"


class CpeNode(_Combined, frozen=True, rename="camel"):
    """Products of which all or any apply."""

    cpe_match: tuple[CpeMatch, ...] = ()


class Configuration(_Combined, frozen=True):
    """Nodes of a CVE record of which all or any apply."""

    nodes: tuple[Loose[CpeNode], ...] = ()


class _Affecting(Shape, frozen=True):
    configurations: tuple[Loose[Configuration], ...] = ()


class Configured(Shape, frozen=True):
    """The affected configurations of a record."""

    cve: Loose[_Affecting] = _Affecting()


@dataclass(frozen=True, slots=True)
class Cpe:
    """A product. Fields are in readable form; "" stands for any, and `-` for none."""

    kind: str
    vendor: str
    product: str
    version: str
    update: str
    edition: str
    software: str
    hardware: str

    @property
    def name(self) -> str:
        """Vendor, product and target: `themeisle/wp maintenance mode (for wordpress)`. The slash ends the vendor's
        name, also for the rules that extract entities from the document."""
        known = (self.edition and f"{self.edition} edition", self.software and f"for {self.software}")
        more = [part for part in (*known, self.hardware and f"on {self.hardware}", _KINDS.get(self.kind)) if part]
        return f"{self.vendor}/{self.product}" + (f" ({', '.join(more)})" if more else "")


def parse_cpe(criteria: str) -> Cpe:
    """Parses a formatted string (`cpe:2.3:a:apache:struts:2.3.5:*:*:*:*:*:*:*`). Raises `OddRecordError` if it is invalid."""
    parts = _PART.findall(criteria)
    if len(parts) != 13 or parts[:2] != ["cpe", "2.3"]:
        raise OddRecordError(f"expected a CPE 2.3 name of 13 parts, not {criteria[:80]!r}")
    kind, vendor, product, version, update, edition, _, sw_edition, software, hardware, _ = parts[2:]
    editions = [known for known in map(_meaning, (edition, sw_edition)) if known]
    names = (_words(vendor) or "any vendor", _words(product) or "any product")
    return Cpe(
        kind, *names, _plain(version), _meaning(update), " ".join(editions), _meaning(software), _meaning(hardware)
    )


def _plain(value: str) -> str:
    return "" if value == _ANY else one_line(_ESCAPED.sub(r"\1", value))


def _meaning(value: str) -> str:
    """The value; "" for any and for none, as neither adds information about the product."""
    return "" if value == _NONE else _words(value)


def _words(value: str) -> str:
    """Replaces underscores, which stand for spaces in the names of vendors and products."""
    return one_line(_plain(value).replace("_", " "))


def version_range(match: CpeMatch, cpe: Cpe) -> str:
    """The versions covered by a match: `7.0.0 through 7.0.14`, `before 2.4.5`, `all versions`."""
    since, after = match.version_start_including, match.version_start_excluding
    until, before = match.version_end_including, match.version_end_excluding
    parts = [
        f"from {since}" if since and not until else since,
        f"after {after}" if after else "",
        f"through {until}" if until else "",
        f"before {before}" if before else "",
    ]
    versions = one_line(" ".join(part for part in parts if part))
    if versions:
        return f"up to {until}" if versions == f"through {until}" else versions
    if cpe.version == _NONE:
        return "version not applicable"
    return f"{cpe.version} {cpe.update}".strip() or "all versions"


def affected_lines(configurations: Iterable[Configuration]) -> Iterator[str]:
    """Markdown bullets of all configurations: vulnerable products and conditions. Raises `OddRecordError`."""
    for configuration in configurations:
        yield from _configuration(configuration)


def _configuration(configuration: Configuration) -> Iterator[str]:
    nodes, negated = configuration.nodes, configuration.negate
    together = configuration.is_all and len(nodes) > 1
    if not (together or negated):
        for node in nodes:
            yield from _node(node, 0)
        return
    yield f"- {'Not' if negated else ''}{' all of' if negated else 'All of'} these together:"
    for node in nodes:
        yield from _node(node, 1)


def _node(node: CpeNode, depth: int) -> Iterator[str]:
    lines = list(_products(node.cpe_match, inside=depth > 0))
    negated = node.negate
    alone = len(lines) == 1
    joined = "all" if node.is_all else "any"
    indent = "  " * depth
    if not negated and (alone or (joined == "any" and not depth)):
        yield from (f"{indent}- {line}" for line in lines)
        return
    yield f"{indent}- {'not ' if negated else ''}{joined} of:"
    yield from (f"{indent}  - {line}" for line in lines)


def _products(matches: Iterable[CpeMatch], *, inside: bool) -> Iterator[str]:
    """One line per product with all of its versions; products that are only the environment are marked."""
    found: dict[str, list[str]] = {}
    for match in matches:
        cpe = parse_cpe(match.criteria)
        around = " (not vulnerable itself)" if not match.vulnerable else ""
        found.setdefault(f"{'running with ' if around and inside else ''}{cpe.name}{around}", []).append(
            version_range(match, cpe)
        )
    for name, versions in found.items():
        distinct = list(dict.fromkeys(versions))
        for at in range(0, len(distinct), _MAX_VERSIONS):
            yield f"{name}: {'; '.join(distinct[at : at + _MAX_VERSIONS])}"
