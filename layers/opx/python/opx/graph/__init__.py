"""Knowledge graph of nodes and edges that documents state: extraction, storage with evidence, and queries for readers."""
