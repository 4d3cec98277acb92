"""Scores of a CVE record: all of them, and the one that counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import field

from opx.sources.markdown import one_line
from opx.sources.shapes import Loose, Shape


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

    v40: tuple[_Metric, ...] = field(default=(), name="cvssMetricV40")
    v31: tuple[_Metric, ...] = field(default=(), name="cvssMetricV31")
    v30: tuple[_Metric, ...] = field(default=(), name="cvssMetricV30")
    v2: tuple[_Metric, ...] = field(default=(), name="cvssMetricV2")


@dataclass(frozen=True, slots=True)
class Score:
    """`severity` is the word for the score (`CRITICAL`), `primary` whether NVD counts its source as the authority."""

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
    """All scores of a record, the one that counts first: primary before secondary and then newest first, but version 2,
    which knows nothing critical, after the others."""
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
