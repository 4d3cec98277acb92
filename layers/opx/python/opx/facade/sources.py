"""Declarations of the built-in sources that knowledge is most often pulled from."""

from __future__ import annotations

from typing import Any

from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDeclaration


def NVDSource(name: str = "nist-nvd", **options: Any) -> SourceDeclaration:  # noqa: N802 - a source, as users name it
    """The NVD's CVEs, with CISA's known exploited ones and EPSS."""
    return SourceDeclaration(name, "nvd", Tier.SPECIALIZED, options)


def MSDocsSource(name: str = "microsoft-docs", **options: Any) -> SourceDeclaration:  # noqa: N802
    """Microsoft Learn, by `topics` such as `windows-server/troubleshoot`."""
    return SourceDeclaration(name, "microsoft_learn", Tier.SPECIALIZED, options)


def AttackSource(name: str = "mitre", **options: Any) -> SourceDeclaration:  # noqa: N802
    """MITRE ATT&CK: techniques, mitigations, groups, software and tactics."""
    return SourceDeclaration(name, "attack", Tier.SPECIALIZED, options)


def GitHubIssuesSource(name: str = "github-issues", **options: Any) -> SourceDeclaration:  # noqa: N802
    """Issues of a GitHub `repository`, with their comments."""
    return SourceDeclaration(name, "github_issues", Tier.INTERNET, options)


def WebSearchSource(name: str = "web-search", provider: str = "brave", **options: Any) -> SourceDeclaration:  # noqa: N802
    """Results of a search engine (`brave`, `google`) for recurring `queries`. A question of the moment is
    `Knowledge.search_internet`."""
    return SourceDeclaration(name, f"{provider}_search", Tier.INTERNET, options)
