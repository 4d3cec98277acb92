from datetime import datetime

class CheckpointEmbeddingService:
    """Processes staged knowledge at checkpoints and embeds in Qdrant."""
    
    async def process_checkpoint(self, project_id, checkpoint_type):
        """Batch process all staged knowledge for a project."""
        staged_entries = await self.db.fetch_staged(project_id)
        
        for entry in staged_entries:
            # Generate embedding
            text = self._format_entry_for_embedding(entry)
            embedding = await self.openai.embeddings.create(
                model="text-embedding-3-small",
                input=text
            )
            
            # Store in Qdrant
            await self.qdrant.upsert(
                collection_name="project_knowledge",
                points=[{
                    "id": entry.id,
                    "vector": embedding.data[0].embedding,
                    "payload": {
                        "entry_type": entry.entry_type,
                        "agent_type": entry.agent_type,
                        "task_type": entry.task_type,
                        "text": text,
                        "success_count": 1,
                        "embedded_at": datetime.now().isoformat()
                    }
                }]
            )
