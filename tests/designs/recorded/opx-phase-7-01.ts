interface KnowledgeDocument {
  documentId: string;           // Deterministic hash
  title: string;
  category: 'runbook' | 'postmortem';
  tags: string[];
  s3Location: string;
  metadata: {
    author: string;
    version: string;
    lastUpdated: string;
  };
  createdAt: string;
}
