"""Evaluates pattern queries: labelled cases of one project's patterns, queried by another project in other words."""
