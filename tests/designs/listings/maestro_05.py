from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from opx import BaselineStats

@dataclass
class QueryConfig:
    """Configuration for knowledge query."""
    tiers: list[str] = field(default_factory=lambda: ["internal", "specialized"])
    categories: list[str] = None  # None = all in tier
    min_confidence: float = 0.7
    max_results: int = 10
    include_internet: bool = False  # Explicit opt-in for Tier 3
    require_provenance: bool = True

@dataclass
class RetrievalResult:
    """Single retrieval result with full provenance."""
    content: str
    score: float
    tier: str
    category: str
    source: str
    timestamp: datetime
    trust_score: float
    metadata: dict

class KnowledgeQuery:
    """
    Unified query interface across all tiers.
    """

    def query(self,
              query: str,
              config: QueryConfig = None) -> list[RetrievalResult]:
        """
        Query knowledge across tiers.

        Routing:
        1. Always query Tier 1 (internal)
        2. Query Tier 2 if categories specified or internal lacks coverage
        3. Query Tier 3 only if explicitly enabled

        Returns:
            Results merged and ranked by relevance * trust
        """
        pass

    def query_with_context(self,
                           query: str,
                           context: dict,
                           config: QueryConfig = None) -> RetrievalResult:
        """
        Query with operational context for better routing.

        Context example:
        {
            "node": "web-server-01",
            "symptom": "high CPU",
            "timeframe": "last 2 hours",
            "already_tried": ["restart", "clear cache"]
        }
        """
        pass

    def get_baseline(self,
                     node: str,
                     metric: str,
                     time_window: str = "7d") -> BaselineStats:
        """Get statistical baseline from internal operations data."""
        pass

    def search_internet(self,
                        query: str,
                        max_results: int = 5) -> list[RetrievalResult]:
        """
        Explicit Tier 3 search.
        Results marked with trust scores and source URLs.
        """
        pass
