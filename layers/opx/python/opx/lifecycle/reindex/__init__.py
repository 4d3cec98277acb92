"""Builds a new edition of the index from the chunk files, keeps it in step, compares it, and switches in one write."""
