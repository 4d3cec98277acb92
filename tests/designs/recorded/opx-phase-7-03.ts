interface DocumentChunk {
  chunkId: string;              // Deterministic hash
  documentId: string;
  chunkIndex: number;
  content: string;
  tokenCount: number;
  metadata: {
    documentTitle: string;
    category: string;
    tags: string[];
  };
}
