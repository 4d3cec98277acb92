"""Records of queries: the audit log and knowledge gaps."""
