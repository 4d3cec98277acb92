"""Labelled pairs of documents, of which half contradict each other, and the figures of their detection.

`development.jsonl` was looked at while the rules were written, `unseen.jsonl` was written before and measured after that.
"""
