"""Scores of a CVE record: all of them, and the one that counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opx.sources.markdown import one_line
from opx.sources.shapes import OddRecordError, items, maybe_text, member

_METRICS = (("4.0", "cvssMetricV40"), ("3.1", "cvssMetricV31"), ("3.0", "cvssMetricV30"), ("2.0", "cvssMetricV2"))
"""Newest first."""


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


def scores(cve: Any) -> list[Score]:
    """All scores of a record, the one that counts first: primary before secondary and then newest first, but version 2,
    which knows nothing critical, after the others. Raises `OddRecordError`."""
    found = list(_found(cve))
    return sorted(found, key=lambda score: (score.version == "2.0", not score.primary))


def _found(cve: Any) -> Iterator[Score]:
    metrics = member(cve, "metrics")
    if not isinstance(metrics, Mapping | None):
        raise OddRecordError("expected an object at 'metrics'")
    for version, name in _METRICS:
        for metric in items(cve, f"metrics.{name}"):
            score = member(metric, "cvssData.baseScore")
            if not isinstance(score, int | float) or isinstance(score, bool):
                raise OddRecordError(f"expected a number at 'metrics.{name}.cvssData.baseScore'")
            yield Score(
                version=version,
                score=float(score),
                severity=maybe_text(metric, "cvssData.baseSeverity") or maybe_text(metric, "baseSeverity"),
                vector=maybe_text(metric, "cvssData.vectorString"),
                source=maybe_text(metric, "source"),
                primary=maybe_text(metric, "type") == "Primary",
            )
