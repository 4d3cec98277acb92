from typing import List

from opx.compat.decision_68 import RAGPattern

class RAGQueryService:
    """Orchestrator-only service for querying RAG knowledge."""
    
    async def query_for_task(
        self, task_description, agent_type, task_type, technology, max_results=5
    ) -> List[RAGPattern]:
        """Query RAG for relevant patterns before task assignment."""
        query_embedding = await self._generate_embedding(task_description)
        
        results = await self.qdrant.search(
            collection_name="project_knowledge",
            query_vector=query_embedding,
            query_filter={
                "agent_type": agent_type,
                "task_type": task_type
            },
            limit=max_results,
            score_threshold=0.7
        )
        
        patterns = [self._format_as_pattern(r) for r in results]
        return self._rank_patterns(patterns)[:5]
    
    async def query_for_failure(
        self, failure_description, error_message, agent_type, task_type
    ) -> List[RAGPattern]:
        """Query RAG for similar failure resolutions."""
        query_text = f"Failure: {failure_description}\nError: {error_message}"
        query_embedding = await self._generate_embedding(query_text)
        
        results = await self.qdrant.search(
            collection_name="project_knowledge",
            query_vector=query_embedding,
            query_filter={
                "entry_type": "failure_solution",
                "agent_type": agent_type
            },
            limit=5,
            score_threshold=0.75
        )
        
        patterns = [self._format_as_pattern(r) for r in results]
        return self._rank_patterns(patterns)[:3]
