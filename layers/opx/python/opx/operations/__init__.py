"""The use cases: one function each, with a typed request and a typed reply."""
