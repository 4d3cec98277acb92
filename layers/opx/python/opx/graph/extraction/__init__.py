"""Finds what documents say of things and their relations."""
