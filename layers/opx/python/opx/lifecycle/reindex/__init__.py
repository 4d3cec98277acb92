"""A new index beside the old one: filled from the chunk files, kept in step, checked, and switched to in one write."""
