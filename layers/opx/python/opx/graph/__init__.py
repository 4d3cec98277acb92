"""Things and relations that documents speak of: found in their text, kept with their evidence, walked by readers."""
