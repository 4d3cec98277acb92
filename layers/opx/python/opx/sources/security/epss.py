"""FIRST's daily estimates of how likely each CVE is to be exploited within 30 days, in bands.

The estimates of nearly all CVEs change a little every day. Documents have the band that an estimate is in, so that they
change when it means something else, not when a digit differs.

Source of the format: FIRST, "EPSS Data and Statistics": a line of `#model_version:…,score_date:…`, then CSV.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from opx.errors import SourceShapeError

EPSS_URL = "https://epss.empiricalsecurity.com/epss_scores-current.csv.gz"
PROBABILITIES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
PERCENTILES = (0.5, 0.75, 0.9, 0.95, 0.99)
MAX_BYTES = 256 * 1024 * 1024
_GZIP = b"\x1f\x8b"
_DATE = re.compile(r"score_date:(\d{4}-\d{2}-\d{2})")
_CVE = re.compile(r"CVE-(\d{4})-(\d{4,9})\Z")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The bands of a probability and of its rank among all CVEs, by their place in the bounds."""

    probability: int
    percentile: int

    def __str__(self) -> str:
        probability = _band([f"{bound * 100:g} %" for bound in PROBABILITIES], self.probability)
        return f"probability {probability}, percentile {_band([f'{b * 100:g}' for b in PERCENTILES], self.percentile)}"


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of one day, 8 bytes a CVE: `packed` is sorted, with the bands in the last byte."""

    date: str = ""
    packed: array[int] = field(default_factory=lambda: array("Q"))

    def of(self, cve_id: str) -> Estimate | None:
        number = _number(cve_id)
        at = bisect_left(self.packed, number << 8)
        if not number or at == len(self.packed) or self.packed[at] >> 8 != number:
            return None
        bands = self.packed[at] & 0xFF
        return Estimate(bands >> 4, bands & 0xF)

    def ids_changed_from(self, earlier: Iterable[Estimates]) -> frozenset[str]:
        """CVEs that are in another band than on any of the earlier days, or have no estimate of that day."""
        found: set[int] = set()
        for other in earlier:
            found |= set(self.packed) - set(other.packed)
        return frozenset(_name(value >> 8) for value in found)


def parse_epss(body: bytes) -> Estimates:
    """The estimates in a file, packed or not. Raises `SourceShapeError`."""
    lines = io.TextIOWrapper(io.BytesIO(_unpacked(body)), encoding="utf-8-sig", errors="replace", newline="")
    head = lines.readline()
    date = _DATE.search(head)
    names = lines.readline().strip().split(",")
    if not date or names[:3] != ["cve", "epss", "percentile"]:
        raise SourceShapeError(
            f"EPSS: expected a line with score_date and one `cve,epss,percentile`, not {head[:80]!r}"
        )
    packed = array("Q", sorted(_packed(row) for row in csv.reader(lines) if row))
    if not packed:
        raise SourceShapeError("EPSS: the file has no estimates")
    return Estimates(date[1], packed)


def _packed(row: list[str]) -> int:
    try:
        number = _number(row[0])
        probability, percentile = float(row[1]), float(row[2])
    except (IndexError, ValueError) as exc:
        raise SourceShapeError(f"EPSS: expected a CVE and two numbers, not {','.join(row)[:80]!r}") from exc
    if not number or not (0 <= probability <= 1 and 0 <= percentile <= 1):
        raise SourceShapeError(f"EPSS: expected a CVE and two numbers from 0 to 1, not {','.join(row)[:80]!r}")
    return number << 8 | bisect_right(PROBABILITIES, probability) << 4 | bisect_right(PERCENTILES, percentile)


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(_GZIP):
        return body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(body, MAX_BYTES)
    except zlib.error as exc:
        raise SourceShapeError(f"EPSS: the file can't be unpacked: {exc}") from exc
    if not unpacker.eof:
        raise SourceShapeError(f"EPSS: the file breaks off, or unpacks to more than {MAX_BYTES // 1024 // 1024} MB")
    return text


def _number(cve_id: str) -> int:
    """A CVE id as a number, 0 for what is none."""
    match = _CVE.match(cve_id)
    return int(match[1]) * 10**10 + len(match[2]) * 10**9 + int(match[2]) if match else 0


def _name(number: int) -> str:
    year, rest = divmod(number, 10**10)
    digits, ordinal = divmod(rest, 10**9)
    return f"CVE-{year}-{ordinal:0{digits}}"


def _band(bounds: list[str], place: int) -> str:
    """`10 % to 25 %`."""
    if place == 0:
        return f"below {bounds[0]}"
    return f"{bounds[place - 1]} or more" if place == len(bounds) else f"{bounds[place - 1]} to {bounds[place]}"
