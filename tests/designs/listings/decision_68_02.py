from opx.compat.decision_68 import KnowledgeEntry

class KnowledgeCaptureService:
    """Captures learning moments during project execution."""
    
    async def capture_failure_solution(
        self, project_id, agent_type, task_type,
        failure_description, error_message, solution_steps, technology
    ):
        """Capture failed test/task with verified resolution."""
        entry = KnowledgeEntry(
            entry_type="failure_solution",
            project_id=project_id,
            agent_type=agent_type,
            failure_description=failure_description,
            solution_steps=solution_steps,
            success_verified=True
        )
        await self._stage_for_embedding(entry)
    
    async def capture_gate_rejection(
        self, project_id, gate_type, human_feedback, revision_approach
    ):
        """Capture human gate rejection with feedback."""
        entry = KnowledgeEntry(
            entry_type="gate_rejection",
            gate_type=gate_type,
            human_feedback=human_feedback,
            revision_approach=revision_approach
        )
        await self._stage_for_embedding(entry)
    
    async def capture_gate_approval(
        self, project_id, gate_type, approved_approach
    ):
        """Capture first-attempt gate approval (gold standard)."""
        entry = KnowledgeEntry(
            entry_type="gate_approval",
            gate_type=gate_type,
            approved_approach=approved_approach
        )
        await self._stage_for_embedding(entry)
