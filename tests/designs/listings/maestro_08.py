from __future__ import annotations

from opx.compat.maestro import Evidence, IngestionManager, KnowledgeQuery, QueryConfig
from tests.designs.agents import Agent

class IncidentInvestigator(Agent):
    """Agent that investigates incidents using tiered knowledge."""

    def __init__(self, system_connector, knowledge: KnowledgeQuery, ingestion: IngestionManager):
        self.system_connector = system_connector
        self.knowledge = knowledge
        self.ingestion = ingestion

    def run(self, context: dict) -> Evidence:
        symptom = context["symptom"]
        node = context["node"]

        # 1. Get current state from monitoring systems
        current = self.system_connector.get_node_status(node)

        # 2. RAG Tier 1: Internal history
        internal_results = self.knowledge.query(
            query=f"{symptom} on {node}",
            config=QueryConfig(
                tiers=["internal"],
                categories=["operations/incidents", "evidence/agent_runs"],
                max_results=5
            )
        )

        # 3. RAG Tier 1: What changed recently?
        changes = self.knowledge.query(
            query=f"changes affecting {node}",
            config=QueryConfig(
                tiers=["internal"],
                categories=["operations/changes"],
                max_results=5
            )
        )

        # 4. RAG Tier 1: Is this anomalous?
        baseline = self.knowledge.get_baseline(
            node=node,
            metric="cpu",
            time_window="7d"
        )

        # 5. RAG Tier 2: Vendor knowledge (if symptom suggests)
        vendor_docs = None
        if self._might_need_vendor_docs(symptom, current):
            vendor_docs = self.knowledge.query(
                query=f"troubleshoot {symptom}",
                config=QueryConfig(
                    tiers=["specialized"],
                    categories=["vendor/microsoft", "vendor/linux"],
                    max_results=3
                )
            )

        # 6. RAG Tier 3: Internet (only if no internal/specialized hits)
        internet_results = None
        if not internal_results and not vendor_docs:
            internet_results = self.knowledge.search_internet(
                query=f"{symptom} {current.os} troubleshoot",
                max_results=3
            )

        # 7. Get runbooks
        runbooks = self.knowledge.query(
            query=f"troubleshoot {symptom}",
            config=QueryConfig(
                tiers=["internal"],
                categories=["runbooks/procedures"],
                max_results=2
            )
        )

        # 8. Synthesize and return evidence
        evidence = self.analyze(
            current, internal_results, changes, baseline,
            vendor_docs, internet_results, runbooks
        )

        # 9. Ingest this run for future reference
        self.ingestion.ingest_from_evidence(evidence)

        return evidence
