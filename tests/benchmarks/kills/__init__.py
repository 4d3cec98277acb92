"""Kills capture, checkpoint, pruning and reindexing by SIGKILL at random moments, and checks the result."""
