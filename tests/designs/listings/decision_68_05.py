from typing import List

from opx.compat.decision_68 import RAGPattern

class OrchestratorContextBuilder:
    """Builds agent context with orchestrator-filtered RAG knowledge."""
    
    async def build_context_for_task(self, task, agent_type) -> str:
        """Build agent context with RAG knowledge injection."""
        patterns = await self.rag.query_for_task(
            task.description, agent_type, task.type, task.technology
        )
        
        if not patterns:
            return self._build_basic_context(task)
        
        rag_context = self._format_patterns_for_agent(patterns)
        return f"{self._build_basic_context(task)}\n\n{rag_context}"
    
    def _format_patterns_for_agent(self, patterns: List[RAGPattern]) -> str:
        """Format RAG patterns to avoid agent confusion."""
        context = "[ORCHESTRATOR CONTEXT: Historical Knowledge]\n\n"
        context += "Similar situations have been resolved these ways:\n\n"
        
        for i, pattern in enumerate(patterns[:3], 1):
            success_label = (
                "Most Common" if pattern.success_count >= 5
                else "Moderate" if pattern.success_count >= 3
                else "Less Common"
            )
            
            context += f"Pattern {i} ({success_label} - {pattern.success_count} successes):\n"
            context += f"- Problem: {pattern.problem}\n"
            context += f"- Solution: {pattern.solution}\n"
            context += f"- When to try: {pattern.when_to_try}\n\n"
        
        context += "Recommendation: Try patterns in order. Pattern 1 is most likely.\n"
        context += "\n[END CONTEXT]\n"
        return context
