"""Source code, by tree-sitter."""
