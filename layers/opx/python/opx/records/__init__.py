"""Records of questions: audit log, receipts and knowledge gaps."""
