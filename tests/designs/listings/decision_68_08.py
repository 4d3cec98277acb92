
# Create collection
qdrant_client.create_collection(
    collection_name="project_knowledge",
    vectors_config=VectorParams(
        size=1536,  # text-embedding-3-small dimension
        distance=Distance.COSINE
    )
)

# Create payload indexes
qdrant_client.create_payload_index("project_knowledge", "entry_type", "keyword")
qdrant_client.create_payload_index("project_knowledge", "agent_type", "keyword")
qdrant_client.create_payload_index("project_knowledge", "task_type", "keyword")
qdrant_client.create_payload_index("project_knowledge", "technology", "keyword")
