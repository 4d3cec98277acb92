from datetime import datetime, timedelta

class KnowledgePruningService:
    """Automatically prunes knowledge older than 1 year."""
    
    async def prune_old_knowledge(self) -> int:
        """Delete knowledge embedded more than 1 year ago."""
        cutoff_date = datetime.now() - timedelta(days=365)
        
        all_points = await self.qdrant.scroll(
            collection_name="project_knowledge",
            limit=10000
        )
        
        points_to_delete = [
            point.id for point in all_points[0]
            if datetime.fromisoformat(point.payload['embedded_at']) < cutoff_date
        ]
        
        if points_to_delete:
            await self.qdrant.delete(
                collection_name="project_knowledge",
                points_selector={"points": points_to_delete}
            )
        
        return len(points_to_delete)
