"""The library as one object: `Knowledge` for plain calls, `AsyncKnowledge` for those who await."""
