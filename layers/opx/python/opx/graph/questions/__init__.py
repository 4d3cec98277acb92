"""Questions that only the graph answers."""
