from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from opx import Document

class KnowledgeSource(ABC):
    """Base class for external knowledge sources."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique source name."""
        pass

    @property
    @abstractmethod
    def tier(self) -> str:
        """Default tier: 'specialized' or 'internet'"""
        pass

    @abstractmethod
    def fetch(self, since: datetime = None) -> list[Document]:
        """Fetch documents from source."""
        pass

    @abstractmethod
    def health_check(self) -> bool:
        """Verify source is accessible."""
        pass


class NVDSource(KnowledgeSource):
    """NIST National Vulnerability Database."""
    name = "nvd"
    tier = "specialized"

    def fetch(self, since: datetime = None) -> list[Document]:
        # Query NVD API for CVEs
        # Transform to Documents with metadata
        pass


class MSDocsSource(KnowledgeSource):
    """Microsoft documentation (Learn, TechNet)."""
    name = "microsoft-docs"
    tier = "specialized"

    def fetch(self, since: datetime = None) -> list[Document]:
        # Crawl/API MS Learn
        # Focus on KB articles, troubleshooting
        pass


class WebSearchSource(KnowledgeSource):
    """Live web search for Tier 3."""
    name = "web-search"
    tier = "internet"

    def fetch(self, query: str, max_results: int = 10) -> list[Document]:
        # Use search API (Brave, Google, etc.)
        # Return with source URLs and trust scores
        pass
