"""Extracts the products and versions that a vulnerability affects, from advisories and NVD records.

A product has two references: `product:fortinet/fortios`, as NVD names it, and `product:fortios`, as people often call it. An
inventory with `nginx` matches `f5/nginx` by the second one, with lower confidence, as two vendors may have a product of that
name. An alias would merge the two in all scopes, which is wrong as soon as there are two vendors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from opx.domain.documents import DocumentChunk, Remark, RemarkKind
from opx.domain.graph import EdgeStatement
from opx.graph.extraction.material import VERSIONS, Findings, Material
from opx.graph.extraction.own_node import named_node, product_key
from opx.graph.versions import ALL, between, plain, union

if TYPE_CHECKING:
    from opx.formats.data.cpe import CpeMatch

CATEGORY = "security/cve"
RULE = "advisory"
ANY_VENDOR = 0.7
"""Confidence in a product that is matched by its name without the vendor."""

MAX_BYTES = 16 * 1024 * 1024
MAX_RANGES = 20_000
"""Characters of the ranges of one product in one passage, or one record."""

_BULLET = re.compile(r"(?P<indent> {0,12})- (?P<entry>\S.*)")
_NOTES = re.compile(r"(?: \([^()]*\))+\Z")
_SECTION = "Affected products"
_EXPOSED = "not vulnerable itself"
_ENDS = re.compile(
    r"(?P<word>from|after|through|before|up to) (?P<version>.+?)(?= (?:from|after|through|before|up to) |\Z)"
)
_NOT_APPLICABLE = "version not applicable"
_ALL = "all versions"
_ANY = ("any vendor", "any product")

Affected = tuple[str, str, str]
"""Vendor ("" if unknown), product and version ranges."""


def affected_products(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: the list `Affected products` of a vulnerability."""
    within = _SECTION in chunk.section
    if material.own.startswith("cve:") and (within or _SECTION in chunk.content):
        _state(material.own, _listed(chunk.content, within), (chunk.chunk_id,), findings)


def affected_in_record(material: Material, findings: Findings) -> None:
    """A document rule: the configurations of a record of NVD, whose text has no ranges of versions."""
    is_record = PurePosixPath(material.document.key.source).suffix.lower() == ".json"
    if not is_record or not material.own.startswith("cve:") or material.document.category != CATEGORY:
        return
    from opx.formats.data.replies import OddRecordError

    with material.open() as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        text = f"the products of a record of more than {MAX_BYTES:,} bytes are not in the graph"
        findings.remarks.append(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text))
        return
    try:
        _state(material.own, list(_configured(json.loads(data))), (), findings)
    except (OddRecordError, ValueError, RecursionError) as exc:
        findings.remarks.append(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, f"affected products: {exc}"))


def _state(own: str, found: Iterable[Affected], chunk_ids: tuple[str, ...], findings: Findings) -> None:
    ranges: dict[tuple[str, str], str] = {}
    for vendor, product, versions in found:
        if product in _ANY or not product.strip():
            continue
        known = "" if vendor in _ANY else vendor
        for name in dict.fromkeys(((known, product), ("", product))):
            ranges[name] = union(ranges[name], versions) if name in ranges else versions
    for (vendor, product), versions in ranges.items():
        called = f"{vendor}/{product}" if vendor else product
        key = product_key(called)
        if not key:
            continue
        findings.add(
            named_node(called, key, chunk_ids),
            EdgeStatement(
                own,
                "affects",
                key,
                chunk_ids,
                rule=RULE,
                confidence=1.0 if vendor else ANY_VENDOR,
                properties={VERSIONS: _fitting(versions, called, findings)},
            ),
        )


def _fitting(versions: str, name: str, findings: Findings) -> str:
    if len(versions) <= MAX_RANGES:
        return versions
    text = f"{name} has so many affected versions that only the first are in the graph"
    findings.remarks.append(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text))
    return versions[:MAX_RANGES].rpartition(", ")[0]


# -- documents of the connector


def _listed(text: str, within: bool) -> Iterator[Affected]:
    """Products with their versions, without exposed surroundings and excluded conditions. A chunk may join small sections:
    only lines below the heading count."""
    excluded = -1
    for line in text.splitlines():
        if line.startswith("#"):
            within = line.strip("# ") == _SECTION
        match = _BULLET.fullmatch(line) if within else None
        if not match:
            continue
        depth, entry = len(match["indent"]), match["entry"]
        if excluded >= 0 and depth > excluded:
            continue
        excluded = depth if entry.lower().startswith("not ") and entry.endswith(":") else -1
        if excluded < 0:
            yield from _product(entry)


def _product(entry: str) -> Iterator[Affected]:
    called, _, versions = entry.rpartition(": ")
    if not called or _EXPOSED in called or not _are_versions(versions):
        return
    name = _NOTES.sub("", called)
    vendor, slash, product = name.partition("/")
    if not slash:  # documents from before products were written with a slash
        vendor, _, product = name.partition(" ")
    yield vendor, product, union(*map(_range, versions.split("; ")))


def _are_versions(text: str) -> bool:
    """True for a list of version ranges, false for a sentence."""
    first = text.partition("; ")[0]
    return first in (_ALL, _NOT_APPLICABLE) or (any(map(str.isdigit, first)) and len(first.split()) <= 6)


def _range(text: str) -> str:
    """The range of a phrase: `7.0.0 through 7.0.14` -> `>=7.0.0 <=7.0.14`."""
    if text in (_ALL, _NOT_APPLICABLE):
        return ALL
    words = text if re.match(r"(?:from|after|before|up to) ", text) else f"from {text}"
    ends = {match["word"]: match["version"] for match in _ENDS.finditer(words)}
    if words != text and len(ends) == 1:
        return plain(text)
    return between(
        since=ends.get("from", ""),
        after=ends.get("after", ""),
        until=ends.get("through", "") or ends.get("up to", ""),
        before=ends.get("before", ""),
    )


# -- records of NVD


def _configured(record: Any) -> Iterator[Affected]:
    """Affected products of a record's configurations. Raises `OddRecordError` for other JSON."""
    from opx.formats.data.cpe import Configured, parse_cpe
    from opx.formats.data.replies import odd

    groups = [one for one in odd(Configured, record).cve.configurations if not one.negate]
    nodes = [node for group in groups for node in group.nodes if not node.negate]
    for match in (match for node in nodes for match in node.cpe_match):
        if match.vulnerable:
            cpe = parse_cpe(match.criteria)
            yield cpe.vendor, cpe.product, _matched(match, cpe.version, cpe.update)


def _matched(match: CpeMatch, version: str, update: str) -> str:
    found = between(
        since=match.version_start_including,
        after=match.version_start_excluding,
        until=match.version_end_including,
        before=match.version_end_excluding,
    )
    return found or (ALL if version == "-" else plain(f"{version} {update}"))
