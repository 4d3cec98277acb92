"""The default embedding model, all-MiniLM-L6-v2, made on this machine from the weights in an installed package."""
