"""Procedures of runbooks: their steps, and the effects of their commands."""
