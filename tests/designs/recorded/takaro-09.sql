ALTER TABLE knowledge_embeddings
  ADD COLUMN content_with_context TEXT,
  ADD COLUMN content_tsvector TSVECTOR GENERATED ALWAYS AS
    (to_tsvector('english', content)) STORED,
  ADD COLUMN document_title VARCHAR(255),
  ADD COLUMN section_path TEXT[];

CREATE INDEX knowledge_embeddings_tsvector_idx
  ON knowledge_embeddings USING gin(content_tsvector);
