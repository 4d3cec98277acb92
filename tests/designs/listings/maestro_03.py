from __future__ import annotations

from opx.compat.maestro import Document, Evidence, KnowledgeSource
from opx.ingestion.events import IngestionResult

class IngestionManager:
    """
    Unified ingestion interface for all knowledge sources.
    """

    # === PUSH METHODS (Real-time) ===

    def ingest_document(self,
                        tier: str,
                        category: str,
                        document: Document,
                        metadata: dict = None) -> str:
        """
        Direct document ingestion.

        Args:
            tier: "internal", "specialized", "internet"
            category: Category path (e.g., "operations/incidents")
            document: Document to ingest
            metadata: Additional metadata

        Returns:
            Document ID
        """
        pass

    def ingest_batch(self,
                     tier: str,
                     category: str,
                     documents: list[Document],
                     dedupe: bool = True) -> IngestionResult:
        """
        Batch ingestion with optional deduplication.
        """
        pass

    def ingest_from_evidence(self, evidence: Evidence) -> str:
        """
        Ingest agent evidence into internal knowledge.
        Auto-categorizes based on agent type and outcome.
        """
        pass

    # === PULL METHODS (Scheduled) ===

    def register_source(self,
                        source: KnowledgeSource,
                        schedule: str,
                        tier: str,
                        category: str) -> str:
        """
        Register an external source for scheduled pulls.

        Args:
            source: Source connector (e.g., NVDSource, MSDocsSource)
            schedule: Cron expression (e.g., "0 2 * * *" for daily 2AM)
            tier: Target tier
            category: Target category

        Returns:
            Source registration ID
        """
        pass

    def pull_now(self, source_id: str) -> IngestionResult:
        """Force immediate pull from a registered source."""
        pass

    # === FILE WATCH ===

    def watch_directory(self,
                        path: str,
                        tier: str,
                        category: str,
                        pattern: str = "*.md") -> str:
        """
        Watch directory for new/modified files.
        """
        pass

    # === WEBHOOKS ===

    def get_webhook_endpoint(self, tier: str, category: str) -> str:
        """
        Get webhook URL for external systems to push data.
        Returns: https://maestro.local/ingest/{tier}/{category}
        """
        pass

    # === STREAMING ===

    def subscribe_stream(self,
                         stream: str,
                         tier: str,
                         category: str,
                         filter: dict = None) -> str:
        """
        Subscribe to event stream (Kafka, Redis Streams, etc.)
        """
        pass
