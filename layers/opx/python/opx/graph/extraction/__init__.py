"""Extracts statements about nodes and edges from documents."""
