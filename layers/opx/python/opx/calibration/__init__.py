"""Fits the models of confidence to the corpus and the embedding model of a deployment."""
