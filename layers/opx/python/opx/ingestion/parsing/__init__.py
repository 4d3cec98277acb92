"""Turns the bytes of an object into normalised Markdown text and unvalidated metadata, a file a format."""
