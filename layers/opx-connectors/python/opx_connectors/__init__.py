"""Connectors: kinds of sources, from Jira to the NVD, one module each."""
