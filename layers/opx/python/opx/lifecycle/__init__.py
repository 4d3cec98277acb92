"""Document lifecycle: versions, retention, archives, reconciliation, reindexing and offboarding."""
