"""Procedures: outlines of documents, their steps, and what their commands do."""
